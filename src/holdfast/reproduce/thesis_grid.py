"""The baseline NSegments as the thesis computes it: on its grid of overhead.

The thesis cuts the overhead allowed into Z equal steps and gives every operator a whole number of
them. An operator whose input takes D of the overhead needs at least floor(D / step) + 1 steps, so
that each operator rounds up: with many operators the steps run out although the overhead would do.
`nsegments` of the planners has no grid and is infeasible only when saving alone exceeds the bound.

Expected recovery is separable and convex in the steps, so giving out steps one by one where they
help most is optimal: O((n + Z) log n).
"""

from __future__ import annotations

import heapq
import math

from holdfast.planners.fastrecover.checkpointing import checkpoint_model
from holdfast.topology.graph import Topology


def n_segments_on_grid(topology: Topology, overhead: float, steps: int) -> float | None:
    """Expected recovery time with every operator an anchor; None: the grid has no plan."""
    model = checkpoint_model(topology)
    width = overhead / steps
    # A share of exactly k steps leaves nothing for checkpoints, whatever rounding says.
    given = [math.floor(save / width + 1e-9) + 1 for save in model.save.tolist()]
    if sum(given) > steps:
        return None
    fixed = float(model.failure @ model.state)
    strength = model.failure * (model.save + model.replay) * model.state

    def recovery(i: int, count: int) -> float:
        return float(strength[i]) / (count * width - float(model.save[i]))

    heap = [(recovery(i, c + 1) - recovery(i, c), i) for i, c in enumerate(given)]
    heapq.heapify(heap)
    for _ in range(steps - sum(given)):
        _, i = heapq.heappop(heap)
        given[i] += 1
        heapq.heappush(heap, (recovery(i, given[i] + 1) - recovery(i, given[i]), i))
    return fixed + sum(recovery(i, count) for i, count in enumerate(given))
