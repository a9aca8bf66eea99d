"""Recovery times from slices, where faults strike, and when a bound counts as broken."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.deployment import Boundary, Deployment, Segment
from holdfast.errors import BadInputError
from holdfast.plan import FtcPlan, JointPlan, Latency, RecoveryPhases
from holdfast.prove.aim import aims
from holdfast.prove.judge import (
    PHASES,
    Comparison,
    Failure,
    Normal,
    Pace,
    Promise,
    Recovered,
    SeenSlice,
    binomial_tail,
    bound_kept,
    compare,
    complete_again,
    measure,
    most_broken,
    paces,
    promises,
)

pytestmark = pytest.mark.unit

PACE = Pace(origin=1000.0, epoch_s=1.0, batch_epochs=1)
NORMAL = Normal(median=0.4, p95=0.5, slices=20)


def slices(*ends, first=5, generation=2, pace=PACE):
    """Slices of a new generation: (end epoch, lag) each, from an epoch on."""
    found, after = [], first
    for number, (upto, lag) in enumerate(ends):
        found.append(
            SeenSlice(
                number=number,
                after=after,
                upto=upto,
                generation=generation,
                put_at=pace.due(upto) + lag,
            )
        )
        after = upto
    return found


def failure(killed_at=1006.6, **known):
    return Failure(unit="count.0#0", killed_at=killed_at, generation=1, **known)


def recovery(seconds, unit="count.0#0", fault=0):
    return Recovered(fault=fault, unit=unit, killed_at=0.0, seconds=seconds)


def test_a_recovery_ends_when_nothing_is_missing():
    """Detected, restored, a late slice, one that holds the backlog; then they only come slower."""
    seen = slices((6, 2.6), (8, 1.0), (9, 0.9), (10, 0.9))
    found = measure(3, failure(detected_at=1006.9, restored_at=1008.9), PACE, NORMAL, seen)
    # Killed at 1006.6. The second slice came at 1010, and the next was not to come before 1010.4.
    assert found.fault == 3
    assert found.seconds == found.settled == pytest.approx(3.4)
    assert found.late_slices == 2
    assert found.phases == pytest.approx(
        {"detection": 0.3, "restore": 2.0, "replay": 0.7, "catch_up": 0.4}
    )
    assert sum(found.phases.values()) == pytest.approx(found.seconds)


def test_a_slice_that_leaves_another_one_missing_does_not_end_it():
    """It came after the next one should have."""
    seen = slices((6, 2.6), (8, 1.5), (9, 0.9))
    found = measure(0, failure(restored_at=1008.9), PACE, NORMAL, seen)
    assert found.late_slices == 3
    assert found.seconds == pytest.approx(1010.9 - 1006.6)


def test_a_slice_with_the_whole_backlog_ends_the_recovery():
    """It comes at the normal lag of its last epoch and late for its first."""
    seen = slices((9, 0.4), (10, 0.4))
    found = measure(0, failure(restored_at=1009.0), PACE, NORMAL, seen)
    assert found.late_slices == 1
    assert found.seconds == found.settled == pytest.approx(1010.4 - 1006.6)


def test_waiting_for_input_is_no_recovery():
    """The unit was back before anything was due: its first batch counts, the pause does not."""
    pace = Pace(origin=1000.0, epoch_s=1.0, batch_epochs=8)
    seen = slices((15, 0.4), (23, 0.4), first=7, pace=pace)
    known = failure(killed_at=1009.0, detected_at=1009.3, restored_at=1011.5)
    found = measure(0, known, pace, NORMAL, seen)
    assert found.late_slices == 0
    assert found.waited == pytest.approx(4.5)
    assert found.seconds == pytest.approx(2.5 + 0.4)
    assert found.settled == pytest.approx(7.4)
    assert found.phases == pytest.approx(
        {"detection": 0.3, "restore": 2.2, "replay": 0.4, "catch_up": 0.0}
    )


def test_a_slow_first_batch_counts_from_when_it_was_due():
    """Back at 1011.5, due at 1016, published late at 1018: it waited 4.5 s and worked 2 s."""
    pace = Pace(origin=1000.0, epoch_s=1.0, batch_epochs=8)
    seen = slices((15, 2.0), (23, 0.4), first=7, pace=pace)
    known = failure(killed_at=1009.0, detected_at=1009.3, restored_at=1011.5)
    found = measure(0, known, pace, NORMAL, seen)
    assert found.late_slices == 1
    assert found.seconds == pytest.approx(2.5 + 2.0)
    assert found.phases["catch_up"] == pytest.approx(0.0)


def test_waiting_for_inputs_that_were_lost_too_is_no_recovery_but_delays_results():
    """Back at 1007.4, its input came at 1009 and its slice at 1009.3, where 1007.4 was normal."""
    inputs = [*slices((5, 0.1), generation=1, first=4), *slices((8, 0.0), (9, 0.1))]
    pace = Pace(origin=1000.0, epoch_s=1.0, batch_epochs=1, inputs=[inputs])
    seen = slices((8, 0.3), (9, 0.3), pace=PACE)
    known = failure(detected_at=1006.7, restored_at=1007.4)
    own = measure(0, known, pace, Normal(median=0.3, p95=0.3, slices=20), seen)
    assert own.waited == pytest.approx(1.6)
    assert own.seconds == pytest.approx(0.8 + 0.3)
    complete = measure(0, known, pace.whatever_the_inputs, NORMAL, seen)
    assert complete.seconds == pytest.approx(1009.3 - 1006.6)


def test_inputs_that_were_trimmed_unseen_count_as_there():
    """A slice that was missed must not make a later one stand for it."""
    pace = Pace(origin=1000.0, epoch_s=1.0, batch_epochs=1, inputs=[slices((9, 3.0), first=8)])
    assert pace.due(5) == PACE.due(5)
    assert pace.due(9) == PACE.due(9) + 3.0


def test_results_are_complete_when_the_last_unit_is():
    """Per fault the longest; one that was not seen to end makes it unknown."""
    hit = [
        Recovered(fault=0, unit="a.0#0", killed_at=5.0, seconds=1.0, complete=1.0),
        Recovered(fault=0, unit="b.0#0", killed_at=5.0, seconds=1.0, complete=2.5),
        Recovered(fault=1, unit="a.0#0", killed_at=9.0, seconds=1.0, complete=1.5),
        Recovered(fault=1, unit="b.0#0", killed_at=9.0, seconds=None),
    ]
    said = [Promise(segment=name, operators=(name,), bound=2.0) for name in ("a", "b")]
    back = Latency(median=2.0, p95=3.0)
    plan = JointPlan(algorithm="exact", feasible=True, results_recovery=back)
    found = complete_again(plan, compare(said, hit))
    assert [item.seconds for item in found.recoveries] == [2.5, None]
    assert (found.promise.median, found.promise.p95, found.broken) == (2.0, 3.0, 2)


def test_slices_of_the_killed_generation_do_not_count():
    """What it published in its last moment is no sign of life."""
    old = slices((6, 0.4), generation=1)
    assert measure(0, failure(), PACE, NORMAL, old).seconds is None
    both = [*old, *slices((8, 1.3), (9, 0.4), first=6)]
    assert measure(0, failure(), PACE, NORMAL, both).late_slices == 1


def test_a_unit_that_stays_late_has_not_recovered():
    """No time is made up for it."""
    found = measure(0, failure(restored_at=1009.0), PACE, NORMAL, slices((6, 3.0), (7, 2.9)))
    assert found.seconds is None
    assert found.settled is None
    assert found.late_slices == 2


def test_the_coordinator_may_hear_of_a_restart_after_its_first_slice():
    """The log wins."""
    seen = slices((9, 0.4))
    found = measure(0, failure(restored_at=1015.0), PACE, NORMAL, seen)
    assert found.seconds == pytest.approx(1010.4 - 1006.6)


@given(
    lags=st.lists(st.floats(0.0, 20.0), min_size=1, max_size=8),
    detected=st.none() | st.floats(0, 30),
    restored=st.none() | st.floats(0, 30),
)
def test_phases_always_add_up(lags, detected, restored):
    """Whatever the clocks say, phases are not negative and their sum is the recovery."""
    ends = np.maximum.accumulate([i + lag for i, lag in enumerate(lags)])
    seen = slices(*((6 + i, end - i) for i, end in enumerate(ends.tolist())))
    known = failure(
        detected_at=None if detected is None else 1006.6 + detected,
        restored_at=None if restored is None else 1006.6 + restored,
    )
    found = measure(0, known, PACE, NORMAL, seen)
    if found.seconds is not None:
        assert found.phases is not None
        assert min(found.phases.values()) >= 0
        assert sum(found.phases.values()) == pytest.approx(found.seconds)
        assert found.seconds + found.waited <= found.settled + 1e-9


def test_the_normal_lag_has_a_tolerance():
    """A quarter above the 95th percentile, and never less than 0.15 s."""
    calm = slices(*((6 + i, 0.1 * (i + 1)) for i in range(10)))
    normal = Normal.of(PACE, calm)
    assert normal.median == pytest.approx(0.55)
    assert normal.p95 == pytest.approx(0.955)
    assert normal.limit == pytest.approx(0.955 * 1.25)
    assert Normal(median=0.1, p95=0.1, slices=9).limit == pytest.approx(0.25)


def test_a_slice_of_several_intervals_is_late_by_its_first():
    """Intervals end at whole multiples, wherever the slice before ended."""
    pace = Pace(origin=0.0, epoch_s=1.0, batch_epochs=4)
    item = SeenSlice(number=0, after=5, upto=15, generation=1, put_at=17.0)
    assert pace.lag(item) == pytest.approx(1.0)
    assert pace.delay(item) == pytest.approx(17.0 - 8.0)


def make_deployment():
    lines, count = Boundary(operator="lines"), Boundary(operator="count")
    segments = (
        Segment(
            name="lines", kind="source", operators=("lines",), outputs=(lines,), batch_epochs=4
        ),
        Segment(
            name="count",
            kind="inner",
            operators=("split", "count"),
            inputs=("lines",),
            outputs=(count,),
            shards=2,
        ),
        Segment(name="out", kind="exporter", operators=("out",), inputs=("count",)),
    )
    return Deployment(pipeline="p", epoch_s=0.5, segments=segments, fingerprints={})


def test_a_unit_runs_no_more_often_than_its_input():
    """Its interval in force is that of its slowest input; exporters publish nothing."""
    published = {"lines.0#0": [], "count.0#0": [], "count.0#1": []}
    found = paces(make_deployment(), 7.0, published)
    assert list(found) == ["lines.0#0", "count.0#0", "count.0#1"]
    assert {pace.interval_s for pace in found.values()} == {2.0}
    assert found["lines.0#0"].inputs == []
    assert found["count.0#1"].inputs[0] is published["lines.0#0"]


@given(
    units=st.integers(1, 5),
    faults=st.integers(0, 40),
    seed=st.integers(0, 1000),
)
def test_faults_are_spread_over_units_and_phases(units, faults, seed):
    """Every unit in turn, and one fault in each n-th of a unit's batch interval."""
    names = [f"u{i}.0#0" for i in range(units)]
    found = aims(names, faults, np.random.default_rng(seed))
    assert [aim.unit for aim in found] == [names[k % units] for k in range(faults)]
    for name in names:
        phases = sorted(aim.phase for aim in found if aim.unit == name)
        count = len(phases)
        for j, phase in enumerate(phases):
            assert j / count <= phase < (j + 1) / count


