"""The recovery model: numbers worked out by hand, and what must hold whatever the numbers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import BadInputError
from holdfast.predict.recovery import Prediction, RecoveryModel
from holdfast.predict.segments import SegmentPlan, segments_of
from holdfast.predict.statistics import (
    REFERENCE_MACHINE,
    Affine,
    Measure,
    OperatorStatistics,
    Statistics,
)
from holdfast.testing.joint import random_joint_problem
from holdfast.topology.boundaries import forced_boundaries
from holdfast.topology.graph import Edge, Operator, Storage, Topology, UnitsOfMeasure

pytestmark = pytest.mark.unit


def exact(value: float) -> Measure:
    return Measure(value=value)


def affine(fixed: float, per_byte: float) -> Affine:
    return Affine(fixed=exact(fixed), per_byte=exact(per_byte))


MACHINE = replace(
    REFERENCE_MACHINE,
    cores=10_000,  # so many that nothing waits
    slice_write=affine(0.02, 2e-6),
    slice_read=affine(0.01, 1e-6),
    state_write=affine(0.03, 1e-7),
    state_read=affine(0.04, 2e-7),
    log_read=exact(0.005),
    first_batch=exact(0.0),
    detection=Measure(value=0.3, p95=0.6),
    restore_warm=Measure(value=2.0, p95=2.4),
    restore_cold=Measure(value=7.0, p95=8.0),
    batch_floor=exact(0.2),
    batch_cpu=exact(0.1),
)


def chain(*operators: Operator, rate: float = 1000.0) -> Topology:
    return Topology(
        name="t",
        unit=UnitsOfMeasure(time="s", size="B"),
        operators=operators,
        edges=tuple(Edge(source=a.name, target=b.name) for a, b in pairwise(operators)),
        rates={operators[0].name: rate},
    )


PAIR = chain(
    Operator(name="a", cost=1e-4, selectivity=2.0, tuple_size=100),
    Operator(name="b", cost=5e-5, tuple_size=50, state_size=1e6),
)


def model(topology: Topology = PAIR, **changes: object) -> RecoveryModel:
    return RecoveryModel(topology, Statistics(machine=replace(MACHINE, **changes)))  # type: ignore[arg-type]


def predict(
    found: RecoveryModel, intervals: list[float], *, cut: bool = True, spares: int = 1, n: int = 1
) -> Prediction:
    ends = set(range(len(found.topology.operators))) if cut else set(found.forced)
    parts = segments_of(found.topology, ends)
    return found.predict(
        [
            SegmentPlan(operators=part, interval_s=interval, snapshot_batches=n)
            for part, interval in zip(parts, intervals, strict=True)
        ],
        spares,
        uncut_cpu=found.uncut_cpu(8.0, 10),
    )


def test_recovery_is_the_sum_of_its_phases() -> None:
    """Two segments, worked out by hand from the formulas."""
    found = predict(model(), [2.0, 2.0], n=3)
    phases = found.phases
    # a: 1000/s at 1e-4 s, writes 2000/s of 50 B at 2e-6 s: w = 0.1 + 0.2, f = 0.2 + 0.02
    batch = 0.22 + 0.3 * 2
    replay = 0.22 + 0.3 * (batch + 1.0)
    before = 0.3 + 2.0 + replay
    assert found.batch_s[0] == pytest.approx(batch)
    assert phases.load[0] == 0
    assert phases.replay[0] == pytest.approx(replay)
    assert phases.catch_up[0] == pytest.approx((0.3 * before + 0.22) / 0.7)
    assert phases.median[0] == pytest.approx(before + (0.3 * before + 0.22) / 0.7)
    away = np.sqrt(0.3**2 + 0.4**2 + (0.3 * 0.45 * 2) ** 2)
    assert phases.p95[0] == pytest.approx((before + 0.22 + away) / 0.7)
    # b loads a snapshot of 1e6 B and one of two changelogs of 2 s * 2000/s * 50 B. It opens that
    # state after it has waited for a, 0.04 s; the 0.2 s of any batch have passed by then.
    assert phases.load[1] == pytest.approx(1e6 * 2e-7 + (0.005 + 2 * 1e5 * 2e-7) + 0.04)
    fixed, work = 0.2 + 0.01 + 0.02 + 0.03, 0.1 + 0.1 + 0.2 + 0.01
    replay = fixed + work * (fixed + work * 2 + 1.0)
    assert phases.replay[1] == pytest.approx(replay - 0.2)
    four = OperatorStatistics(stores=exact(4.0))
    joined = RecoveryModel(PAIR, Statistics(machine=MACHINE, operators={"b": four}))
    load = predict(joined, [2.0, 2.0], n=3).phases.load[1]
    assert load - phases.load[1] == pytest.approx(3 * 0.005)


def test_a_quick_first_batch_needs_no_other() -> None:
    """At an interval of 8 s nothing comes due while the first batch runs: it takes all there is."""
    phases = predict(model(), [8.0, 8.0], n=3).phases
    replay = 0.22 + 0.3 * (0.22 + 0.3 * 8 + 4.0)
    # Running after 2.3 s and due after 4 s, it has planned the batch before.
    assert phases.replay[0] == pytest.approx(replay - 0.2)
    assert replay + 0.3 * 2.3 < 4.0
    assert phases.catch_up[0] == pytest.approx(0.3 * 2.3)


def test_a_slow_first_batch_hides_behind_waiting() -> None:
    """Restored after 0.3 + 1.5 s; at 2 s nothing is hidden, at 4 s 0.2 s of the 0.5 are."""
    slow = model(first_batch=exact(0.5))
    for interval, shown in ((2.0, 0.5), (4.0, 0.3), (8.0, 0.0)):
        plain = predict(model(), [interval, interval], n=1).phases
        found = predict(slow, [interval, interval], n=1).phases
        assert found.restore[0] == pytest.approx(1.5)
        assert found.load[0] == pytest.approx(shown)
        assert found.p95[0] == pytest.approx(plain.p95[0])


def test_a_thread_restarts_without_a_query() -> None:
    """A source that is a thread has neither a batch floor nor a session to wait for."""
    stats = Statistics(machine=MACHINE, operators={"a": OperatorStatistics(thread=True)})
    phases = predict(RecoveryModel(PAIR, stats), [2.0, 2.0]).phases
    assert phases.restore.tolist() == [MACHINE.restore_thread.value, 2.0]
    assert phases.replay[0] == pytest.approx(0.02 + 0.3 * (0.02 + 0.3 * 2 + 1.0))


def test_what_an_operator_adds_to_batches_goes_before_what_state_takes() -> None:
    """A join opens more stores than an aggregation, which only measuring it tells."""
    measured = OperatorStatistics(batch_fixed=exact(0.5), first_fixed=exact(0.7))
    joined = RecoveryModel(PAIR, Statistics(machine=MACHINE, operators={"b": measured}))
    plain, found = predict(model(), [2.0], cut=False), predict(joined, [2.0], cut=False)
    assert found.batch_s[0] - plain.batch_s[0] == pytest.approx(0.5 - 0.03)
    assert found.phases.load[0] - plain.phases.load[0] == pytest.approx(0.7 - 0.04)
    assert found.phases.p95[0] > plain.phases.p95[0] + 0.66


def test_queries_that_are_lost_together_slow_each_other_down() -> None:
    """What keeps a core busy for each of them has to share the cores there are."""
    three = chain(
        Operator(name="a", cost=1e-4, tuple_size=100),
        Operator(name="b", cost=1e-4, tuple_size=100, state_size=1e3),
        Operator(name="c", cost=1e-4, tuple_size=100, state_size=1e3),
        rate=1.0,
    )
    busy = {"first_batch": exact(0.5), "takeover_cpu": exact(0.9)}
    alone, crowded = model(three, **busy), model(three, cores=2, **busy)
    # Both stateful operators need a segment, and there is an exporter.
    assert alone.queries == crowded.queries == 3.0
    assert (alone.crowd, crowded.crowd) == (1.0, pytest.approx(3 * 0.9 / 2))
    before, after = (predict(one, [1.0] * 3).phases for one in (alone, crowded))
    assert before.restore.tolist() == pytest.approx([1.5] * 3)
    assert after.restore.tolist() == pytest.approx([1.35 * 1.5] * 3)
    assert after.load[0] == pytest.approx(1.35 * before.load[0], rel=0.01)


def test_a_segment_plans_its_first_batch_while_it_waits_for_another() -> None:
    """Lost together, the second hides its slow first batch; results wait for both in turn."""
    found = predict(model(first_batch=exact(1.5)), [1.0, 1.0])
    phases = found.phases
    # Detected after 0.3 s and running after another 0.5 s: 0.5 s after the failure all was due.
    first_slice = 0.3 + 0.5 + 1.5 + (phases.replay + phases.catch_up)[0]
    assert phases.median[0] == pytest.approx(first_slice)
    own = (phases.load + phases.replay + phases.catch_up)[1]
    assert phases.load[1] < 1.5
    assert phases.median[1] == pytest.approx(0.3 + 0.5 + own)
    assert found.results[0] == pytest.approx(first_slice + own)
    assert found.results[1] >= phases.p95.max()


def test_cpu_and_overhead() -> None:
    """Work, batches and snapshots add up, relative to the uncut pipeline."""
    cut = predict(model(), [2.0, 2.0], n=3)
    read = 2000 * 50 * 1e-6
    out = 2000 * 50 * 2e-6
    export = (0.1 + 0.01) / 1.0 + read
    change = 2000 * 50 * 1e-7
    a = 0.1 + out + (0.1 + 0.02) / 2
    b = 0.1 + read + out + change + (0.1 + 0.01 + 0.02 + 0.03) / 2 + (0.03 + 1e6 * 1e-7) / 6
    assert cut.cpu == pytest.approx(export + a + b)
    uncut = export + 0.1 + 0.1 + out + change + (0.1 + 0.02 + 0.03) / 8 + (0.03 + 0.1) / 80
    assert model().uncut_cpu(8.0, 10) == pytest.approx(uncut)
    assert cut.overhead == pytest.approx((cut.cpu - uncut) / uncut)


def test_end_to_end_latency() -> None:
    """One interval is waited for, every batch is passed, and the exporter delivers."""
    found = predict(model(), [2.0, 2.0])
    read = 2000 * 50 * 1e-6
    assert found.end_to_end_s == pytest.approx(2.0 + found.batch_s.sum() + 0.21 + read * 2.0)


def test_operators_of_a_segment_are_lost_together() -> None:
    """A fused segment has one recovery, longer than that of either part."""
    fused = predict(model(), [2.0], cut=False)
    apart = predict(model(), [2.0, 2.0])
    assert len(fused.phases.p95) == 1
    assert fused.phases.replay[0] > apart.phases.replay.min()


def test_a_join_waits_for_its_slowest_input() -> None:
    """Whatever interval a join asks for, it runs no more often than its slowest input."""
    join = Topology(
        name="j",
        operators=(Operator(name="x"), Operator(name="y"), Operator(name="j", input="correlated")),
        edges=(Edge(source="x", target="j"), Edge(source="y", target="j")),
        rates={"x": 10, "y": 10},
    )
    found = predict(model(join), [1.0, 8.0, 1.0])
    assert found.interval_s.tolist() == [1.0, 8.0, 8.0]


def test_branches_on_few_cores_add_up() -> None:
    """The same plan gets slower when its load comes near the cores there are."""
    wide, narrow = predict(model(), [2.0, 2.0]), predict(model(cores=2), [2.0, 2.0])
    share = narrow.cpu / 2
    assert narrow.batch_s == pytest.approx(wide.batch_s / (1 - share**2))
    assert (narrow.phases.p95 > wide.phases.p95).all()


def test_an_overloaded_machine_never_recovers() -> None:
    """More load than cores is infinite, not negative."""
    found = predict(model(replace(PAIR, rates={"a": 1e5}), cores=2), [2.0, 2.0])
    assert np.isinf(found.phases.p95).all()
    assert np.isinf(found.end_to_end_s)


def test_restore_is_warm_while_a_spare_is_left() -> None:
    """Spares that are often used up leave the 95th percentile cold, then the median too."""
    assert model().restore(0).value == 7.0
    assert model().restore(1) == Measure(value=2.0, p95=2.4)
    failing = replace(PAIR.operators[0], failure_rate=0.02)
    often = model(replace(PAIR, operators=(failing, PAIR.operators[1])))  # 0.36 per refill
    assert often.restore(1) == Measure(value=2.0, p95=8.0)  # missing in 30%
    assert often.restore(2) == Measure(value=2.0, p95=8.0)  # missing in 5.1%
    assert often.restore(3) == Measure(value=2.0, p95=2.4)
    assert often.most_spares() == 3


def test_measured_numbers_go_before_those_of_the_file() -> None:
    """A profile overrides cost and state, and its uncertainty widens the 95th percentile."""
    told = OperatorStatistics(cost=Measure(value=2e-4, error=2e-5), skew=Measure(value=1.5))
    found = RecoveryModel(PAIR, Statistics(machine=MACHINE, operators={"a": told}))
    assert found.demands.member[0, 0] == pytest.approx(0.3)
    assert found.demands.member[0, 1] == pytest.approx(1.5 * 1000 * (2e-4 + 1.6448536 * 2e-5))


def test_statistics_of_an_unknown_operator_are_refused() -> None:
    """A profile of another pipeline is not taken silently."""
    with pytest.raises(BadInputError, match="there is no operator 'z'"):
        RecoveryModel(PAIR, Statistics(operators={"z": OperatorStatistics()}))


def test_storage_costs_of_a_file_are_believed_without_a_profile() -> None:
    """Costs that the file spells out replace the reference machine's."""
    topology = replace(PAIR, storage=Storage(tuple_cost=3e-6, state_cost=4e-7))
    assert RecoveryModel(topology).machine.slice_write == Affine(
        fixed=Measure(value=0.0, how="storage costs of the topology file"),
        per_byte=Measure(value=3e-6, how="storage costs of the topology file"),
    )
    assert model(topology).machine == MACHINE


