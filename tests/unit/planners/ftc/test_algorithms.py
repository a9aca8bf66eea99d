"""What every FTC algorithm owes: the bound, and for the exact ones the optimum."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from tests.unit.planners.ftc.instances import cheapest, latency, random_instance, topology_of

from holdfast.errors import BadInputError
from holdfast.planners.ftc import PLANNER
from holdfast.planners.ftc.chains import chain_cover, chain_windows, fast_bound, forest_bound
from holdfast.planners.ftc.exact import QUICK, search
from holdfast.planners.ftc.problem import make_problem
from holdfast.planners.ftc.reduce import core_of
from holdfast.planners.interface import PlanRequest, Solve
from holdfast.testing.generators import chain, layered_dag, random_dag, sentiment
from holdfast.topology.graph import Edge, Operator, Topology

pytestmark = pytest.mark.unit

ON_DAGS = ("auto", "exact", "late", "dag", "share")


def run(times, edges, bound, algorithm, more=None, **options):
    topology = topology_of(times, edges, **(more or {}))
    request = PlanRequest(algorithm=algorithm, max_recovery=bound, **options)
    return PLANNER.plan(topology, request, Solve())


@pytest.mark.parametrize("seed", range(4))
def test_every_algorithm_keeps_the_bound_on_random_dags(seed) -> None:
    """Zero, equal and random weights, isolated tasks, several sinks: L <= R for every task."""
    rng = np.random.default_rng((1, seed))
    for _ in range(40):
        times, edges, bound = random_instance(rng, 14)
        durable = bool(rng.integers(2))
        for algorithm in ON_DAGS:
            sources = "durable" if durable else "replayed"
            result = run(times, edges, bound, algorithm, sources=sources)
            backups = [int(name) for name in result.backups]
            found = latency(times, edges, backups, durable=durable)
            assert max(found) <= bound + 1e-9, algorithm
            assert list(result.recovery_latency.values()) == pytest.approx(found)


@pytest.mark.parametrize("seed", range(5))
def test_exact_equals_brute_force(seed) -> None:
    """Counts, costs, required and forbidden tasks and own bounds, against every set of backups."""
    rng = np.random.default_rng((2, seed))
    for _ in range(12):
        times, edges, bound = random_instance(rng, 9)
        size = len(times)
        costs = [float(rng.integers(1, 5)) for _ in times] if rng.random() < 0.5 else [1.0] * size
        choices = rng.choice(["free", "required", "forbidden"], size, p=[0.7, 0.15, 0.15])
        bounds = [bound if rng.random() < 0.7 else bound * 0.7 for _ in times]
        more = {
            "backup_cost": dict(enumerate(costs)),
            "backup": {v: str(choice) for v, choice in enumerate(choices)},
            "max_recovery": {v: own for v, own in enumerate(bounds) if own != bound},
        }
        durable = bool(rng.integers(2))
        best = cheapest(
            times,
            edges,
            bounds,
            costs=costs,
            required=np.flatnonzero(choices == "required").tolist(),
            forbidden=np.flatnonzero(choices == "forbidden").tolist(),
            durable=durable,
        )
        for algorithm in ("exact", "auto"):
            sources = "durable" if durable else "replayed"
            result = run(times, edges, bound, algorithm, more, sources=sources)
            assert result.feasible == (best is not None)
            if best is not None:
                assert result.optimal
                assert result.objective == pytest.approx(best)
                assert result.bound == pytest.approx(best)


def test_exhaustive_finds_the_smallest_overall_latency_too() -> None:
    """Among the plans with the fewest backups, exhaustive has the smallest O."""
    rng = np.random.default_rng(3)
    for _ in range(25):
        times, edges, bound = random_instance(rng, 8)
        best = cheapest(times, edges, [bound] * len(times))
        result = run(times, edges, bound, "exhaustive")
        assert result.objective == pytest.approx(best)
        assert result.optimal
        other = run(times, edges, bound, "exact")
        assert result.overall <= other.overall + 1e-9


def test_tree_equals_exact_on_in_trees() -> None:
    """One pass is optimal on forests of in-trees, with durable sources too."""
    rng = np.random.default_rng(4)
    for _ in range(80):
        times, edges, bound = random_instance(rng, 16, tree=True)
        sources = "durable" if rng.integers(2) else "replayed"
        tree = run(times, edges, bound, "tree", sources=sources)
        problem = make_problem(
            topology_of(times, edges), PlanRequest(max_recovery=bound, sources=sources)
        )
        proved = search(problem, Solve(), QUICK)
        assert proved.optimal
        assert tree.optimal
        assert tree.count == len(proved.backups)


@pytest.mark.parametrize("shape", ["in", "out"])
def test_forests_with_costs_are_solved_exactly(shape) -> None:
    """In- and out-forests with any costs, forbidden tasks and durable sources, by brute force."""
    rng = np.random.default_rng(6)
    for _ in range(60):
        times, edges, bound = random_instance(rng, 9, tree=True)
        if shape == "out":
            edges = [(v, u) for u, v in edges]
        costs = [float(rng.integers(1, 6)) for _ in times]
        barred = [v for v in range(len(times)) if rng.random() < 0.15]
        durable = bool(rng.integers(2))
        more = {
            "backup_cost": dict(enumerate(costs)),
            "backup": dict.fromkeys(barred, "forbidden"),
        }
        best = cheapest(
            times, edges, [bound] * len(times), costs=costs, forbidden=barred, durable=durable
        )
        sources = "durable" if durable else "replayed"
        for algorithm in ("auto", "tree") if shape == "in" else ("auto",):
            result = run(times, edges, bound, algorithm, more, sources=sources)
            assert result.feasible == (best is not None)
            if best is not None:
                assert result.optimal
                assert result.objective == pytest.approx(best)


def test_a_required_durable_source_is_still_a_backup() -> None:
    """Required means listed and paid for, also where the output would survive anyway."""
    more = {"backup": {0: "required"}, "backup_cost": {0: 2.0, 1: 3.0}}
    edges = [(0, 1), (1, 2)]
    for algorithm in ("auto", "exact"):
        result = run([1, 1, 1], edges, 2.0, algorithm, more, sources="durable")
        assert result.backups == ("0",)
        assert result.objective == 2.0


def test_full_chains_are_solved_exactly() -> None:
    """The DP over Full links equals brute force, weights and costs differing within operators."""
    rng = np.random.default_rng(5)
    for _ in range(25):
        widths = [int(w) for w in rng.integers(1, 4, size=int(rng.integers(2, 5)))][:4]
        operators, names, start = [], [], 0
        for i, width in enumerate(widths):
            operators.append(
                Operator(
                    name=f"o{i}",
                    parallelism=width,
                    reprocess_time=tuple(float(t) for t in rng.integers(1, 6, size=width)),
                    backup_cost=tuple(float(c) for c in rng.integers(1, 4, size=width)),
                )
            )
            names.append(range(start, start + width))
            start += width
        edges = [Edge(source=f"o{i}", target=f"o{i + 1}") for i in range(len(widths) - 1)]
        topology = Topology(name="chain", operators=tuple(operators), edges=tuple(edges))
        times = [t for operator in operators for t in operator.reprocess_time]
        costs = [c for operator in operators for c in operator.backup_cost]
        links = [(u, v) for a, b in itertools.pairwise(names) for u in a for v in b]
        bound = float(max(times) + rng.integers(0, 12))
        best = cheapest(times, links, [bound] * start, costs=costs)
        result = PLANNER.plan(topology, PlanRequest(max_recovery=bound), Solve())
        assert result.objective == pytest.approx(best)
        assert result.optimal


def test_bytes_logged_are_a_cost() -> None:
    """With --cost bytes the backup goes where the least is written."""
    topology = Topology(
        name="t",
        operators=(
            Operator(name="a", reprocess_time=1.0),
            Operator(name="b", reprocess_time=1.0, selectivity=0.1),
            Operator(name="c", reprocess_time=1.0, selectivity=10.0),
            Operator(name="d", reprocess_time=1.0),
        ),
        edges=tuple(Edge(source=x, target=y) for x, y in ("ab", "bc", "cd")),
        rates={"a": 100.0},
    )
    request = PlanRequest(max_recovery=3.0, cost="bytes")
    result = PLANNER.plan(topology, request, Solve())
    assert result.backups == ("b",)
    assert result.objective == pytest.approx(10.0)
    without = Topology(name="t", operators=topology.operators, edges=topology.edges)
    with pytest.raises(BadInputError, match="unknown without rates"):
        PLANNER.plan(without, request, Solve())


def test_reprocessing_time_from_a_checkpoint_interval() -> None:
    """A bound takes the replay of a whole interval, an expectation half of it."""
    topology = Topology(
        name="t",
        operators=(
            Operator(name="a", checkpoint_interval=10.0, cost=0.01),
            Operator(name="b", checkpoint_interval=4.0),
        ),
        edges=(Edge(source="a", target="b"),),
        rates={"a": 20.0},
    )
    result = PLANNER.plan(topology, PlanRequest(max_recovery=100.0), Solve())
    assert result.recovery_latency == pytest.approx({"a": 2.0, "b": 6.0})
    half = PLANNER.plan(topology, PlanRequest(max_recovery=100.0, expected=True), Solve())
    assert half.recovery_latency == pytest.approx({"a": 1.0, "b": 3.0})


def test_sweep_is_the_whole_staircase() -> None:
    """Every bound asked for separately lies on the swept curve."""
    topology = layered_dag(4, 3, density=0.5, weights="random", seed=7)
    sweep = PLANNER.sweep(topology, PlanRequest(), Solve())
    assert sweep.points[-1].y == 0
    xs = [point.x for point in sweep.points]
    assert xs == sorted(xs)
    for bound in np.linspace(xs[0], xs[-1] * 1.1, 23):
        asked = PLANNER.plan(topology, PlanRequest(max_recovery=float(bound)), Solve())
        on_curve = [point.y for point in sweep.points if point.x <= bound + 1e-9][-1]
        assert asked.objective == pytest.approx(on_curve)


def test_reasons_name_the_task_that_would_be_too_slow() -> None:
    """Each backup is explained by what would happen without it."""
    topology = topology_of([2, 1, 4, 3, 3], [(0, 1), (1, 2), (2, 3), (3, 4)])
    request = PlanRequest(max_recovery=7.0)
    lines = PLANNER.explain(topology, request, PLANNER.plan(topology, request, Solve()))
    assert any(
        "task 2 is a backup because without it" in line and "above the bound of 7 s" in line
        for line in lines
    )


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [("line", "tree, dag or auto"), ("tree", "dag or auto"), ("exhaustive", "write exact")],
)
def test_algorithms_refuse_what_they_cannot_do(algorithm, said) -> None:
    """An algorithm for another shape or size says which to write instead."""
    request = PlanRequest(algorithm=algorithm, max_recovery=3.0)
    with pytest.raises(BadInputError, match=said):
        PLANNER.plan(sentiment(10, 8, 8), request, Solve())


def test_a_bound_is_needed() -> None:
    """Without --max-recovery there is nothing to keep."""
    with pytest.raises(BadInputError, match="needs a bound"):
        PLANNER.plan(sentiment(3, 3, 3), PlanRequest(), Solve())


def test_stopping_gives_a_feasible_plan_with_a_bound() -> None:
    """Ctrl-C at once still yields a plan that keeps the bound."""
    topology = layered_dag(12, 25, density=0.15, weights="random", seed=3)
    request = PlanRequest(max_recovery=25.0)
    result = PLANNER.plan(topology, request, Solve(should_stop=lambda: True))
    assert result.feasible
    assert result.overall <= 25.0
    assert result.bound <= result.objective
    assert "stopped early" in result.note


@pytest.mark.parametrize("algorithm", ["auto", "exact"])
def test_stopping_anywhere_never_proves_too_much(algorithm) -> None:
    """Wherever the search is stopped, its bound is at most the optimum, and optimal means it."""
    topology = layered_dag(10, 8, density=0.3, weights="random", seed=3)
    request = PlanRequest(algorithm=algorithm, max_recovery=30.0)
    best = PLANNER.plan(topology, request, Solve())
    assert best.optimal
    early = 0
    for allowed in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377):
        looks = itertools.count()
        stop = Solve(should_stop=lambda looks=looks, allowed=allowed: next(looks) >= allowed)
        found = PLANNER.plan(topology, request, stop)
        assert found.bound <= best.objective + 1e-9
        assert found.objective >= best.objective - 1e-9
        assert not found.optimal or found.objective == pytest.approx(best.objective)
        early += not found.optimal
    assert early


def test_the_bound_from_chains_holds() -> None:
    """Dropping links can only lower the optimum: on DAGs with costs and forbidden tasks too."""
    rng = np.random.default_rng(21)
    tight = 0
    for seed in range(60):
        topology = random_dag(30, density=0.12, weights="random", seed=seed)
        operators = tuple(
            replace(
                operator,
                backup_cost=float(rng.integers(1, 5)) if seed % 2 else None,
                backup="forbidden" if rng.random() < 0.1 else "free",
            )
            for operator in topology.operators
        )
        topology = replace(topology, operators=operators)
        request = PlanRequest(algorithm="exact", max_recovery=float(rng.integers(20, 45)))
        best = PLANNER.plan(topology, request, Solve())
        if best.feasible:
            bound = forest_bound(core_of(make_problem(topology, request)))
            assert bound <= best.objective + 1e-9
            tight += bound >= best.objective - 1e-9
    assert tight


def test_chains_pass_through_full_links() -> None:
    """A Full link is one node of the instance, yet as many chains pass it as tasks are joined."""
    topology = chain(9, parallelism=4, links="full")
    request = PlanRequest(max_recovery=3.0)
    core = core_of(make_problem(topology, request))
    best = PLANNER.plan(topology, request, Solve())
    assert best.optimal
    assert best.objective == 8.0
    assert fast_bound(core) == forest_bound(core) == best.objective


def test_chain_windows_are_windows_and_chains_share_no_node() -> None:
    """Every node follows at most one other, and dropping a window's first node makes it short."""
    topology = layered_dag(8, 6, density=0.4, weights="random", seed=5)
    core = core_of(make_problem(topology, PlanRequest(max_recovery=20.0)))
    following = chain_cover(core, np.random.default_rng(2).permutation(core.size))
    used = [w for w in following if w >= 0]
    assert len(used) == len(set(used))
    windows = chain_windows(core, following)
    assert windows
    for window in windows:
        last = following[window[-1]]
        total = sum(core.times[v] for v in window) + core.times[last]
        assert total > core.caps[last] >= total - core.times[window[0]]


@pytest.mark.parametrize("width", [5, 12])
def test_layers_of_equal_tasks_are_proved_by_chains_alone(width) -> None:
    """On dense layers with T = 1 the chains' bound is the optimum."""
    topology = layered_dag(20, width, density=0.9, seed=1)
    request = PlanRequest(max_recovery=4.0)
    core = core_of(make_problem(topology, request))
    assert forest_bound(core) == PLANNER.plan(topology, request, Solve()).objective
