"""`tree`: in-trees, optimally and in one pass.

The paper's Algorithm 3 searches downstream from one source after another. Even with its test
repaired (a backup ends the search only if it is reached in time; otherwise the bound breaks), the
order of its searches costs backups, so that its optimality theorem is false: `searched` keeps that
reading for comparison.

`tree` takes the topological order instead: one pass with equal costs, a dynamic program with others
(see `forest`). Optimal.
"""

from __future__ import annotations

from holdfast.planners.ftc.core import Core
from holdfast.planners.ftc.forest import solve_in_forest
from holdfast.planners.ftc.rounds import compute_ftc, walk
from holdfast.planners.interface import Solve


def tree(core: Core, _solve: Solve) -> tuple[bytearray, bool]:
    """The cheapest backups for a forest of in-trees; nearly linear, so it always ends."""
    return solve_in_forest(core), True


def searched(core: Core, solve: Solve) -> tuple[bytearray, bool]:
    """Algorithm 3 with its test repaired: keeps the bound, but may place too many backups."""

    def choose(core: Core, v: int, r: float, backed: bytearray) -> list[int]:
        return walk(core, v, r, backed, shared=True)

    return compute_ftc(core, choose, solve)
