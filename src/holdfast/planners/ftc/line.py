"""`line`: the paper's Algorithm 2 for sequential and parallel lines, corrected.

Each line is walked from its source; a backup is placed on the last task before the bound would be
exceeded, and the walk goes on from there. As printed the distance leaves out the source's own T,
which breaks the bound (`line-as-printed`), and reaching the sink is not provided for: nothing is
left to back up then. O(N). Optimal when all backups cost the same.
"""

from __future__ import annotations

from holdfast.planners.ftc.core import Core
from holdfast.planners.ftc.rounds import compute_ftc, walk
from holdfast.planners.interface import Solve


def line(core: Core, solve: Solve) -> tuple[bytearray, bool]:
    """Backups for parallel lines, and whether the search got to its end."""
    return compute_ftc(core, walk, solve)
