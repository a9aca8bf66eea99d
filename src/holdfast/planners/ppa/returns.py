"""In which order units come back when several have failed.

At run time places appear one by one, and which units have failed is known only then. The order is
made once, for the loss of everything, by `inc`: the average fidelity over the whole recovery. Of
what has failed, whoever comes first in it goes first. `topological` is the comparison.

`inc` says which sets of units complete a result together, and leaves open in which order those of
one set come: fidelity rises when the last of them is there. But units of a lost node are started
one after the other by the same cores, and none can do anything before what it reads; so each set is
sorted upstream first.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from holdfast.planners.interface import Solve
from holdfast.planners.ppa.fidelity import fidelity_model
from holdfast.planners.ppa.recovery import Recovery, inc, topological
from holdfast.topology.graph import Topology

Order = Literal["inc", "topological"]


def return_order(units: Topology, how: Order, solve: Solve | None = None) -> tuple[str, ...]:
    """Tasks of a unit graph, the first to come back first."""
    model = fidelity_model(units)
    times = tuple(float(k + 1) for k in range(model.size))
    recovery = Recovery(model=model, alive=np.zeros(model.size, bool), times=times)
    upstream_first = topological(recovery, solve or Solve())
    order = upstream_first
    if how == "inc":
        order = _sorted_sets(recovery, inc(recovery, solve or Solve()), upstream_first)
    return tuple(model.names[task] for task in order)


def _sorted_sets(recovery: Recovery, order: list[int], upstream_first: list[int]) -> list[int]:
    """The same order with what raises the fidelity together sorted by another one."""
    rank = {task: place for place, task in enumerate(upstream_first)}
    curve = recovery.curve(order)
    rises = np.flatnonzero(~np.isclose(curve[1:], curve[:-1], rtol=0.0, atol=1e-12)) + 1
    ends = [*rises.tolist(), len(order)]
    found: list[int] = []
    for begin, end in zip([0, *ends], ends, strict=False):
        found += sorted(order[begin:end], key=rank.__getitem__)
    return found
