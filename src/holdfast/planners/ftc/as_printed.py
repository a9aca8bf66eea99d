"""The paper's algorithms to the letter, errors included; only for comparison.

What is unreadable or missing in print is read as kindly as possible: reaching a sink backs nothing
up, and a backup is searched from r = 0. What is wrong stays wrong, so the bound may not hold; the
result says so.
"""

from __future__ import annotations

from holdfast.planners.ftc.core import Core
from holdfast.planners.ftc.rounds import compute_ftc, reach
from holdfast.planners.interface import Solve


def line_as_printed(core: Core, solve: Solve) -> tuple[bytearray, bool]:
    """Algorithm 2: the distance from the source leaves out the source's own T."""

    def choose(core: Core, v: int, _r: float, _backed: bytearray) -> list[int]:
        mark, distance = v, 0.0
        while core.successors[v]:
            u = core.successors[v][0]
            distance += core.times[u]
            if distance > core.caps[u]:
                return [mark]
            mark = v = u
        return []

    return compute_ftc(core, choose, solve)


def tree_as_printed(core: Core, solve: Solve) -> tuple[bytearray, bool]:
    """Algorithm 3: a backup ends the search before it is clear whether it is reached in time."""

    def choose(core: Core, v: int, r: float, backed: bytearray) -> list[int]:
        mark = v
        while core.successors[v]:
            u = core.successors[v][0]
            if backed[u]:
                return []
            r += core.times[u]
            if r > core.caps[u]:
                return [mark]
            mark = v = u
        return []

    return compute_ftc(core, choose, solve)


def dag_as_printed(core: Core, solve: Solve) -> tuple[bytearray, bool]:
    """Algorithm 4: candidates on the way to a pick are dropped, whatever else they feed."""

    def choose(core: Core, v: int, r: float, backed: bytearray) -> list[int]:
        reached, far = reach(core, v, r, backed)
        left = {u for u in reached.distance if u not in far}
        chosen: list[int] = []
        while left:
            pick = max(left, key=lambda u: (reached.workload[u], reached.distance[u], -u))
            if not backed[pick] and core.successors[pick] and pick != v:
                chosen.append(pick)
            left -= _ancestors(core, pick, left) | {pick}
        return chosen

    return compute_ftc(core, choose, solve)


def _ancestors(core: Core, pick: int, within: set[int]) -> set[int]:
    found: set[int] = set()
    stack = [pick]
    while stack:
        for u in core.predecessors[stack.pop()]:
            if u in within and u not in found:
                found.add(u)
                stack.append(u)
    return found
