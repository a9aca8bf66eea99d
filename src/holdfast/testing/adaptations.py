"""What a failing path costs, as measured by `path_trials`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """What went on for a while, seconds since the fault."""

    what: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapted:
    """One fault and what followed, seconds."""

    kind: str
    why: str
    """As the breaker said."""
    detect_s: float
    """From the fault to the open breaker."""
    switch_s: float
    """From there to the change on record."""
    start_s: float
    """From there to the first slice of the next path."""
    adapt_s: float
    return_s: float
    """From when the fault has ended and the probe that closed the breaker has begun, whichever is
    later, to the first slice of the first path."""
    bad_probes: int
    phases: tuple[Phase, ...]


AdaptLab: TypeAlias = Callable[[Sequence[str]], tuple[Adapted, ...]]
"""Breaks the first path by each of these faults in turn."""