def test_units_do_not_matter() -> None:
    """The same pipeline counted in minutes and KB promises the same seconds."""
    operators = tuple(
        replace(
            operator,
            cost=operator.cost / 60,  # type: ignore[operator]
            tuple_size=operator.tuple_size / 1000,  # type: ignore[operator]
            state_size=operator.state_size / 1000,  # type: ignore[operator]
        )
        for operator in PAIR.operators
    )
    other = replace(
        PAIR, operators=operators, unit=UnitsOfMeasure(time="min", size="KB"), rates={"a": 60_000.0}
    )
    here, there = predict(model(), [2.0, 2.0]), predict(model(other), [2.0, 2.0])
    assert there.phases.p95 == pytest.approx(here.phases.p95)
    assert there.cpu == pytest.approx(here.cpu)


def test_a_unit_that_is_no_time_is_refused() -> None:
    """Real seconds cannot come from an unknown unit."""
    with pytest.raises(BadInputError, match="the file counts time in 'tick'"):
        RecoveryModel(replace(PAIR, unit=UnitsOfMeasure(time="tick", size="B")))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), data=st.data())
def test_more_load_never_helps(seed: int, data: st.DataObject) -> None:
    """Recovery, batches and latency do not decrease with load: planners climb on this."""
    topology, request = random_joint_problem(seed)
    found = RecoveryModel(topology, request.statistics)
    parts = segments_of(topology, set(range(len(topology.operators))))
    plan = [
        SegmentPlan(
            operators=part,
            interval_s=data.draw(st.sampled_from([1.0, 2.0, 8.0])),
            snapshot_batches=data.draw(st.sampled_from([1, 10])),
        )
        for part in parts
    ]
    low, high = sorted(data.draw(st.tuples(*[st.floats(0, 2.0 * found.machine.cores)] * 2)))
    before, after = (found.predict(plan, 1, uncut_cpu=1.0, at_cpu=load) for load in (low, high))
    assert (before.phases.p95 <= after.phases.p95).all()
    assert (before.phases.median <= before.phases.p95).all()
    assert (before.batch_s <= after.batch_s).all()
    assert before.end_to_end_s <= after.end_to_end_s
    more = found.predict(plan, 2, uncut_cpu=1.0, at_cpu=low)
    assert (more.phases.p95 <= before.phases.p95).all()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), data=st.data())
