"""Joint plans: what they promise, what they refuse, and how they say it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from holdfast.errors import BadInputError
from holdfast.pipeline import Generator, Parquet, Pipeline
from holdfast.pipeline.deploy import deploy, deploy_options
from holdfast.plan import JointPlan
from holdfast.planners.interface import PlanRequest, Solve
from holdfast.planners.joint import PLANNER
from holdfast.planners.planning import check_request
from holdfast.planners.registry import planner
from holdfast.predict.statistics import (
    REFERENCE_MACHINE,
    Affine,
    Measure,
    OperatorStatistics,
    Statistics,
)
from holdfast.testing.joint import random_joint_problem
from holdfast.topology.graph import Edge, Operator, Topology, UnitsOfMeasure

pytestmark = pytest.mark.unit

COUNT = Topology(
    name="count",
    operators=(
        Operator(name="read", cost=5e-6, tuple_size=0.2),
        Operator(name="split", selectivity=5, cost=1e-5, tuple_size=0.2),
        Operator(name="filter", selectivity=0.6, cost=2e-6, tuple_size=0.05),
        Operator(name="count", cost=8e-6, tuple_size=0.05, state_size=15_000),
    ),
    edges=(
        Edge(source="read", target="split"),
        Edge(source="split", target="filter"),
        Edge(source="filter", target="count"),
    ),
    rates={"read": 10_000},
)


PYTHON_WRITE, PYTHON_READ = 2.6e-8, 1.0e-8
"""CPU seconds per byte on the reference machine where slices go through Python."""


def plan(request: PlanRequest, topology: Topology = COUNT, solve: Solve | None = None) -> JointPlan:
    found = PLANNER.plan(topology, request, solve or Solve())
    assert isinstance(found, JointPlan)
    return found


def test_without_bounds_nothing_is_cut() -> None:
    """The cheapest plan is the uncut pipeline at the longest interval."""
    found = plan(PlanRequest())
    assert found.boundaries == ("count",)
    assert [segment.batch_interval for segment in found.segments] == [8.0]
    assert (found.spares, found.overhead, found.objective) == (0, 0.0, 0.0)
    assert found.optimal


def test_a_recovery_bound_is_bought_by_cutting() -> None:
    """The plan keeps the bound at the 95th percentile, and one cut is what it takes."""
    found = plan(PlanRequest(max_recovery=2.5))
    assert found.boundaries == ("filter", "count")
    assert max(latency.p95 for latency in found.recovery_latency.values()) <= 2.5
    shared = {found.recovery_latency[name] for name in ("read", "split", "filter")}
    assert len(shared) == 1
    assert found.segments[0].snapshot_interval is None


def test_cheaper_boundaries_are_cut_where_dear_ones_are_not() -> None:
    """At a rate where slices through Python leave no plan, Java's leave room for a cut."""
    busy = replace(COUNT, rates={"read": 20_000})
    request = PlanRequest(max_recovery=6.0)
    assert plan(request, busy).boundaries == ("filter", "count")
    machine = replace(
        REFERENCE_MACHINE,
        slice_write=_per_byte(REFERENCE_MACHINE.slice_write, PYTHON_WRITE),
        slice_read=_per_byte(REFERENCE_MACHINE.slice_read, PYTHON_READ),
    )
    assert machine.slice_write.per_byte.value > 2 * REFERENCE_MACHINE.slice_write.per_byte.value
    dear = replace(request, statistics=Statistics(machine=machine))
    assert not plan(dear, busy).feasible


def _per_byte(cost: Affine, value: float) -> Affine:
    return replace(cost, per_byte=Measure(value=value))


def test_a_latency_bound_shortens_batches() -> None:
    """Results are in time because batches are shorter."""
    found = plan(PlanRequest(max_latency=6.0))
    assert found.end_to_end_latency is not None
    assert found.end_to_end_latency <= 6.0
    assert all(segment.batch_interval < 8.0 for segment in found.segments)