PLAN = JointPlan(
    algorithm="exact",
    feasible=True,
    recovery_latency={
        "lines": Latency(median=2.0, p95=3.0),
        "split": Latency(median=4.0, p95=5.0),
        "count": Latency(median=4.0, p95=5.0),
    },
    recovery_phases={
        "count": RecoveryPhases(detection=0.3, restore=1.7, load=0.5, replay=1.0, catch_up=0.5)
    },
)


def test_the_bound_is_the_plans_then_the_given_then_the_predicted():
    """In this order."""

    def bounds(plan, given):
        return [item.bound for item in promises(make_deployment(), plan, given)]

    assert bounds(replace(PLAN, max_recovery=6.0), 9.0) == [6.0, 6.0]
    assert bounds(PLAN, 9.0) == [9.0, 9.0]
    assert bounds(PLAN, None) == [3.0, 5.0]
    ftc = FtcPlan(algorithm="exact", feasible=True, recovery_latency={"count.0": 3.0})
    with pytest.raises(BadInputError, match="give --max-recovery"):
        bounds(ftc, None)
    assert bounds(ftc, 4.0) == [4.0, 4.0]


def test_loading_and_replaying_are_compared_together():
    """From outside they cannot be told apart."""
    lines, count = promises(make_deployment(), PLAN, None)
    assert count.phases == {"detection": 0.3, "restore": 1.7, "replay": 1.5, "catch_up": 0.5}
    assert tuple(count.phases) == PHASES
    assert lines.phases is None
    assert count.operators == ("split", "count")