def test_nothing_is_cheaper_than_the_uncut_pipeline(seed: int, data: st.DataObject) -> None:
    """Cutting more or running more often takes more CPU."""
    topology, request = random_joint_problem(seed)
    found = RecoveryModel(topology, request.statistics)
    cuts = data.draw(st.sets(st.sampled_from(range(len(topology.operators)))))
    plan = [
        SegmentPlan(
            operators=part,
            interval_s=data.draw(st.sampled_from([1.0, 2.0, 8.0])),
            snapshot_batches=data.draw(st.sampled_from([1, 10])),
        )
        for part in segments_of(topology, set(found.forced) | cuts)
    ]
    assert found.predict(plan, 0, uncut_cpu=found.uncut_cpu(8.0, 10)).overhead >= -1e-12


def test_forced_boundaries() -> None:
    """Each rule forces its operator, and nothing else is forced."""
    topology = Topology(
        name="f",
        operators=(
            Operator(name="src"),
            Operator(name="needed", backup="required"),
            Operator(name="fan"),
            Operator(name="left", state_size=10),
            Operator(name="mapped"),
            Operator(name="right"),
            Operator(name="join", state_size=10),
            Operator(name="keyed", parallelism=2),
            Operator(name="end", parallelism=2),
        ),
        edges=(
            Edge(source="src", target="needed"),
            Edge(source="needed", target="fan"),
            Edge(source="fan", target="left"),
            Edge(source="fan", target="right"),
            Edge(source="left", target="mapped"),
            Edge(source="mapped", target="join"),
            Edge(source="right", target="join"),
            Edge(source="join", target="keyed"),
            Edge(source="keyed", target="end", partitioning="one-to-one"),
        ),
    )
    names = {
        topology.operators[i].name: reason for i, reason in forced_boundaries(topology).items()
    }
    assert names == {
        "needed": "required",
        "fan": "consumers",
        "left": "state",
        "join": "exchange",
        "end": "sink",
    }
