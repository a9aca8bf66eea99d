"""The worked examples: every published or agreed number of FastRecover."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.planners.fastrecover.cases import (
    VECTOR_CHAIN,
    VECTOR_TREE,
    closed_form,
    problem_of,
)

from holdfast.planners.fastrecover import PLANNER
from holdfast.planners.fastrecover.frequencies import Goal
from holdfast.planners.fastrecover.rsrfs import accumulate, best_exchange
from holdfast.planners.interface import PlanRequest, Solve
from holdfast.topology.graph import Edge, Operator, Topology
from holdfast.topology.rates import operator_rates

pytestmark = pytest.mark.unit

BY_HEADS = {
    (0,): 0.009741300000000001,
    (0, 1): 0.007948295114630334,
    (0, 2): 0.006941083714945036,
    (0, 1, 2): 0.00858951960739584,
    (0, 3): 0.007061034653625921,
    (0, 1, 3): 0.006151580731720688,
    (0, 2, 3): 0.005924525777873411,
    (0, 1, 2, 3): 0.0076172972357962405,
}


def plan(topology, algorithm, **options):
    request = PlanRequest(algorithm=algorithm, max_overhead=0.4, **options)
    return PLANNER.plan(topology, request, Solve())


@pytest.mark.parametrize("heads", BY_HEADS)
def test_every_partition_of_the_chain_has_its_value(heads):
    """All eight partitions of the worked chain score as computed by hand."""
    anchors = np.zeros(4, bool)
    anchors[list(heads)] = True
    found = problem_of(VECTOR_CHAIN, Goal("overhead", 0.4)).solve(anchors)
    assert found.objective == pytest.approx(BY_HEADS[heads], rel=1e-12)
    reference = closed_form(VECTOR_CHAIN, frozenset(heads), Goal("overhead", 0.4))
    assert reference == pytest.approx(BY_HEADS[heads], rel=1e-12)


@pytest.mark.parametrize("algorithm", ["auto", "exact", "dag"])
def test_the_worked_chain(algorithm):
    """The chain's optimum, its anchors and its frequencies."""
    found = plan(VECTOR_CHAIN, algorithm)
    assert found.feasible
    assert found.optimal
    assert found.objective == pytest.approx(0.005924525777873411, rel=1e-12)
    assert found.expected_recovery_time == pytest.approx(0.005924525777873411, rel=1e-9)
    assert found.anchors == ("0", "2", "3")
    wanted = {"0": 10.838523026959654, "2": 10.691053257107779, "3": 4.781184366792706}
    assert {s.head: s.frequency for s in found.segments} == pytest.approx(wanted, rel=1e-9)
    assert found.checkpoint_overhead == pytest.approx(0.4, rel=1e-12)
    assert found.checkpoint_overhead <= 0.4


def test_the_thesis_grid_on_the_worked_chain():
    """Algorithm 1 with Z = 60 finds its own, slightly worse plan."""
    found = plan(VECTOR_CHAIN, "chain", grid_overhead=60)
    assert found.objective == pytest.approx(0.005947284284125219, rel=1e-12)
    assert found.anchors == ("0", "2", "3")


@pytest.mark.parametrize("algorithm", ["auto", "exact", "dag"])
def test_the_worked_tree(algorithm):
    """The tree's optimum, its anchors and its frequencies."""
    found = plan(VECTOR_TREE, algorithm)
    assert found.optimal
    assert found.objective == pytest.approx(0.007921142840814459, rel=1e-9)
    assert found.anchors == ("0", "1")
    wanted = {"0": 14.428110313407684, "1": 7.421019183271378}
    assert {s.head: s.frequency for s in found.segments} == pytest.approx(wanted, rel=1e-6)
    assert [s.operators for s in found.segments] == [("0", "2"), ("1", "3")]


def test_the_rate_example():
    """The fourth operator receives 1000 * s1 * s2 * s3 = 50 tuples, not by s2 * s3 * s4."""
    topology = Topology(
        name="rates",
        operators=tuple(
            Operator(name=str(i), selectivity=s) for i, s in enumerate((1.0, 0.1, 0.5, 1.0))
        ),
        edges=tuple(Edge(source=str(i), target=str(i + 1)) for i in range(3)),
        rates={"0": 1000.0},
    )
    assert operator_rates(topology).input[3] == pytest.approx(50.0)


def test_the_first_exchange_example():
    """Halving drags along successors of the same frequency: 4, 8 and 4 ms."""
    eta = np.array([4.0, 2.0, 2.0])
    head = np.array([True, False, False])
    four = np.full(3, 4.0)
    table = accumulate(eta, head, four, four, four, four)
    assert table.recovery_if_halved.tolist() == [4.0, 8.0, 4.0]
    assert table.last_halved.tolist() == [0, 2, 2]


def test_the_second_exchange_example():
    """Halving op3 (with op4) and doubling op8 gains 1 ms at no overhead."""
    eta = np.array([4.0] * 4 + [8.0] * 3 + [6.0] * 3)
    head = np.array([True, False, False, False, True, False, False, True, False, False])
    dear, cheap = np.full(10, 1e6), np.full(10, 1e-6)
    slower, cheaper, faster, dearer = dear.copy(), cheap.copy(), -dear, dear.copy()
    slower[3], cheaper[3] = 6.0, 3.0
    slower[2], cheaper[2] = 8.0, 7.0
    faster[7], dearer[7] = 15.0, 10.0
    table = accumulate(eta, head, slower, cheaper, faster, dearer)
    assert table.recovery_if_halved[2] == 14.0
    assert table.overhead_if_halved[2] == 10.0
    assert table.recovery_if_doubled[7] == 15.0
    assert table.overhead_if_doubled[7] == 10.0
    swap = best_exchange(table, room=0.0)
    assert swap is not None
    assert (swap.halved, swap.doubled, swap.overhead) == (slice(2, 4), slice(7, 8), 0.0)
