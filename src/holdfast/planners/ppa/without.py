"""What share of the input each operator's output reflects without some tasks.

Whoever goes on without an input says how much of it the results still reflect: the output fidelity
of PPA, with exactly the missing tasks failed. It is asked while a pipeline runs, where no planner
is at hand, so it is computed before: for all sets of tasks where there are few, else for single
ones and pairs. O(sets * (tasks + links)).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, combinations

import numpy as np

from holdfast.planners.ppa.fidelity import fidelity_model
from holdfast.topology.graph import Topology

ALL_SETS = 10
"""Tasks of which all sets are looked at: a thousand."""


def shares_without(units: Topology) -> Mapping[str, Mapping[tuple[str, ...], float]]:
    """Operator to, by the tasks that are missing, the share that its output reflects.

    Tasks of operators that nobody reads are never missing: nobody would notice.
    """
    model = fidelity_model(units)
    read = {edge.source for edge in units.edges}
    tasks = [
        task
        for operator, span in zip(units.operators, model.spans, strict=True)
        if operator.name in read
        for task in range(span.start, span.stop)
    ]
    sets = list(_sets(tasks))
    alive = np.ones((len(sets), model.size), bool)
    for row, missing in enumerate(sets):
        alive[row, list(missing)] = False
    complete = model.propagate(np.ascontiguousarray(alive.T, dtype=np.float64))
    names = [tuple(sorted(model.names[task] for task in missing)) for missing in sets]
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for operator, span in zip(units.operators, model.spans, strict=True):
        rates = model.output_rate[span]
        total = float(rates.sum())
        weights = rates / total if total > 0 else np.full(len(rates), 1.0 / len(rates))
        shares = weights @ complete[span]
        found[operator.name] = {
            name: round(float(share), 6) for name, share in zip(names, shares, strict=True)
        }
    return found


def _sets(tasks: list[int]) -> Iterator[tuple[int, ...]]:
    most = len(tasks) if len(tasks) <= ALL_SETS else 2
    return chain.from_iterable(combinations(tasks, size) for size in range(1, most + 1))