def planted(*seconds, bound=5.0):
    promise = Promise(segment="count", operators=("count",), bound=bound, median=4.0, p95=5.0)
    return compare([promise], [recovery(s, fault=i) for i, s in enumerate(seconds)])[0]


def test_measured_values_are_told_as_they_are():
    """Median, 95th percentile, how many broke the bound, and how far the prediction was off."""
    found = planted(*(float(i) for i in range(1, 11)))
    assert found.median == pytest.approx(5.5)
    assert found.p95 == pytest.approx(9.55)
    assert found.broken == 5
    assert found.error == pytest.approx((4.0 - 5.5) / 5.5)


def test_recoveries_go_to_their_segment():
    """All shards of it together."""
    promised = promises(make_deployment(), PLAN, None)
    found = compare(
        promised,
        [recovery(1.0, "lines.0#0"), recovery(2.0, "count.0#0"), recovery(3.0, "count.0#1")],
    )
    assert [item.seconds for item in found] == [[1.0], [2.0, 3.0]]


def test_one_in_twenty_may_break_the_bound():
    """Two of forty are as planned and eight are not."""
    good = [4.0] * 38 + [6.0] * 2
    assert bound_kept([planted(*good)])
    bad = [4.0] * 32 + [6.0] * 8
    assert not bound_kept([planted(*bad)])


