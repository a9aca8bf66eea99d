"""Which sizes are worth looking at once one of them had no plan that could be found.

Problem: how many nodes and spares, when looking at one size takes long and proves nothing. Reading:
more spares do not make a plan worse, so all of them are taken, and the most nodes are asked whether
there is a plan. More nodes mostly help, but what is lost together also catches up together; so if
there is none, half as many are asked, and so on. From the first that has a plan, the fewest nodes
that have a cheaper one are found by bisection; then fewer spares are tried with them, and more
nodes as long as plans become cheaper. Where each size is looked at with proof this is not needed.

O(log(nodes) + spares^2) sizes, and those by which plans become cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.planners.joint.problem import Size


def narrow(sizes: Sequence[Size], better: Callable[[Size], bool]) -> None:
    """Look at those of the sizes that may have the cheapest plan.

    Args:
        sizes: what is left.
        better: looks at one; whether it has a plan that is cheaper than all before.
    """
    spares = max(size.spares for size in sizes)
    counts = sorted({size.nodes for size in sizes if size.spares == spares})
    high = len(counts) - 1
    while not better(Size(nodes=counts[high], spares=spares)):
        if high == 0:
            return
        high //= 2
    low, most = 0, high
    while low < high:
        middle = (low + high) // 2
        if better(Size(nodes=counts[middle], spares=spares)):
            high = middle
        else:
            low = middle + 1
    least = counts[high]
    for size in sizes:
        if size.spares < spares and least <= size.nodes < least + spares - size.spares:
            better(size)
    for nodes in counts[high + 1 : most]:
        if not better(Size(nodes=nodes, spares=spares)):
            return
