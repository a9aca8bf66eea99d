"""The thesis' cost model written a second time, from its formulas, for comparison.

For a fixed set of anchors on an out-tree the best frequencies are closed form: with a, b and K per
segment, S = sum sqrt(a b) and D the cost of saving the anchors' inputs, RT = sum K + S^2 / (C - D).
"""

from __future__ import annotations

import itertools
import math

from holdfast.model.topology import Edge, Operator, Topology

Cut = tuple[float, tuple[int, ...]]


def tree_topology(parents, operators, *, rate=3000.0, tuple_cost=5e-5, state_cost=3e-7) -> Topology:
    """An out-tree from parent indices and dicts of s, tau, pi, theta, rho."""
    from holdfast.model.topology import Storage

    named = tuple(
        Operator(
            name=f"o{i}",
            selectivity=float(item["s"]),
            cost=float(item["tau"]),
            state_size=float(item["pi"]),
            tuple_size=float(item["theta"]),
            failure_rate=float(item["rho"]),
        )
        for i, item in enumerate(operators)
    )
    edges = tuple(Edge(source=f"o{p}", target=f"o{i}") for i, p in enumerate(parents) if p >= 0)
    return Topology(
        name="tree",
        operators=named,
        edges=edges,
        rates={"o0": rate},
        storage=Storage(tuple_cost=tuple_cost, state_cost=state_cost),
    )


def recovery_time(topology: Topology, parents, anchors, overhead) -> float | None:
    """The least expected recovery time with exactly these anchors; None if they do not fit."""
    storage, operators = topology.storage, topology.operators
    size = len(operators)
    rate = [0.0] * size
    head = [0] * size
    for i, parent in enumerate(parents):
        rate[i] = (
            topology.rates["o0"] if parent < 0 else rate[parent] * operators[parent].selectivity
        )
        head[i] = i if parent < 0 or i in anchors else head[parent]
    saved = {h: storage.tuple_cost * operators[h].tuple_size * rate[h] for h in set(head)}
    work, load = [0.0] * size, [0.0] * size
    a = dict.fromkeys(saved, 0.0)
    b = dict.fromkeys(saved, 0.0)
    fixed = 0.0
    for i, parent in enumerate(parents):
        inside = parent >= 0 and head[i] == head[parent]
        work[i] = (work[parent] if inside else 0.0) + operators[i].cost * rate[i]
        state = storage.state_cost * operators[i].state_size
        load[i] = (load[parent] if inside else 0.0) + state
        a[head[i]] += operators[i].failure_rate * (saved[head[i]] + work[i])
        b[head[i]] += state
        fixed += operators[i].failure_rate * load[i]
    left = overhead - sum(saved.values())
    if left <= 0:
        return None
    return fixed + sum(math.sqrt(a[h] * b[h]) for h in saved) ** 2 / left


def best_cut(topology: Topology, parents, overhead) -> Cut | None:
    """The optimum over all sets of anchors."""
    found: Cut | None = None
    others = [i for i, parent in enumerate(parents) if parent >= 0]
    for count in range(len(others) + 1):
        for chosen in itertools.combinations(others, count):
            value = recovery_time(topology, parents, set(chosen), overhead)
            if value is not None and (found is None or value < found[0]):
                found = value, (0, *chosen)
    return found