def test_a_recovery_that_never_ended_breaks_the_bound():
    """Three of three are no bad luck."""
    found = planted(None, None, None)
    assert found.broken == 3
    assert not bound_kept([found])
    assert found.median is None


def test_several_segments_need_stronger_evidence():
    """Five of forty refute one segment judged alone, not one of two."""
    five = planted(*[4.0] * 35, *[6.0] * 5)
    assert not bound_kept([five])
    assert bound_kept([five, planted(*[4.0] * 40)])


def test_a_segment_without_recoveries_is_not_judged():
    """It neither keeps nor breaks anything."""
    empty = Comparison(promise=planted(1.0).promise, recoveries=())
    assert bound_kept([empty, planted(4.0)])
    assert empty.phases is None


@pytest.mark.parametrize(("n", "allowed"), [(0, 0), (1, 0), (3, 1), (20, 3), (40, 4), (100, 9)])
def test_how_many_may_break(n, allowed):
    """What the report states is what the test applies."""
    assert most_broken(n) == allowed
    if n:
        assert bound_kept([planted(*[4.0] * (n - allowed), *[6.0] * allowed)])
        assert not bound_kept([planted(*[4.0] * (n - allowed - 1), *[6.0] * (allowed + 1))])


def test_the_binomial_tail():
    """Against values worked out by hand."""
    assert binomial_tail(3, 0, 0.05) == pytest.approx(1.0)
    assert binomial_tail(3, 1, 0.05) == pytest.approx(1 - 0.95**3)
    assert binomial_tail(3, 3, 0.05) == pytest.approx(0.05**3)
    assert binomial_tail(5000, 250, 0.05) == pytest.approx(0.5, abs=0.02)
    assert binomial_tail(0, 1, 0.05) == 0.0
    assert 0 < binomial_tail(5000, 300, 0.05) < 0.01  # a long proof
