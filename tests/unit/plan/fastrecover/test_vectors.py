"""Worked examples of the checkpointing problem, and the optimum against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.unit.plan.fastrecover.closed_form import best_cut, recovery_time, tree_topology

from holdfast.errors import BadInputError
from holdfast.model.rates import operator_rates
from holdfast.model.topology import Edge, Operator, Topology
from holdfast.plan.fastrecover import PLANNER
from holdfast.plan.protocol import PlanRequest, Solve

pytestmark = pytest.mark.unit

FOUR = [
    {"s": 0.5, "tau": 1e-5, "pi": 10000.0, "theta": 1.0, "rho": 0.1},
    {"s": 1.0, "tau": 1e-5, "pi": 20000.0, "theta": 1.0, "rho": 0.05},
    {"s": 0.2, "tau": 1e-5, "pi": 15000.0, "theta": 1.0, "rho": 0.15},
    {"s": 1.0, "tau": 1e-5, "pi": 10000.0, "theta": 1.0, "rho": 0.1},
]
CHAIN = [-1, 0, 1, 2]
TREE = [-1, 0, 0, 1]


def plan(topology, algorithm="auto", **options):
    return PLANNER.plan(topology, PlanRequest(algorithm=algorithm, **options), Solve())


def test_closed_form_per_set_of_anchors() -> None:
    """Every set of heads of the four-operator chain has its known recovery time."""
    known = {
        (): 0.0097413,
        (1,): 0.007948295114630334,
        (2,): 0.006941083714945036,
        (1, 2): 0.00858951960739584,
        (3,): 0.007061034653625921,
        (1, 3): 0.006151580731720688,
        (2, 3): 0.005924525777873411,
        (1, 2, 3): 0.0076172972357962405,
    }
    topology = tree_topology(CHAIN, FOUR)
    for chosen in itertools.chain.from_iterable(
        itertools.combinations((1, 2, 3), n) for n in range(4)
    ):
        found = recovery_time(topology, CHAIN, set(chosen), 0.4)
        assert found == pytest.approx(known[chosen], rel=1e-9)


@pytest.mark.parametrize("algorithm", ["auto", "exact", "dag"])
def test_chain_of_four(algorithm) -> None:
    """The known optimum: anchors 0, 2 and 3 with their frequencies, and the whole overhead."""
    result = plan(tree_topology(CHAIN, FOUR), algorithm, max_overhead=0.4)
    assert result.anchors == ("o0", "o2", "o3")
    assert result.expected_recovery_time == pytest.approx(0.005924525777873411, rel=1e-6)
    assert result.checkpoint_overhead == pytest.approx(0.4, rel=1e-6)
    frequencies = {segment.head: segment.frequency for segment in result.segments}
    assert frequencies == pytest.approx(
        {"o0": 10.838523026959654, "o2": 10.691053257107779, "o3": 4.781184366792706}, rel=1e-3
    )


def test_grid_of_the_thesis_on_the_chain() -> None:
    """Algorithm 1 with Z = 60 comes close, and never below the optimum."""
    result = plan(tree_topology(CHAIN, FOUR), "chain", max_overhead=0.4, grid_overhead=60)
    assert result.expected_recovery_time >= 0.005924525777873411 * (1 - 1e-9)
    assert result.expected_recovery_time == pytest.approx(0.005947284284125219, rel=5e-3)
    assert result.checkpoint_overhead <= 0.4 * (1 + 1e-9)


@pytest.mark.parametrize("algorithm", ["auto", "exact"])
def test_tree_of_four(algorithm) -> None:
    """The known optimum of the out-tree."""
    result = plan(tree_topology(TREE, FOUR), algorithm, max_overhead=0.4)
    assert result.expected_recovery_time == pytest.approx(0.007921142840814459, rel=1e-3)
    assert result.expected_recovery_time >= 0.007921142840814459 * (1 - 1e-9)
    assert result.anchors == ("o0", "o1")


def test_rate_example() -> None:
    """The fourth operator receives Omega s1 s2 s3 = 50."""
    operators = tuple(
        Operator(name=f"o{i}", selectivity=s) for i, s in enumerate((1.0, 0.1, 0.5, 1.0))
    )
    edges = tuple(Edge(source=f"o{i}", target=f"o{i + 1}") for i in range(3))
    topology = Topology(name="t", operators=operators, edges=edges, rates={"o0": 1000.0})
    assert operator_rates(topology).input[3] == pytest.approx(50.0)


def random_case(rng: np.random.Generator, most: int, *, chain: bool):
    size = int(rng.integers(2, most + 1))
    operators = [
        {
            "s": 0.1 + 0.9 * rng.random(),
            "tau": 1e-5 * rng.random(),
            "pi": float(rng.choice([0.0, 2e4]) * rng.random()),
            "theta": 0.2 + rng.random(),
            "rho": 0.2 * rng.random(),
        }
        for _ in range(size)
    ]
    parents = [-1] + [i - 1 if chain else int(rng.integers(0, i)) for i in range(1, size)]
    return tree_topology(parents, operators), parents, float(0.12 + 0.8 * rng.random())


@pytest.mark.parametrize("chain", [True, False])
def test_exact_equals_brute_force(chain) -> None:
    """On random chains and out-trees `exact` finds the optimum, and a plan whenever one exists."""
    rng = np.random.default_rng(7)
    tolerance = 1e-6 if chain else 1e-3
    for _ in range(60):
        topology, parents, overhead = random_case(rng, 8, chain=chain)
        best = best_cut(topology, parents, overhead)
        result = plan(topology, "exact", max_overhead=overhead)
        assert result.feasible == (best is not None)
        if best is not None:
            assert result.expected_recovery_time <= best[0] * (1 + tolerance) + 1e-15
            assert result.expected_recovery_time >= best[0] * (1 - 1e-9) - 1e-15
            assert result.checkpoint_overhead <= overhead * (1 + 1e-9)


@pytest.mark.parametrize(
    "algorithm", ["chain", "rsrfs", "rsrfs-exact", "nsegments", "onesegment", "tree"]
)
def test_every_algorithm_keeps_the_overhead_bound(algorithm) -> None:
    """No algorithm exceeds the bound, and none but per-operator frequencies beats the optimum."""
    rng = np.random.default_rng(8)
    feasible = 0
    for _ in range(15):
        topology, parents, overhead = random_case(rng, 7, chain=True)
        best = best_cut(topology, parents, overhead)
        result = plan(topology, algorithm, max_overhead=overhead)
        if not result.feasible:
            assert result.segments == ()
            continue
        feasible += 1
        assert result.checkpoint_overhead <= overhead * (1 + 1e-6)
        if not algorithm.startswith("rsrfs"):
            assert result.expected_recovery_time >= best[0] * (1 - 1e-9)
    assert feasible >= 5


def test_the_dual_question() -> None:
    """Asking for the recovery time of an optimum gives back its overhead."""
    topology = tree_topology(CHAIN, FOUR)
    result = plan(topology, "exact", max_recovery=0.005924525777873411)
    assert result.feasible
    assert result.checkpoint_overhead == pytest.approx(0.4, rel=1e-3)
    assert result.expected_recovery_time <= 0.005924525777873411 * (1 + 1e-6)


def test_dags_with_joins_are_planned() -> None:
    """On a diamond with a join the plan keeps the bound and says how good it is."""
    names = ("s", "a", "b", "j", "k")
    operators = tuple(
        Operator(
            name=name,
            cost=1e-5,
            state_size=1e4,
            failure_rate=0.1,
            input="correlated" if name == "j" else "independent",
        )
        for name in names
    )
    edges = tuple(Edge(source=x, target=y) for x, y in ("sa", "sb", "aj", "bj", "jk"))
    topology = Topology(name="d", operators=operators, edges=edges, rates={"s": 1000.0})
    result = plan(topology, max_overhead=0.6)
    assert result.feasible
    assert result.checkpoint_overhead <= 0.6 * (1 + 1e-9)
    assert result.bound <= result.objective * (1 + 1e-9)
    assert "s" in result.anchors
    covered = [name for segment in result.segments for name in segment.operators]
    assert sorted(covered) == sorted(names)


def test_too_little_overhead_is_infeasible() -> None:
    """Below the cost of saving the source's input there is no plan."""
    result = plan(tree_topology(CHAIN, FOUR), max_overhead=0.1)
    assert not result.feasible
    assert result.note
    assert result.to_json()["expected_recovery_time"] is None


def test_a_bound_is_needed() -> None:
    """Without any bound the question is not a question."""
    with pytest.raises(BadInputError, match="max-overhead"):
        plan(tree_topology(CHAIN, FOUR))
