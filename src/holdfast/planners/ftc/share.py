"""`share`: the paper's baseline, after the balanced resource shares of its reference 9.

There, the share of the machine that a task should get grows with its own work, and the candidate
with the largest share becomes the next backup. The search around it is that of `dag`, so that only
the ranking differs.
"""

from __future__ import annotations

from holdfast.planners.ftc.core import Core
from holdfast.planners.ftc.rounds import Reached, compute_ftc, greedy_round
from holdfast.planners.interface import Solve


def share(core: Core, solve: Solve) -> tuple[bytearray, bool]:
    """Backups by the size of their task's own work, and whether the search got to its end."""
    return compute_ftc(core, greedy_round(_own_work), solve)


def _own_work(reached: Reached, u: int) -> float:
    return reached.core.times[u] * reached.cover[u]
