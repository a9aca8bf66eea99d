"""Topologies and slow but obvious references that the FastRecover tests share.

The references know nothing of the planner's code: they follow the formulas on plain Python sets and
optimise frequencies numerically.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from scipy.optimize import minimize

from holdfast.planners.fastrecover.checkpointing import checkpoint_model
from holdfast.planners.fastrecover.frequencies import Goal, Rule
from holdfast.planners.fastrecover.problem import Problem
from holdfast.topology.graph import Edge, Operator, Topology
from holdfast.topology.rates import operator_rates

VECTOR = ((0.5, 10_000.0, 0.1), (1.0, 20_000.0, 0.05), (0.2, 15_000.0, 0.15), (1.0, 10_000.0, 0.1))
"""Selectivity, state and failure rate of the four operators of the worked examples."""


def vector_topology(pairs: tuple[tuple[int, int], ...]) -> Topology:
    return Topology(
        name="vector",
        operators=tuple(
            Operator(name=str(i), selectivity=s, cost=1e-5, state_size=pi, failure_rate=rho)
            for i, (s, pi, rho) in enumerate(VECTOR)
        ),
        edges=tuple(Edge(source=str(u), target=str(v)) for u, v in pairs),
        rates={"0": 3000.0},
    )


VECTOR_CHAIN = vector_topology(((0, 1), (1, 2), (2, 3)))
VECTOR_TREE = vector_topology(((0, 1), (0, 2), (1, 3)))


def random_topology(
    rng: np.random.Generator,
    pairs: list[tuple[int, int]],
    size: int,
    *,
    rate: float = 1000.0,
    wide: bool = False,
    capped: bool = False,
    stateless: bool = False,
) -> Topology:
    """Thesis-like operators on given edges; `wide` spreads states and failure rates."""

    def spread() -> float:
        return float(10 ** rng.uniform(-1, 1)) if wide else 1.0

    fed = {v for _, v in pairs}
    operators = tuple(
        Operator(
            name=f"o{i}",
            selectivity=float(rng.uniform(0.1, 1)),
            cost=1e-5,
            state_size=0.0
            if stateless and rng.random() < 0.4
            else float(rng.uniform(1e4, 2e4)) * spread(),
            failure_rate=max(0.01, float(rng.normal(0.1, 0.03))) * spread(),
            min_interval=float(rng.uniform(0.05, 0.6)) if capped else 0.0,
        )
        for i in range(size)
    )
    return Topology(
        name="random",
        operators=operators,
        edges=tuple(Edge(source=f"o{u}", target=f"o{v}") for u, v in sorted(set(pairs))),
        rates={f"o{i}": rate for i in range(size) if i not in fed},
    )


def chain_pairs(size: int) -> list[tuple[int, int]]:
    return [(i, i + 1) for i in range(size - 1)]


def tree_pairs(rng: np.random.Generator, size: int, roots: int = 1) -> list[tuple[int, int]]:
    return [(int(rng.integers(v)), v) for v in range(roots, size)]


def dag_pairs(rng: np.random.Generator, size: int) -> list[tuple[int, int]]:
    return [
        (int(u), v)
        for v in range(1, size)
        for u in rng.choice(v, size=min(v, int(rng.integers(1, 4))), replace=False)
    ]


def problem_of(topology: Topology, goal: Goal, rule: Rule | None = None) -> Problem:
    model = checkpoint_model(topology)
    return Problem(
        model=model,
        goal=goal,
        rule=rule or Rule(),
        required=model.is_source.copy(),
        forbidden=np.zeros(model.size, bool),
    )


def overhead_goal(topology: Topology, rng: np.random.Generator) -> Goal:
    """A bound somewhere between just feasible and generous."""
    model = checkpoint_model(topology)
    return Goal("overhead", float(model.save[model.is_source].sum() * rng.uniform(1.05, 4)))


# -- references ----------------------------------------------------------------------------------


def every_anchor_set(topology: Topology) -> Iterator[frozenset[int]]:
    sources = frozenset(topology.sources)
    free = [i for i in range(len(topology.operators)) if i not in sources]
    for many in range(len(free) + 1):
        for chosen in itertools.combinations(free, many):
            yield sources | frozenset(chosen)


def involved(topology: Topology, anchors: frozenset[int], i: int) -> frozenset[int]:
    """i and its ancestors in the segment."""
    found = {i}
    if i not in anchors:
        for j in topology.upstream[i]:
            found |= involved(topology, anchors, j)
    return frozenset(found)


def components(topology: Topology, anchors: frozenset[int]) -> list[frozenset[int]]:
    """What hangs together over unsaved edges."""
    neighbours: dict[int, set[int]] = {i: set() for i in range(len(topology.operators))}
    for i in range(len(topology.operators)):
        if i not in anchors:
            for j in topology.upstream[i]:
                neighbours[i].add(j)
                neighbours[j].add(i)
    left, found = set(neighbours), []
    while left:
        here, edge = set(), {min(left)}
        while edge:
            here |= edge
            edge = {k for i in edge for k in neighbours[i]} - here
        found.append(frozenset(here))
        left -= here
    return found


def reference_costs(
    topology: Topology, anchors: frozenset[int]
) -> list[tuple[float, float, float, float]]:
    """(K, a, b, D) per segment, straight from the definitions with linear storage costs."""
    rate = operator_rates(topology).input
    tuple_cost, state_cost = topology.storage.tuple_cost, topology.storage.state_cost
    rows = []
    for members in components(topology, anchors):
        K = a = b = D = 0.0
        for i in members:
            op = topology.operators[i]
            behind = involved(topology, anchors, i)
            assert behind <= members
            K += op.failure_rate * sum(
                state_cost * topology.operators[k].state_size for k in behind
            )
            a += op.failure_rate * sum(
                topology.operators[k].cost * rate[k]
                + (tuple_cost * rate[k] * topology.operators[k].tuple_size if k in anchors else 0.0)
                for k in behind
            )
            b += state_cost * op.state_size
            D += tuple_cost * rate[i] * op.tuple_size if i in anchors else 0.0
        rows.append((K, a, b, D))
    return rows


def closed_form(topology: Topology, anchors: frozenset[int], goal: Goal) -> float:
    """K + S^2 / (C - D), or D + S^2 / (R - K); infinite when out of reach."""
    rows = reference_costs(topology, anchors)
    K, D = sum(row[0] for row in rows), sum(row[3] for row in rows)
    S = sum(math.sqrt(a * b) for _, a, b, _ in rows)
    base, room = (K, goal.limit - D) if goal.bounded == "overhead" else (D, goal.limit - K)
    if room <= 0:
        return math.inf
    return base + S * S / room


def brute_force(topology: Topology, goal: Goal) -> float:
    """The least over all partitions."""
    return min(closed_form(topology, anchors, goal) for anchors in every_anchor_set(topology))


def numeric_frequencies(a: np.ndarray, b: np.ndarray, cap: np.ndarray, room: float) -> float:
    """Least sum a / eta with sum b * eta <= room and eta <= cap, by a general optimiser."""
    start = np.minimum(cap, room / b.sum() * 0.9)
    scale = start.copy()
    result = minimize(
        lambda x: float((a / (x * scale)).sum()),
        np.ones(len(a)),
        jac=lambda x: -a / (x * x * scale),
        bounds=[(1e-6, c / s) for c, s in zip(cap, scale, strict=True)],
        constraints=[
            {
                "type": "ineq",
                "fun": lambda x: room - float((b * x * scale).sum()),
                "jac": lambda _x: -b * scale,
            }
        ],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    return float(result.fun)