def test_json_contract() -> None:
    """The JSON has the common fields and the method's own, in plain values."""
    data = json.loads(json.dumps(plan(PlanRequest(max_recovery=2.5)).to_json()))
    for name in ("algorithm", "feasible", "optimal", "bound", "solve_ms", "objective"):
        assert name in data
    assert data["method"] == "joint"
    assert data["boundaries"] == ["filter", "count"]
    assert set(data["segments"][1]) >= {
        "name",
        "operators",
        "batch_interval",
        "snapshot_interval",
    }
    assert list(data["recovery_latency"]) == ["read", "split", "filter", "count"]
    assert set(data["recovery_latency"]["read"]) == {"median", "p95"}
    assert data["nearest"] == {}


@pytest.mark.slow
def test_infeasible_contract_and_the_nearest_bound() -> None:
    """What cannot be kept is answered with a bound that can, and just so."""
    request = PlanRequest(max_recovery=1.0, max_replicas=0, intervals=(1.0, 2.0, 4.0))
    found = plan(request)
    data = found.to_json()
    assert not found.feasible
    assert data["segments"] == data["boundaries"] == []
    assert data["recovery_latency"] == {}
    assert data["objective"] is data["overhead"] is data["spares"] is None
    nearest = found.nearest["max_recovery"]
    assert nearest is not None
    assert plan(replace(request, max_recovery=nearest)).feasible
    assert not plan(replace(request, max_recovery=nearest * 0.98)).feasible
    assert "--max-recovery" in found.note


def test_bounds_that_only_yield_together() -> None:
    """When no bound alone is in the way, bounds that can be kept together are told."""
    request = PlanRequest(max_recovery=1.0, max_latency=2.0, max_overhead=0.01)
    found = plan(request)
    assert set(found.nearest.values()) == {None}
    eased = {name: value * (1 + 1e-9) for name, value in found.nearest_together.items()}
    assert plan(replace(request, **eased)).feasible
    assert "together" in PLANNER.explain(COUNT, request, found)[-1]


def test_numbers_are_in_the_units_of_the_file() -> None:
    """The same pipeline in minutes gets the same plan, in minutes."""
    in_minutes = replace(
        COUNT,
        unit=UnitsOfMeasure(time="min", size="KB"),
        operators=tuple(replace(o, cost=o.cost / 60) for o in COUNT.operators),  # type: ignore[operator]
        rates={"read": 600_000},
    )
    here, there = (
        plan(PlanRequest(max_recovery=5.0)),
        plan(PlanRequest(max_recovery=5.0 / 60), in_minutes),
    )
    assert there.boundaries == here.boundaries
    assert there.objective == pytest.approx(here.objective)
    assert there.segments[0].batch_interval * 60 == pytest.approx(here.segments[0].batch_interval)
    assert there.recovery_latency["count"].p95 * 60 == pytest.approx(
        here.recovery_latency["count"].p95
    )


@pytest.mark.slow
def test_nodes_are_chosen_so_that_no_death_breaks_a_bound() -> None:
    """On one node the results stay away for too long; the plan says what each death costs."""
    one = plan(PlanRequest(max_recovery=5.0))
    assert len(one.nodes) == 1
    assert one.results_recovery is not None
    wanted = one.results_recovery.p95 * 0.8
    request = PlanRequest(max_recovery=5.0, max_outage=wanted, nodes=None)
    found = plan(request)
    assert found.feasible
    assert found.results_recovery is not None
    assert found.results_recovery.p95 <= wanted
    assert sorted(name for node in found.nodes for name in node.segments) == sorted(
        segment.name for segment in found.segments
    )
    for node in found.nodes:
        assert node.results is not None
        assert node.results.p95 <= wanted
    words = PLANNER.explain(COUNT, request, found)
    assert any(line.startswith("a death of the node with ") for line in words)


def test_so_many_nodes_as_asked_for() -> None:
    """Nodes beyond the segments have nothing to do, and cost as much as a spare each."""
    found = plan(PlanRequest(nodes=3))
    assert [node.segments for node in found.nodes] == [("count",), (), ()]
    assert found.objective == pytest.approx(2 * REFERENCE_MACHINE.spare_cost.value)


