"""What a reader knows of one log."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from holdfast.streams.records import Seal, Slice


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One log as far as it goes."""

    slices: tuple[Slice, ...]
    """Those after the position asked for."""
    seal: Seal | None
    following: int
    """The number that the next slice, or the seal, has."""
    trimmed: int | None = None
    """Where the last slice ended that is gone, if all that are kept were asked for."""

    def ends(self) -> set[int]:
        """Where slices have ended, as far as that is still known."""
        found = {item.upto for item in self.slices}
        return found if self.trimmed is None else found | {self.trimmed}


@dataclass(slots=True, kw_only=True)
class Tail:
    """What was read of a log after an epoch."""

    after: int
    items: deque[Slice] = field(default_factory=deque)
    following: int
    seal: Seal | None = None

    def drop(self, after: int) -> None:
        """Forget what lies at or before an epoch."""
        while self.items and self.items[0].upto <= after:
            self.items.popleft()
        self.after = after

    def reaches(self, horizon: int | None) -> bool:
        """Whether as much is known as is asked for."""
        if self.seal is not None:
            return True
        return horizon is not None and bool(self.items) and self.items[-1].upto >= horizon
