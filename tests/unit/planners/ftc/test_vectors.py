"""The paper's worked examples and the counterexamples to what it claims."""

from __future__ import annotations

import pytest
from tests.unit.planners.ftc.instances import latency, topology_of

from holdfast.planners.ftc import PLANNER
from holdfast.planners.ftc.effects import (
    effect_graph,
    recovery_latencies,
)
from holdfast.planners.interface import PlanRequest, Solve

pytestmark = pytest.mark.unit

CHAIN = [(0, 1), (1, 2), (2, 3), (3, 4)]
FIG_4A = ([2, 1, 4, 3, 3], CHAIN, 7)
FIG_4B = ([3, 1, 3, 2, 3, 5, 1, 1], [(0, 1), (1, 2), (2, 3), (3, 7), (4, 5), (5, 6), (6, 7)], 8)
FIG_3 = (
    [1] * 17,
    [
        *[(1, 0), (2, 0), (3, 0), (4, 0), (5, 1), (6, 2), (7, 3), (8, 4), (9, 5), (10, 6)],
        *[(11, 8), (12, 9), (13, 10), (14, 11), (15, 12), (16, 13)],
    ],
    2,
)
FIG_2 = ([1] * 8, [(0, 1), (1, 2), (1, 3), (0, 4), (2, 5), (3, 5), (5, 7), (4, 6), (6, 7)], 2)


def plan(instance, algorithm="auto", **options):
    times, edges, bound = instance
    request = PlanRequest(algorithm=algorithm, max_recovery=float(bound), **options)
    return PLANNER.plan(topology_of(times, edges), request, Solve())


def numbers(result):
    return sorted(map(int, result.backups))


def test_figure_4a() -> None:
    """A line of five: one backup, and every printed latency."""
    for algorithm in ("auto", "line", "tree", "late", "exact", "exhaustive", "dag"):
        result = plan(FIG_4A, algorithm)
        assert result.count == 1
    result = plan(FIG_4A, "line")
    assert numbers(result) == [2]
    assert result.overall == 7
    assert list(result.recovery_latency.values()) == [2, 3, 7, 3, 6]
    assert numbers(plan(FIG_4A, "line-as-printed")) == [2]


def test_figure_4b() -> None:
    """Two lines: backups 2 and 5; as printed the algorithm finds none and breaks the bound."""
    result = plan(FIG_4B, "line")
    assert numbers(result) == [2, 5]
    assert list(result.recovery_latency.values()) == [3, 4, 7, 2, 3, 8, 1, 3]
    printed = plan(FIG_4B, "line-as-printed")
    assert printed.backups == ()
    assert printed.overall == 10
    assert not printed.feasible
    assert "breaks the bound" in printed.note


def test_figure_3() -> None:
    """Parallel lines by both conventions: 5 backups with durable sources, 7 without."""
    assert numbers(plan(FIG_3, "line", sources="durable")) == [1, 2, 8, 9, 10]
    for algorithm in ("auto", "exact", "tree", "line"):
        assert plan(FIG_3, algorithm, sources="durable").count == 5
        assert plan(FIG_3, algorithm).count == 7
    found = latency(FIG_3[0], FIG_3[1], [1, 2, 8, 9, 10])
    assert max(found) == 3


def test_figure_2() -> None:
    """The drawn backups keep the bound, but three would do."""
    times, edges, _ = FIG_2
    graph = effect_graph(topology_of(times, edges))
    drawn = ["abcdefgh".index(x) for x in "acde"]
    assert recovery_latencies(graph, times, drawn) == [1, 1, 2, 2, 1, 1, 1, 2]
    assert plan(FIG_2).count == 3


def test_algorithm_4_as_printed_breaks_the_bound() -> None:
    """Lemma 3 is false: the printed DAG algorithm leaves a task above the bound."""
    instance = ([1, 1, 2], [(0, 1), (0, 2)], 2)
    printed = plan(instance, "dag-as-printed")
    assert printed.backups == ()
    assert list(printed.recovery_latency.values()) == [1, 2, 3]
    assert not printed.feasible
    assert numbers(plan(instance, "dag")) == [0]


def test_algorithm_3_as_printed_breaks_the_bound() -> None:
    """Lemma 2 is false: a backup that is reached too late ends the printed search."""
    instance = ([5, 5, 10, 6], [(1, 0), (2, 1), (3, 1)], 13)
    printed = plan(instance, "tree-as-printed")
    assert numbers(printed) == [1]
    assert list(printed.recovery_latency.values()) == [5, 15, 10, 6]
    assert numbers(plan(instance)) == [1, 2]


def test_algorithm_3_is_not_optimal_on_trees() -> None:
    """Theorem 2 is false: the corrected search takes two backups where one will do."""
    from holdfast.planners.ftc.problem import make_problem
    from holdfast.planners.ftc.reduce import core_of
    from holdfast.planners.ftc.rounds import compute_ftc

    def search(core, v, r, backed):
        """Downstream from a source; a backup that is reached in time ends it."""
        last = None if backed[v] and r == 0.0 else v
        while core.successors[v]:
            (v,) = core.successors[v]
            if r + core.times[v] > core.caps[v]:
                return [last]
            if backed[v]:
                return []
            r, last = r + core.times[v], v
        return []

    times, edges = [8, 10, 1, 1, 10, 1], [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3)]
    problem = make_problem(topology_of(times, edges), PlanRequest(max_recovery=18.0))
    core = core_of(problem)
    backed, _ = compute_ftc(core, search, Solve())
    assert sorted(core.members[v][0] for v, chosen in enumerate(backed) if chosen) == [1, 2]
    best = plan((times, edges, 18), "tree")
    assert numbers(best) == [2]
    assert list(best.recovery_latency.values()) == [18, 10, 11, 2, 10, 1]


@pytest.mark.parametrize(("bound", "count"), [(0, None), (1, 5), (2, 2), (3, 1), (5, 1), (6, 0)])
@pytest.mark.parametrize("algorithm", ["auto", "exact", "line", "tree", "late", "exhaustive"])
def test_a_line_of_six_at_every_bound(bound, count, algorithm) -> None:
    """From infeasible to no backup at all."""
    result = plan(([1] * 6, [*CHAIN, (4, 5)], bound), algorithm)
    assert result.feasible == (count is not None)
    assert result.count == count
    if count is None:
        assert result.backups == ()
        assert result.to_json()["objective"] is None
        assert "task 0 alone takes 1" in result.note


@pytest.mark.parametrize(("backups", "overall"), [([8], 9), ([4], 5), ([4, 6], 5)])
def test_figure_1(backups, overall) -> None:
    """Where a backup stands matters more than how many there are."""
    edges = [(v, v + 1) for v in range(8)]
    graph = effect_graph(topology_of([1] * 9, edges))
    assert max(recovery_latencies(graph, [1] * 9, backups)) == overall
