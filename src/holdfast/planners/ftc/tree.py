"""`tree`: in-trees, optimally and in one pass.

The paper's Algorithm 3 searches downstream from one source after another. Even with its test
repaired (a backup ends the search only if it is reached in time; otherwise the bound breaks), the
order of its searches costs backups, so that its optimality theorem is false; a test keeps that
reading and a tree that shows it.

`tree` takes the topological order instead: one pass with equal costs, a dynamic program with others
(see `forest`). Optimal.
"""

from __future__ import annotations

from holdfast.planners.ftc.core import Core
from holdfast.planners.ftc.forest import solve_in_forest
from holdfast.planners.interface import Solve


def tree(core: Core, _solve: Solve) -> tuple[bytearray, bool]:
    """The cheapest backups for a forest of in-trees; nearly linear, so it always ends."""
    return solve_in_forest(core), True
