"""`dag`: the paper's Algorithm 4 for general DAGs, corrected so that the bound always holds.

From each search source, the candidate that would save the most work (B, eq. 8) becomes a backup,
the farther one among equals, until nothing reached from the source is beyond its bound. As printed
a round drops every task on a path to the pick, also where other successors of that task are still
uncovered: with T = [1, 1, 2], edges 0->1 and 0->2 and R = 2 it chooses nothing and task 2 takes 3
(`dag-as-printed`). Rounds also stop by the covered share there, which leaks out of the candidates
and need not reach 1. O(B (N + E)) with B backups.
"""

from __future__ import annotations

from holdfast.planners.ftc.core import Core
from holdfast.planners.ftc.rounds import Reached, compute_ftc, greedy_round
from holdfast.planners.interface import Solve


def dag(core: Core, solve: Solve) -> tuple[bytearray, bool]:
    """Backups by the work they save, and whether the search got to its end."""
    return compute_ftc(core, greedy_round(_saved_work), solve)


def _saved_work(reached: Reached, u: int) -> float:
    return reached.workload[u]
