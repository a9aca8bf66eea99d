"""The recovery model: numbers worked out by hand, and what must hold whatever the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import BadInputError
from holdfast.predict.draws import draw
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
    refill=Measure(value=19.7, p95=24.0),
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
    found: RecoveryModel,
    intervals: list[float],
    *,
    cut: bool = True,
    spares: int = 1,
    n: int = 1,
    nodes: list[list[int]] | None = None,
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
        nodes=nodes,
    )


def test_recovery_alone_is_worked_out_by_hand() -> None:
    """One failure with everything at its median: building, planning, loading, one batch."""
    exactly = {
        "detection": exact(0.3),
        "restore_warm": exact(2.0),
        "first_batch": exact(0.5),
        "batch_floor": exact(0.2),
    }
    found = model(**exactly)
    fused = predict(found, [8.0], cut=False, n=1)
    # a and b: 1000/s at 1e-4 s and 2000/s at 5e-5 s, a changelog of 2000/s of 50 B at 1e-7 s, and
    # 2000/s of 50 B written at 2e-6 s.
    work, fixed = 0.1 + 0.1 + 0.01 + 0.2, 0.02 + 0.03
    batch = fixed + work * 8
    assert fused.pace.batch_s[0] == pytest.approx(0.2 + batch)
    # A snapshot of 1e6 B at 2e-7 s, and opening the state.
    load = 0.2 + 0.04
    shown = 0.3 + 1.5 + load + batch
    # Hit early in an interval it has planned before anything is due; hit in a batch it has not.
    low, high = shown - 1e-9, shown + 0.5 + 0.2 + 1e-9
    assert low <= fused.phases.median[0] <= high + 8 * work
    assert fused.phases.restore[0] == pytest.approx(1.5)
    floors = found.floors([(0, 1)], 1)
    assert floors.p95(8.0, 1)[0] == pytest.approx(shown)


def test_a_thread_restarts_without_a_query() -> None:
    """A source that is a thread has neither a batch floor nor a session to wait for.

    Nor Spark's tasks: until its first slice is there is what was measured.
    """
    operators = {"a": OperatorStatistics(thread=True)}
    slow = replace(MACHINE, slice_write=affine(1.5, 2e-6))
    found = [
        predict(RecoveryModel(PAIR, Statistics(machine=one, operators=operators)), [2.0, 2.0])
        for one in (MACHINE, slow)
    ]
    phases = found[0].phases
    assert phases.restore[0] < 2 * MACHINE.restore_thread.value
    assert phases.restore[1] > 1.5
    assert found[1].phases.median[0] == phases.median[0]
    assert found[1].phases.median[1] > phases.median[1] + 1


def test_what_an_operator_adds_to_batches_goes_before_what_state_takes() -> None:
    """A join opens more stores than an aggregation, which only measuring it tells."""
    measured = OperatorStatistics(
        batch_fixed=exact(0.5), first_fixed=exact(0.7), build=exact(0.4), takeover_cpu=exact(1.7)
    )
    joined = RecoveryModel(PAIR, Statistics(machine=MACHINE, operators={"b": measured}))
    plain, found = predict(model(), [8.0], cut=False), predict(joined, [8.0], cut=False)
    assert found.pace.batch_s[0] - plain.pace.batch_s[0] == pytest.approx(0.5 - 0.03)
    more = (0.5 - 0.03) + (0.7 - 0.04) + 0.4
    floor = joined.floors([(0, 1)], 1).p95(8.0, 1) - model().floors([(0, 1)], 1).p95(8.0, 1)
    assert floor[0] == pytest.approx(more)
    assert found.phases.restore[0] - plain.phases.restore[0] == pytest.approx(0.4, abs=0.05)
    assert joined.demands.cores.tolist() == [MACHINE.takeover_cpu.value, 1.7]


def test_queries_that_are_lost_together_slow_each_other_down() -> None:
    """The same three segments on few cores take longer, and on nodes of their own less long."""
    three = chain(
        Operator(name="a", cost=1e-4, tuple_size=100),
        Operator(name="b", cost=1e-4, tuple_size=100, state_size=1e3),
        Operator(name="c", cost=1e-4, tuple_size=100, state_size=1e3),
        rate=1.0,
    )
    busy = {"first_batch": exact(0.5), "takeover_cpu": exact(0.9)}
    alone, crowded = model(three, **busy), model(three, cores=1, **busy)
    wide, narrow = (predict(one, [4.0] * 3) for one in (alone, crowded))
    assert (narrow.phases.restore[1:] > wide.phases.restore[1:] + 1.0).all()
    assert narrow.results[1] > wide.results[1]
    apart = predict(crowded, [4.0] * 3, nodes=[[0], [1], [2]])
    assert (apart.phases.p95 < narrow.phases.p95 + 1e-9).all()
    assert [loss.segments for loss in apart.losses] == [(0,), (1,), (2,)]
    # Whoever only reads what was lost has its results a batch later.
    assert apart.losses[0].results[0] > apart.losses[0].median[0]


def test_what_was_observed_is_what_is_drawn() -> None:
    """Predictions spread as observations did, however they are distributed."""
    values = (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 9.0)
    seen = draw(Measure(value=1.0, p95=9.0, values=values), np.linspace(0.01, 0.99, 99))
    assert np.median(seen) == 1.0
    assert seen.max() > 8.0
    told = draw(Measure(value=2.0, p95=3.0), np.array([0.5, 0.95]))
    assert told.tolist() == pytest.approx([2.0, 3.0])
    uncertain = draw(Measure(value=0.0, error=1.0), np.array([0.3, 0.95]))
    assert uncertain.tolist() == pytest.approx([0.0, 1.6448536])


def test_cpu_and_overhead() -> None:
    """Work, batches and snapshots add up, relative to the uncut pipeline."""
    cut = predict(model(), [2.0, 2.0], n=3)
    read = 2000 * 50 * 1e-6
    out = 2000 * 50 * 2e-6
    export = (0.1 + 0.01) / 1.0 + read
    change = 2000 * 50 * 1e-7
    a = 0.1 + out + (0.1 + 0.02) / 2
    b = 0.1 + read + out + change + (0.1 + 0.01 + 0.02 + 0.03) / 2 + (0.03 + 1e6 * 1e-7) / 6
    assert cut.pace.cpu == pytest.approx(export + a + b)
    uncut = export + 0.1 + 0.1 + out + change + (0.1 + 0.02 + 0.03) / 8 + (0.03 + 0.1) / 80
    assert model().uncut_cpu(8.0, 10) == pytest.approx(uncut)
    assert cut.pace.overhead == pytest.approx((cut.pace.cpu - uncut) / uncut)


def test_end_to_end_latency() -> None:
    """One interval is waited for, every batch is passed, and the exporter delivers."""
    found = predict(model(), [2.0, 2.0])
    read = 2000 * 50 * 1e-6
    assert found.pace.end_to_end_s == pytest.approx(
        2.0 + found.pace.batch_s.sum() + 0.21 + read * 2.0
    )


def test_operators_of_a_segment_are_lost_together() -> None:
    """A fused segment has one recovery, longer than that of what it begins with."""
    fused = predict(model(), [2.0], cut=False)
    assert len(fused.phases.p95) == 1
    whole, first = model().floors([(0, 1), (0,)], 1).p95(2.0, 1).tolist()
    assert whole > first


def test_a_join_waits_for_its_slowest_input() -> None:
    """Whatever interval a join asks for, it runs no more often than its slowest input."""
    join = Topology(
        name="j",
        operators=(Operator(name="x"), Operator(name="y"), Operator(name="j", input="correlated")),
        edges=(Edge(source="x", target="j"), Edge(source="y", target="j")),
        rates={"x": 10, "y": 10},
    )
    found = predict(model(join), [1.0, 8.0, 1.0])
    assert found.pace.interval_s.tolist() == [1.0, 8.0, 8.0]


def test_branches_on_few_cores_add_up() -> None:
    """The same plan gets slower when its load comes near the cores there are."""
    wide, narrow = predict(model(), [2.0, 2.0]), predict(model(cores=2), [2.0, 2.0])
    share = narrow.pace.cpu / 2
    assert narrow.pace.batch_s == pytest.approx(wide.pace.batch_s / (1 - share**2))


def test_an_overloaded_machine_never_recovers() -> None:
    """More load than cores is infinite, not negative."""
    found = predict(model(replace(PAIR, rates={"a": 1e5}), cores=2), [2.0, 2.0])
    assert np.isinf(found.phases.p95).all()
    assert np.isinf(found.pace.end_to_end_s)


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
    assert there.pace.cpu == pytest.approx(here.pace.cpu)


def test_a_unit_that_is_no_time_is_refused() -> None:
    """Real seconds cannot come from an unknown unit."""
    with pytest.raises(BadInputError, match="the file counts time in 'tick'"):
        RecoveryModel(replace(PAIR, unit=UnitsOfMeasure(time="tick", size="B")))


def drawn_plan(data: st.DataObject, parts: Sequence[tuple[int, ...]]) -> list[SegmentPlan]:
    """Segments with any intervals and snapshots."""
    return [
        SegmentPlan(
            operators=part,
            interval_s=data.draw(st.sampled_from([1.0, 2.0, 8.0])),
            snapshot_batches=data.draw(st.sampled_from([1, 10])),
        )
        for part in parts
    ]


@given(seed=st.integers(0, 10_000), data=st.data())
def test_more_load_never_helps(seed: int, data: st.DataObject) -> None:
    """Batches and latency do not decrease with load: planners climb on this."""
    topology, request = random_joint_problem(seed)
    found = RecoveryModel(topology, request.statistics)
    parts = segments_of(topology, set(range(len(topology.operators))))
    plan = drawn_plan(data, parts)
    low, high = sorted(data.draw(st.tuples(*[st.floats(0, 2.0 * found.machine.cores)] * 2)))
    before, after = (found.pace(plan, uncut_cpu=1.0, at_cpu=load) for load in (low, high))
    assert (before.batch_s <= after.batch_s).all()
    assert before.end_to_end_s <= after.end_to_end_s


@given(seed=st.integers(0, 10_000), data=st.data())
def test_recoveries_keep_their_floors(seed: int, data: st.DataObject) -> None:
    """Whatever shares its node, nobody recovers faster than its floor: planners search by it."""
    topology, request = random_joint_problem(seed)
    found = RecoveryModel(topology, request.statistics)
    cuts = data.draw(st.sets(st.sampled_from(range(len(topology.operators)))))
    parts = segments_of(topology, set(found.forced) | cuts)
    plan = drawn_plan(data, parts)
    home = [data.draw(st.integers(0, 2)) for _ in plan]
    nodes = [[i for i in range(len(plan)) if home[i] == node] for node in range(3)]
    spares = data.draw(st.integers(0, 2))
    told = found.predict(plan, spares, uncut_cpu=1.0, nodes=nodes)
    floors = found.floors(parts, spares)
    for i, segment in enumerate(plan):
        floor = floors.p95(float(told.pace.interval_s[i]), segment.snapshot_batches)[i]
        assert told.phases.p95[i] >= floor * (1 - 1e-9)
        assert told.phases.median[i] <= told.phases.p95[i]


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
    uncut = found.uncut_cpu(8.0, 10)
    assert found.pace(plan, uncut_cpu=uncut).overhead >= -1e-12


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
