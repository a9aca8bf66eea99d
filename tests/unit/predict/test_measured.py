"""FTC and FastRecover plan on measured numbers: real seconds in, real seconds out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.clock import SystemClock
from holdfast.errors import BadInputError
from holdfast.planners.interface import PlanRequest
from holdfast.planners.planning import plan_topology
from holdfast.predict.measured import measured
from holdfast.predict.statistics import (
    REFERENCE_MACHINE,
    Affine,
    Measure,
    OperatorStatistics,
    Statistics,
)
from holdfast.topology.graph import Edge, Operator, Topology, UnitsOfMeasure
from holdfast.topology.rates import operator_rates

pytestmark = pytest.mark.unit

READ = Affine(fixed=Measure(value=0.0), per_byte=Measure(value=1e-6, error=1e-7))
MACHINE = replace(REFERENCE_MACHINE, state_read=READ)
STATS = Statistics(
    machine=MACHINE,
    epoch_s=2.0,
    operators={
        "a": OperatorStatistics(input_rate=Measure(value=100.0)),
        "b": OperatorStatistics(
            input_rate=Measure(value=100.0),
            selectivity=Measure(value=3.0),
            cost=Measure(value=1e-3, error=1e-4),
            tuple_size=Measure(value=50.0),
        ),
        "c": OperatorStatistics(
            input_rate=Measure(value=300.0),
            cost=Measure(value=1e-3),
            state_size=Measure(value=1e5),
            state_change=Measure(value=0.0),
        ),
    },
)


def topology(**options):
    return Topology(
        name="t",
        operators=(Operator(name="a"), Operator(name="b", **options), Operator(name="c")),
        edges=(Edge(source="a", target="b"), Edge(source="b", target="c")),
    )


def test_rates_and_costs_are_the_measured_ones():
    """What the file says of an operator gives way to what was measured of it."""
    found = measured(topology(cost=9.0, selectivity=0.1), STATS).topology
    rates = operator_rates(found)
    assert rates.input.tolist() == [100.0, 100.0, 300.0]
    assert found.operator("b").cost == pytest.approx(1e-3)
    assert found.operator("b").tuple_size == pytest.approx(50.0)
    assert found.operator("c").state_size == pytest.approx(1e5)
    assert found.unit == UnitsOfMeasure(time="s", size="B")


def test_an_expectation_takes_half_an_interval_and_means():
    """By hand: work 0.1 and 0.3 s per second, 0.1 s to load, an interval of 2 s."""
    found = measured(topology(), STATS, expected=True)
    left = 1 - 0.4
    assert found.topology.operator("b").reprocess_time == pytest.approx(0.1 / left)
    assert found.topology.operator("c").reprocess_time == pytest.approx((0.1 + 0.3) / left)
    machine = REFERENCE_MACHINE
    ahead = machine.detection.value + machine.restore_warm.value
    batch = machine.batch_floor.value + machine.slice_write.fixed.value
    assert found.restart_s == pytest.approx((ahead + batch) / left)


def test_a_bound_takes_the_whole_interval_and_95th_percentiles():
    """By hand: an uncertain cost of 1e-3 +- 1e-4 is below 1.1645e-3 in 19 of 20 cases."""
    found = measured(topology(), STATS)
    b = 100 * (1e-3 + 1.6448536 * 1e-4)
    left = 1 - b - 0.3
    assert found.topology.operator("b").reprocess_time == pytest.approx(2 * b / left)
    load = 1e5 * (1e-6 + 1.6448536 * 1e-7)
    assert found.topology.operator("c").reprocess_time == pytest.approx((load + 2 * 0.3) / left)
    assert found.restart_s > measured(topology(), STATS, expected=True).restart_s


def test_what_a_first_batch_takes_is_part_of_reprocessing():
    """An operator that is slow to come back, such as a join, has to be waited for."""
    slow = replace(STATS.operators["c"], first_fixed=Measure(value=0.6))
    stats = replace(STATS, operators={**STATS.operators, "c": slow})
    before, after = (measured(topology(), one, expected=True).topology for one in (STATS, stats))
    more = after.operator("c").reprocess_time - before.operator("c").reprocess_time
    assert more == pytest.approx(0.6 / (1 - 0.4))


def test_a_pipeline_that_never_catches_up_is_refused():
    """More than a second of work per second has no recovery time."""
    busy = replace(STATS.operators["b"], cost=Measure(value=0.02))
    stats = replace(STATS, operators={**STATS.operators, "b": busy})
    with pytest.raises(BadInputError, match="never catches up"):
        measured(topology(), stats)


def test_ftc_counts_the_restart_in_the_bound_and_in_every_latency():
    """The same backups as with the restart taken off the bound; latencies that include it."""
    facts = measured(topology(), STATS)
    both = facts.restart_s + sum(op.reprocess_time for op in facts.topology.operators)
    with_stats = plan_topology(
        topology(), PlanRequest(max_recovery=both * 0.95, statistics=STATS), clock=SystemClock()
    )
    bare = plan_topology(
        facts.topology, PlanRequest(max_recovery=both * 0.95 - facts.restart_s), clock=SystemClock()
    )
    assert with_stats.backups == bare.backups != ()
    for name, value in bare.recovery_latency.items():
        assert with_stats.recovery_latency[name] == pytest.approx(value + facts.restart_s)
    assert with_stats.overall <= both * 0.95


def test_a_bound_below_the_restart_is_infeasible():
    """Nothing that is logged makes a node start sooner."""
    plan = plan_topology(
        topology(), PlanRequest(max_recovery=0.5, statistics=STATS), clock=SystemClock()
    )
    assert not plan.feasible
    assert "restart" in plan.note


def test_fastrecover_takes_the_measured_costs():
    """Its overhead is a share of real CPU time: a pipeline ten times as dear cannot do better."""
    request = PlanRequest(max_overhead=0.5, statistics=STATS)
    cheap = plan_topology(
        topology(failure_rate=0.01), request, method="fastrecover", clock=SystemClock()
    )
    dear = replace(
        MACHINE, slice_write=Affine(fixed=Measure(value=0.07), per_byte=Measure(value=1e-7))
    )
    other = replace(request, statistics=replace(STATS, machine=dear))
    worse = plan_topology(
        topology(failure_rate=0.01), other, method="fastrecover", clock=SystemClock()
    )
    assert cheap.feasible
    assert worse.feasible
    assert worse.expected_recovery_time > cheap.expected_recovery_time
