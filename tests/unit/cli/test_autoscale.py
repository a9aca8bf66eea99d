"""`run --autoscale`: which policy decides, and where it says what it does."""

from types import SimpleNamespace

import pytest

from holdfast.cli.autoscale import autoscaled
from holdfast.control.elastic.predict import PredictPolicy
from holdfast.control.elastic.threshold import ThresholdPolicy
from holdfast.deployment import Deployment, Segment
from holdfast.errors import BadInputError
from holdfast.runtime import autoscale

pytestmark = pytest.mark.unit

COUNT = Segment(name="count", kind="inner", operators=("count",), max_shards=4, stateful=True)
FIXED = Segment(name="sum", kind="inner", operators=("sum",), stateful=True)


def local_run(folder, *segments):
    """A run as far as the autoscaler knows it, and what is put into its timeline."""
    deployment = Deployment(pipeline="p", epoch_s=1.0, segments=segments, fingerprints={})
    kept = []
    return SimpleNamespace(
        run_dir=folder,
        spec=SimpleNamespace(deployment=deployment),
        note_scaling=kept.append,
        kept=kept,
    )


@pytest.mark.parametrize(
    ("name", "policy"), [("predict", PredictPolicy()), ("threshold", ThresholdPolicy())]
)
def test_the_policy_is_the_one_asked_for(tmp_path, monkeypatch, name, policy):
    """And what it says goes to people and into the timeline."""
    made = []

    def rescaler(records, deployment, policy, *, tell, **settings):
        tell(f"at most {settings['most_in_all']} shards")
        made.append(policy)

    monkeypatch.setattr(autoscale, "Rescaler", rescaler)
    local, told = local_run(tmp_path, COUNT), []
    with autoscaled(local, 3, name, told.append):
        pass
    assert made == [policy]
    assert local.kept == told == ["at most 3 shards"]


def test_what_cannot_scale_is_refused(tmp_path):
    """Before anything is watched."""
    with (
        pytest.raises(BadInputError, match="max_shards"),
        autoscaled(local_run(tmp_path, FIXED), 3, "predict", print),
    ):
        pass
