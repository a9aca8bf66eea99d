"""Odd cycles of windows are cuts: true of every plan, and above the linear relaxation."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from tests.unit.planners.ftc.instances import random_instance, topology_of

from holdfast.planners.ftc import PLANNER, relax
from holdfast.planners.ftc.core import Core, latencies
from holdfast.planners.ftc.heuristics import quick_plan
from holdfast.planners.ftc.master import Master
from holdfast.planners.ftc.odd_cycles import Cut, WindowGraph, halved
from holdfast.planners.ftc.problem import make_problem
from holdfast.planners.ftc.reduce import core_of
from holdfast.planners.ftc.windows import fractional, pairs, violated
from holdfast.planners.interface import PlanRequest, Solve
from holdfast.testing.generators import layered_dag, random_dag

pytestmark = pytest.mark.unit


def core_with_choices(rng: np.random.Generator) -> Core | None:
    """A small core with costs, required and forbidden tasks and own bounds, or no plan at all."""
    times, edges, bound = random_instance(rng, 10)
    choices = rng.choice(["free", "required", "forbidden"], len(times), p=[0.8, 0.1, 0.1])
    topology = topology_of(
        times,
        edges,
        backup_cost={v: float(rng.integers(1, 5)) for v in range(len(times))},
        backup={v: str(choice) for v, choice in enumerate(choices)},
        max_recovery={v: bound * 0.7 for v in range(len(times)) if rng.random() < 0.3},
    )
    problem = make_problem(topology, PlanRequest(max_recovery=bound))
    return core_of(problem) if problem.obstacle is None else None


def plans(core: Core) -> list[bytearray]:
    """Every plan that keeps the bound."""
    free = [v for v, cost in enumerate(core.costs) if cost < math.inf]
    sets = itertools.chain.from_iterable(
        itertools.combinations(free, size) for size in range(len(free) + 1)
    )
    return [
        backed
        for backed in map(core.flags, sets)
        if all(cap >= L for L, cap in zip(latencies(core, backed), core.caps, strict=True))
    ]


def holds(cut: Cut, backed: bytearray) -> bool:
    counted = zip(cut.nodes, cut.counts, strict=True)
    return sum(count for v, count in counted if backed[v]) >= cut.least


def test_a_ring_of_five_pairs_needs_three_backups() -> None:
    """Five windows of two nodes in a ring: the relaxation alone says 2.5, any plan needs 3."""
    # Links 0-1, 0-4, 1-2, 3-2, 3-4 close a ring of five; 2 and 4 feed a sink each.
    edges = [(0, 1), (1, 2), (3, 2), (3, 4), (0, 4), (2, 5), (4, 5), (1, 5)]
    request = PlanRequest(algorithm="exact", max_recovery=2.0)
    topology = topology_of([1.0] * 6, edges)
    graph = WindowGraph()
    graph.add(pairs(core_of(make_problem(topology, request))))
    assert len(graph.windows) == 5
    for share, found in ((0.5, [Cut((0, 1, 2, 3, 4), (1,) * 5, 3)]), (0.6, [])):
        x = np.full(6, share)
        assert graph.cycles(x, graph.slacks(x), np.random.default_rng(0)) == found
    assert PLANNER.plan(topology, request, Solve()).objective == 3.0


def test_longer_windows_meet_in_their_parts() -> None:
    """Three windows of four nodes, two of them shared by each pair of windows, need two backups."""
    windows = [(0, 1, 2, 3), (2, 3, 4, 5), (0, 1, 4, 5)]
    graph = WindowGraph()
    graph.add([*windows, windows[0]])
    x = np.full(6, 0.25)
    found = graph.cycles(x, graph.slacks(x), np.random.default_rng(0))
    assert found == [Cut((0, 1, 2, 3, 4, 5), (1,) * 6, 2)]
    assert found == [halved(windows)]


def test_nodes_on_three_windows_count_twice() -> None:
    """Halving rounds up: a node on three of three windows has weight two, so it suffices alone."""
    assert halved([(0, 1), (0, 2), (0, 3)]) == Cut((0, 1, 2, 3), (2, 1, 1, 1), 2)


@pytest.mark.parametrize("seed", range(4))
def test_every_cut_holds_for_every_plan(seed) -> None:
    """Costs, required and forbidden tasks and own bounds; against all plans of small DAGs."""
    rng = np.random.default_rng((31, seed))
    seen = 0
    for _ in range(60):
        core = core_with_choices(rng)
        if core is None:
            continue
        graph = WindowGraph()
        graph.add(pairs(core))
        graph.add(violated(core, core.flags())[0])
        for _ in range(6):
            graph.add(fractional(core, rng.random(core.size).tolist()))
        if not graph.windows:
            continue
        every = plans(core)
        for share in (0.2, 0.25, 1 / 3, 0.5):
            x = np.where(rng.random(core.size) < 0.9, share, rng.random(core.size))
            for cut in graph.cycles(x, graph.slacks(x), rng):
                seen += 1
                assert all(holds(cut, backed) for backed in every)
    assert seen


@pytest.mark.slow
def test_the_bound_with_cycles_is_above_the_one_without_and_below_the_optimum(monkeypatch) -> None:
    """The relaxation never passes the cheapest plan, also where its cycles do raise it."""
    monkeypatch.setattr(relax, "_EASY", 0)
    rng = np.random.default_rng(32)
    higher = 0
    for seed in range(30):
        topology = (
            random_dag(40, density=0.15, seed=seed)
            if seed % 2
            else layered_dag(6, 6, density=0.4, weights="random", seed=seed)
        )
        costs = seed % 3 == 0
        operators = tuple(
            replace(
                operator,
                backup_cost=float(rng.integers(1, 5)) if costs else None,
                backup="forbidden" if rng.random() < 0.05 else "free",
            )
            for operator in topology.operators
        )
        topology = replace(topology, operators=operators)
        request = PlanRequest(algorithm="exact", max_recovery=3.0 if seed % 2 else 18.0)
        best = PLANNER.plan(topology, request, Solve())
        if not best.feasible:
            continue
        assert best.optimal
        core = core_of(make_problem(topology, request))
        with_cycles, without = (
            relax.relax(
                Master(core, Solve()),
                quick_plan(core),
                Solve(),
                rounds=80,
                patient=True,
                cycles=cycles,
            ).bound
            for cycles in (True, False)
        )
        assert without - 1e-6 <= with_cycles <= best.objective + 1e-6
        higher += with_cycles > without + 1e-3
    assert higher
