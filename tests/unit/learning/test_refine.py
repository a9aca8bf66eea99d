"""A profile as it would be now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.learning.refine import Expected, lost_together, refined
from holdfast.learning.samples import Learned, Recovery, Seen
from holdfast.predict.statistics import Measure, OperatorStatistics, Statistics

pytestmark = pytest.mark.unit

STATISTICS = Statistics(
    operators={
        "count": OperatorStatistics(
            input_rate=Measure(value=1000.0, samples=9),
            output_rate=Measure(value=100.0, samples=9),
            cost=Measure(value=5e-5, samples=9),
            state_size=Measure(value=1e6, samples=3),
            batch_fixed=Measure(value=0.1, samples=5),
            build=Measure(value=0.5, samples=1),
        )
    }
)


def expect(statistics, work=5e-5):
    """Batches of 2 s: a fixed part and what rows cost."""
    count = statistics.operators["count"]
    cost = work * count.cost.value / 5e-5
    work_s = 2.0 * cost * count.input_rate.value
    return {
        "count": Expected(
            operators=("count",),
            reads=("lines",),
            rate_in=count.input_rate.value,
            batch_s=0.2 + count.batch_fixed.value + work_s,
            state_bytes=count.state_size.value,
            restore_s=0.8,
        )
    }


def costly(statistics):
    """The same, where rows are most of a batch."""
    return expect(statistics, work=5e-4)


def looked(times=20, *, rate=1000.0, batch=0.4, state=1e6, recoveries=()):
    """A run that was looked at so often and was always the same."""
    learned = Learned()
    for _ in range(times):
        seen = Seen(rate_in=rate, batch_s=batch, state_bytes=state)
        learned = learned.add({"count": seen}, recoveries)
    return learned


def test_what_is_as_profiled_changes_nothing():
    """A run that does what was expected leaves the statistics as they are."""
    assert refined(STATISTICS, expect, looked()) == (STATISTICS, ())


def test_rates_follow_the_rows_that_are_read():
    """Twice the rows double rates in and out, and explain the longer batches."""
    found, (drift,) = refined(STATISTICS, expect, looked(rate=2000.0, batch=0.5))
    assert found.operators["count"].input_rate.value == pytest.approx(2000.0)
    assert found.operators["count"].output_rate.value == pytest.approx(200.0)
    assert found.operators["count"].batch_fixed.value == 0.1
    assert drift.words == "rows into count: 1000 /s as profiled, 2000 /s now (20 samples)"
    assert drift.worse


def test_bursts_have_the_rate_of_their_mean():
    """Rows that come every third batch, twice as many as profiled, are twice as many."""
    learned = Learned()
    for number in range(120):
        rate = 0.0 if number % 3 else 6000.0
        learned = learned.add({"count": Seen(rate_in=rate)})
    found, drifts = refined(STATISTICS, expect, learned)
    if drifts:  # bursts may hide a change, but never make one up
        assert found.operators["count"].input_rate.value == pytest.approx(2000.0, rel=0.1)


def test_costlier_rows_are_told_from_more_rows():
    """Both change at once: batches are compared with what twice the rows would take."""
    # 0.3 s fixed, 1 s of rows as profiled; twice the rows at twice the cost make 4.3 s.
    found, drifts = refined(STATISTICS, costly, looked(rate=2000.0, batch=4.3))
    assert [one.number for one in drifts] == ["rate", "cost"]
    assert found.operators["count"].cost.value == pytest.approx(1e-4, rel=1e-3)
    assert drifts[1].words == "cost per row of count: 50 us as profiled, 100 us now (20 samples)"


def test_slower_batches_that_rows_do_not_explain_are_a_fixed_cost():
    """Where most of a batch is fixed, so is what it takes longer."""
    found, (drift,) = refined(STATISTICS, expect, looked(batch=0.9))
    assert found.operators["count"].batch_fixed.value == pytest.approx(0.6)
    assert drift.number == "batch"


def test_state_is_what_it_is_now():
    """State that has grown is loaded by the next restore."""
    found, (drift,) = refined(STATISTICS, expect, looked(state=5e6))
    assert found.operators["count"].state_size.value == 5e6
    assert drift.number == "state"


def test_overload_is_not_counted_as_costlier_rows():
    """Where the machine has too much to do batches take longer; if they do not, rows are cheap."""

    def overloaded(statistics):
        found = costly(statistics)["count"]
        return {"count": replace(found, overloaded=found.batch_s > 1.0)}

    assert refined(STATISTICS, overloaded, looked(batch=9.0))[1] == ()
    _, (drift,) = refined(STATISTICS, overloaded, looked(batch=0.5))
    assert drift.number == "cost"
    assert not drift.worse


def test_recoveries_teach_restores_and_detection():
    """What restores took beyond the profile's goes to building, and is drawn from."""
    seen = tuple(
        Recovery(id=number, segment="count", detect_s=0.4, restore_s=2.0 + number / 10)
        for number in range(4)
    )
    found, drifts = refined(STATISTICS, expect, looked(recoveries=seen))
    build = found.operators["count"].build
    assert build.value == pytest.approx(0.5 + 2.15 - 0.8)
    assert len(build.values) == 4
    assert {drift.number for drift in drifts} == {"restore", "detection"}
    assert found.machine.detection.value == pytest.approx(0.4)


def test_a_segment_that_never_gets_done_has_the_rows_of_what_it_reads():
    """Without a batch nothing is known of it, but that what it reads gets twice the rows."""

    def two(statistics):
        lines = replace(expect(STATISTICS)["count"], operators=("lines",), reads=())
        return {"lines": lines, **expect(statistics)}

    learned = Learned(segments={"lines": (Seen(rate_in=2000.0),) * 20})
    found, (drift,) = refined(STATISTICS, two, learned)
    assert drift.segment == "lines"
    assert found.operators["count"].input_rate.value == pytest.approx(2000.0)


def test_too_few_samples_teach_nothing():
    """A run that has just begun is not believed."""
    assert refined(STATISTICS, expect, looked(3, rate=9000.0)) == (STATISTICS, ())


def test_only_what_the_plan_loses_together_counts():
    """A plan with count and join on one node says nothing of the loss of count alone."""
    alone = Recovery(id=1, segment="count", detect_s=0.1, restore_s=1.0, cause="a")
    both = [
        Recovery(id=2, segment="count", detect_s=0.1, restore_s=2.0, cause="b"),
        Recovery(id=3, segment="join", detect_s=0.1, restore_s=2.0, cause="b"),
        Recovery(id=4, segment="exporter", detect_s=0.1, restore_s=2.0, cause="b"),
    ]
    assert lost_together([alone, *both], [["count", "join"], ["lines"]]) == tuple(both[:2])
    assert lost_together([alone, *both], [["count"], ["join"]]) == (alone, *both[:2])