@pytest.mark.slow
@pytest.mark.sample(intervals=(4.0,))
@pytest.mark.parametrize(("intervals", "snapshots"), [((4.0,), (10,)), ((1.0, 4.0), (1, 10))])
def test_an_outage_that_no_plan_avoids(
    intervals: tuple[float, ...], snapshots: tuple[int, ...]
) -> None:
    """The nearest outage is told, and can be kept."""
    request = PlanRequest(
        max_outage=0.5, nodes=None, max_replicas=0, intervals=intervals, snapshots=snapshots
    )
    found = plan(request)
    assert not found.feasible
    nearest = found.nearest["max_outage"]
    assert nearest is not None
    assert plan(replace(request, max_outage=nearest * (1 + 1e-6))).feasible


def test_required_and_forbidden_boundaries() -> None:
    """A plan has what is required and lacks what is forbidden."""
    assert "read" in plan(PlanRequest(required=("read",))).boundaries
    found = plan(PlanRequest(max_recovery=5.0, forbidden=("filter",)))
    assert "filter" not in found.boundaries


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (PlanRequest(forbidden=("count",)), "--forbidden: the output of 'count' is logged"),
        (PlanRequest(required=("nobody",)), "--required: there is no operator 'nobody'"),
        (PlanRequest(algorithm="magic"), "--algorithm: method joint has no algorithm 'magic'"),
        (PlanRequest(intervals=(1.0, 2.5)), "--intervals: 2.5 is not a whole number of epochs"),
        (PlanRequest(intervals=(2.0, 3.0)), "--intervals: 2 epochs do not divide 3 epochs"),
        (PlanRequest(snapshots=(0,)), "--snapshots: is 0"),
        (PlanRequest(nodes=0), "--nodes: is 0"),
        (PlanRequest(max_recovery=float("nan")), "--max-recovery: is nan"),
    ],
)
def test_bad_requests_get_one_line(request_: PlanRequest, said: str) -> None:
    """The line names the option and what to write instead."""
    with pytest.raises(BadInputError) as caught:
        plan(request_)
    assert str(caught.value).startswith(said)
    assert caught.value.hint


def wide_join(inputs: int) -> Topology:
    names = [f"s{i}" for i in range(inputs)]
    return Topology(
        name="wide",
        operators=(*(Operator(name=name, cost=1e-6) for name in names), Operator(name="all")),
        edges=tuple(Edge(source=name, target="all") for name in names),
        rates=dict.fromkeys(names, 100.0),
    )


def test_algorithms_that_do_not_apply() -> None:
    """Listing everything is refused where everything is too much, and auto does not try."""
    with pytest.raises(BadInputError, match="too many to try all"):
        plan(PlanRequest(algorithm="exhaustive"), wide_join(13))
    with pytest.raises(BadInputError, match="too many to list"):
        plan(PlanRequest(algorithm="exact"), wide_join(20))
    assert plan(PlanRequest(), wide_join(20)).algorithm == "large"


def test_a_machine_that_is_too_small() -> None:
    """When no bound is to blame, the note says what is."""
    heavy = replace(COUNT, rates={"read": 1e6})
    found = plan(PlanRequest(max_recovery=20.0), heavy)
    assert not found.feasible
    assert found.nearest == {"max_recovery": None}
    assert "cores" in found.note


def test_stopping_early_gives_what_there_is() -> None:
    """A planner that has no time left answers with a plan that keeps the bounds, unproved."""
    found = plan(PlanRequest(max_recovery=30.0), solve=Solve(should_stop=lambda: True))
    assert found.feasible
    assert not found.optimal
    assert found.note.startswith("stopped early")
    assert found.bound is not None
    assert found.objective is not None
    assert found.bound <= found.objective


def test_operators_whose_result_depends_on_the_batching() -> None:
    """Deduplication runs one epoch per batch, and so does everything before it."""
    dedup = Statistics(operators={"count": OperatorStatistics(one_epoch_per_batch=True)})
    found = plan(PlanRequest(statistics=dedup, required=("filter",)), replace(COUNT, rates={}))
    assert [segment.batch_epochs for segment in found.segments] == [1, 1]


