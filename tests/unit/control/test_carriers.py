"""Paths taken by a coordinator's shell, on the records of a run directory."""

import pytest
from tests.unit.runtime.test_hot_paths import DEPLOYMENT as HOT
from tests.unit.runtime.test_paths import DEPLOYMENT, SPLIT, published

from holdfast.control.shell.carriers import Carriers
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.paths import carried
from holdfast.streams.handover import Birth

pytestmark = pytest.mark.unit


def test_a_run_without_records_begins_as_it_was_deployed(tmp_path):
    """Nothing is put before a unit has begun."""
    made = Carriers(tmp_path, DEPLOYMENT, writer="c0")
    now = made.take("score", "rules", reason="early")
    assert (now.path, now.change, now.units) == ("model", 0, ("score.0#0",))
    assert not (tmp_path / "streams").exists()


def test_a_path_is_taken_and_its_logs_are_sealed(tmp_path):
    """Whoever asks again changes nothing; without a path it is only said which one carries."""
    log = SliceLog(tmp_path)
    begin(log, DEPLOYMENT)
    published(log, "score.0#0", 0, after=-1, upto=3)
    made = Carriers(tmp_path, DEPLOYMENT, writer="c0")
    assert made.take("score", "", reason="").path == "model"
    now = made.take("score", "rules", reason="model hangs")
    assert (now.path, now.change, now.units) == ("rules", 1, ("score.1#0",))
    assert log.run(log.steps().birth("score.1#0")) == Birth(epoch=3)
    assert made.take("score", "rules", reason="again") == now
    assert Carriers(tmp_path, DEPLOYMENT, writer="c1").take("score", "rules", reason="x") == now
    assert carried(log, SPLIT) == now


def test_a_hot_path_is_shut_down_and_begun_again(tmp_path):
    """Not while its split takes it; before the run has begun there is nothing to do."""
    made = Carriers(tmp_path, HOT, writer="c0")
    assert made.keep("score.model", runs=True, reason="") == ()
    assert made.keep("score.model", runs=False, reason="") is None
    log = SliceLog(tmp_path)
    begin(log, HOT)
    assert made.keep("score.model", runs=True, reason="") == ("score.model.0#0",)
    assert made.keep("score.model", runs=False, reason="failed") is None
    made.take("score", "rules", reason="failed")
    assert made.keep("score.model", runs=False, reason="failed") == ()
    assert not log.carriers("score.model")
    other = Carriers(tmp_path, HOT, writer="c1")
    assert other.keep("score.model", runs=True, reason="closed by hand") == ("score.model.2#0",)
