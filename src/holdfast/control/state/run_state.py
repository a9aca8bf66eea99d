"""The part of the state that concerns the run as a whole."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class RunState:
    """Which launch it is, and whether it begins, goes on or ends."""

    pipeline: str
    launch: str = ""
    opened_at: float = 0.0
    begun: bool = False
    """Units were placed in this launch."""
    stopping: bool = False
    trouble: str = ""
    """What the launcher cannot do at present; empty: nothing."""
    term: int = -1
    """That of the coordinator that leads; -1: none has led yet."""
    coordinator: str = ""
    """Its name among those of the run."""

    def open(self, launch: str, at: float) -> None:
        """A launch begins."""
        self.launch, self.opened_at = launch, at
        self.begun = self.stopping = False
        self.trouble = ""