def test_an_operators_own_bounds() -> None:
    """A bound on one operator holds for its segment; a smallest interval is kept."""
    operators = (
        replace(COUNT.operators[0], max_recovery=4.0),
        *COUNT.operators[1:3],
        replace(COUNT.operators[3], min_interval=4.0),
    )
    found = plan(PlanRequest(), replace(COUNT, operators=operators))
    assert found.recovery_latency["read"].p95 <= 4.0 < found.recovery_latency["count"].p95
    assert found.segments[-1].batch_interval >= 4.0


def test_failures_that_come_often_take_more_spares() -> None:
    """Each spare that is used is missing for a while, so frequent failures need several."""
    operators = tuple(replace(operator, failure_rate=0.005) for operator in COUNT.operators)
    failing = replace(COUNT, operators=operators)
    assert plan(PlanRequest(max_recovery=5.0)).spares == 1
    assert (plan(PlanRequest(max_recovery=5.0), failing).spares or 0) > 1


def test_explanations_give_a_reason_for_every_boundary() -> None:
    """Forced boundaries name the rule, chosen ones the bound that would break without them."""
    request = PlanRequest(max_recovery=2.5)
    words = PLANNER.explain(COUNT, request, plan(request))
    assert words[0].startswith("the output of filter is logged because fused with count, count ")
    assert words[0].endswith("to recover, above the bound of 2.5 s")
    assert words[1] == (
        "the output of count is logged because its output is a result that somebody reads"
    )
    assert any("1 spare is kept warm because with 0" in line for line in words)


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.slow), 5, 8])
def test_explanations_cover_any_plan(seed: int) -> None:
    """One sentence per boundary at least, feasible or not."""
    topology, request = random_joint_problem(seed)
    found = plan(request, topology)
    words = PLANNER.explain(topology, request, found)
    if found.feasible:
        for name in found.boundaries:
            assert any(line.startswith(f"the output of {name} is logged ") for line in words)
    else:
        assert words[0] == found.note


@pytest.mark.slow
def test_the_trade_off_curve_falls() -> None:
    """A looser bound never costs more."""
    sweep = PLANNER.sweep(COUNT, PlanRequest(intervals=(1.0, 4.0)), Solve())
    assert sweep is not None
    costs = [point.y for point in sweep.points]
    assert None not in costs
    assert costs == sorted(costs, reverse=True)
    assert costs[0] != costs[-1]


def test_the_registry_knows_the_method() -> None:
    """`--method joint` finds the planner, and its request passes the check."""
    assert planner("joint") is PLANNER
    check_request(PLANNER, PlanRequest(statistics=Statistics(), intervals=(1.0,), snapshots=(5,)))


def test_a_plan_becomes_a_deployment_without_guessing() -> None:
    """Boundaries, batch and snapshot intervals arrive in the deployment as planned."""
    pipeline = Pipeline("words")
    rows = pipeline.source("lines", Generator(lambda epoch, seed: iter(()), "line string"))
    words = rows.map("split", lambda frame: frame).map("filter", lambda frame: frame)
    counts = words.aggregate("count", lambda frame: frame, key="word")
    pipeline.sink("out", counts, Parquet("out/"))
    machine = replace(REFERENCE_MACHINE, cores=8)
    costs = {"split": 2e-5, "filter": 2e-5, "count": 4e-5}
    measured = Statistics(
        epoch_s=0.5,
        machine=machine,
        operators={
            "lines": OperatorStatistics(input_rate=Measure(value=10_000)),
            **{
                name: OperatorStatistics(
                    input_rate=Measure(value=10_000),
                    cost=Measure(value=cost),
                    tuple_size=Measure(value=20),
                )
                for name, cost in costs.items()
            },
        },
    )
    request = PlanRequest(statistics=measured, max_recovery=8.0, required=("filter",))
    found = plan(request, pipeline.topology())
    assert found.feasible
    deployment = deploy(pipeline, **deploy_options(found))
    inner = [segment for segment in deployment.segments if segment.kind != "exporter"]
    assert [(s.name, s.operators, s.batch_epochs, s.snapshot_batches) for s in inner] == [
        (s.name, s.operators, s.batch_epochs, s.snapshot_batches) for s in found.segments
    ]
    assert deployment.epoch_s == 0.5
