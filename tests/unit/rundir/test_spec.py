"""RUN/run.json is read back as it was written, and only where there is one."""

import json

import pytest

from holdfast.errors import BadInputError
from holdfast.health.heartbeat import HeartbeatPolicy
from holdfast.health.policy import Policy
from holdfast.pipeline import Parquet, Pipeline, Rate, deploy
from holdfast.rundir.contents import spec_path
from holdfast.rundir.spec import RunSpec, read_spec, write_spec

pytestmark = pytest.mark.unit


def spec():
    p = Pipeline("p")
    p.sink("out", p.source("rows", Rate(10)), Parquet("out"))
    return RunSpec(
        app="app.py:pipeline",
        host="spark",
        deployment=deploy(p),
        policy=Policy(workers=3, heartbeat=HeartbeatPolicy(kind="fixed", timeout_s=1.25)),
        options={"keep_input": True},
    )


def test_what_runs_survives_the_file(tmp_path):
    """Deployment, policy and options come back equal."""
    write_spec(tmp_path / "run", spec())
    assert read_spec(tmp_path / "run") == spec()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.json"]


def test_other_directories_and_formats_are_refused(tmp_path):
    """Each in one line that names the place."""
    with pytest.raises(BadInputError, match="is not a run directory"):
        read_spec(tmp_path)
    spec_path(tmp_path).write_text("{")
    with pytest.raises(BadInputError, match="not JSON"):
        read_spec(tmp_path)
    spec_path(tmp_path).write_text("[]")
    with pytest.raises(BadInputError, match=r"run.json: is no object"):
        read_spec(tmp_path)
    spec_path(tmp_path).write_text(json.dumps({**spec().to_json(), "format": "other/9"}))
    with pytest.raises(BadInputError, match="unknown format 'other/9'"):
        read_spec(tmp_path)
