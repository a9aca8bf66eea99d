"""What ordinary runs teach."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.predict.learned import KEPT, Expected, Learned, Recovery, Seen, changed, refined
from holdfast.predict.segments import SegmentPlan
from holdfast.predict.statistics import Measure, OperatorStatistics, Statistics

pytestmark = pytest.mark.unit

STATISTICS = Statistics(
    operators={
        "count": OperatorStatistics(
            input_rate=Measure(value=1000.0, samples=9),
            output_rate=Measure(value=100.0, samples=9),
            state_size=Measure(value=1e6, samples=3),
            batch_fixed=Measure(value=0.1, samples=5),
            build=Measure(value=0.5, samples=1),
        )
    }
)
EXPECTED = {
    "count": Expected(
        plan=SegmentPlan(operators=(0,), interval_s=2.0, snapshot_batches=10),
        operators=("count",),
        rate_in=1000.0,
        batch_s=0.4,
        state_bytes=1e6,
        restore_s=0.8,
    )
}


def looked(times=20, *, rate=1000.0, batch=0.4, state=1e6, recoveries=()):
    """A run that was looked at so often and was always the same."""
    learned = Learned()
    for _ in range(times):
        seen = Seen(rate_in=rate, batch_s=batch, state_bytes=state)
        learned = learned.add({"count": seen}, recoveries)
    return learned


def test_what_is_as_profiled_changes_nothing():
    """A run that does what was expected leaves the statistics as they are."""
    assert refined(STATISTICS, EXPECTED, looked()) == (STATISTICS, ())


def test_rates_follow_the_rows_that_are_read():
    """Twice the rows double rates in and out, and are told as what they are."""
    found, (drift,) = refined(STATISTICS, EXPECTED, looked(rate=2000.0, batch=0.7))
    assert found.operators["count"].input_rate.value == pytest.approx(2000.0)
    assert found.operators["count"].output_rate.value == pytest.approx(200.0)
    # Longer batches are the rate's doing.
    assert found.operators["count"].batch_fixed.value == 0.1
    assert drift.words == "rows into count: 1e+03 /s as profiled, 2e+03 /s now (20 samples)"


def test_slower_batches_at_the_same_rate_are_a_fixed_cost():
    """Batches that take longer than predicted do so by a fixed part."""
    found, (drift,) = refined(STATISTICS, EXPECTED, looked(batch=0.9))
    assert found.operators["count"].batch_fixed.value == pytest.approx(0.6)
    assert drift.what == "batches of count"


def test_state_is_what_it_is_now():
    """State that has grown is loaded by the next restore."""
    found, (drift,) = refined(STATISTICS, EXPECTED, looked(state=5e6))
    assert found.operators["count"].state_size.value == 5e6
    assert drift.unit == "MB"


def test_recoveries_teach_restores_and_detection():
    """What restores took beyond the profile's goes to building, and is drawn from."""
    seen = tuple(
        Recovery(id=number, segment="count", detect_s=0.4, restore_s=2.0 + number / 10)
        for number in range(4)
    )
    found, drifts = refined(STATISTICS, EXPECTED, looked(recoveries=seen))
    build = found.operators["count"].build
    assert build.value == pytest.approx(0.5 + 2.15 - 0.8)
    assert len(build.values) == 4
    assert {drift.what for drift in drifts} == {"restores of count", "detection"}
    assert found.machine.detection.value == pytest.approx(0.4)


def test_too_few_samples_teach_nothing():
    """A run that has just begun is not believed."""
    assert refined(STATISTICS, EXPECTED, looked(3, rate=9000.0)) == (STATISTICS, ())


def test_one_busy_minute_teaches_nothing():
    """Samples that lie on both sides of what was expected do not agree."""
    assert changed([1.0, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0], 1.0) is None
    assert changed([1.0, 1.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0], 1.0) == 9.0


@given(st.lists(st.floats(0, 1e6), max_size=300))
def test_what_is_kept_is_bounded_and_survives_its_file(rates):
    """However long a run is, the latest samples are kept and read back the same."""
    learned = Learned()
    for number, rate in enumerate(rates):
        recovery = Recovery(id=number, segment="count", detect_s=0.1, restore_s=1.0)
        learned = learned.add({"count": Seen(rate_in=rate)}, [recovery])
    assert len(learned.segments.get("count", ())) == min(len(rates), KEPT)
    assert len(learned.recoveries) == min(len(rates), KEPT)
    assert Learned.from_json(json.loads(json.dumps(learned.to_json()))) == learned
    if rates:
        assert learned.segments["count"][-1].rate_in == rates[-1]


def test_a_file_of_another_format_teaches_nothing():
    """What another version kept is left alone."""
    assert Learned.from_json({"format": "holdfast-learned/99"}) == Learned()
