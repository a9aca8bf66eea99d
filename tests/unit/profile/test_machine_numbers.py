"""The machine's numbers: kept, told and split into phases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.predict.statistics import REFERENCE_MACHINE, Measure
from holdfast.profile import cache
from holdfast.profile.recoveries import restore_time
from holdfast.profile.spark.operators import without_state

pytestmark = pytest.mark.unit


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_without_a_profile_the_reference_is_taken_and_said(home):
    """Nobody can mistake a reference value for a measured one."""
    found = cache.known_machine()
    assert found.detection.value == REFERENCE_MACHINE.detection.value
    assert found.detection.how.startswith("not measured here")
    assert found.slice_read.per_byte.how.startswith("not measured here")
    assert found.cores == cache.cores()


def test_a_profile_is_kept_for_the_next(home):
    """What a full profile measured comes back, with the day of it."""
    measured = Measure(value=0.11, p95=0.2, samples=7, how="kill -9")
    path = cache.save_machine(replace(REFERENCE_MACHINE, detection=measured))
    assert home in path.parents
    found = cache.known_machine().detection
    assert (found.value, found.p95, found.samples) == (0.11, 0.2, 7)
    assert found.how.startswith("kill -9 (profile of 20")
    assert cache.known_machine().refill.how == REFERENCE_MACHINE.refill.how + found.how[7:]
    cache.save_machine(cache.known_machine())
    assert cache.known_machine().detection.how == found.how
    path.write_text("{}")
    assert cache.known_machine().detection.how.startswith("not measured here")


def test_a_restore_ends_where_its_first_slice_began():
    """The slow first batch belongs to the restore, a usual batch does not."""
    found = restore_time(
        detected_at=100.3, restored_at=101.0, due_at=100.5, first_at=103.0, usual_s=0.5
    )
    assert found.seconds == pytest.approx(2.2)
    assert found.after_running == pytest.approx(1.5)
    assert found.waited == 0


def test_waiting_for_input_is_no_part_of_a_restore():
    """The unit ran at 101.0 and its input was due at 101.4 only."""
    found = restore_time(
        detected_at=100.3, restored_at=101.0, due_at=101.4, first_at=103.0, usual_s=0.5
    )
    assert found.seconds == pytest.approx(1.8)
    assert found.waited == pytest.approx(0.4)


def test_a_restore_never_ends_before_the_unit_runs():
    """A unit that was slow before the kill does not make its restore look quick."""
    found = restore_time(
        detected_at=100.1, restored_at=101.0, due_at=0.0, first_at=102.0, usual_s=9.0
    )
    assert found.seconds == pytest.approx(0.9)
    assert found.after_running == 0


def test_writing_state_is_counted_once():
    """What a plan adds for changelogs is taken out of the cost per tuple, never below nothing."""
    cost, rate = Measure(value=1e-5, error=1e-6), Measure(value=100.0)
    change, per_byte = Measure(value=5000.0), Measure(value=1e-8)
    assert without_state(cost, change, rate, per_byte).value == pytest.approx(9.5e-6)
    assert without_state(cost, change, Measure(value=0.0), per_byte) is cost
    dear = Measure(value=1.0)
    assert without_state(cost, change, rate, dear).value == 0
