"""The view of a run, kept while it is new enough to be shown."""

from __future__ import annotations

import time

from holdfast.control.coordinator import Coordinator
from holdfast.control.shell.lines import to_line
from holdfast.control.view import view

SHOW_SHARE = 10.0
"""A view may be shown again for so many times as long as it took to make."""


class Shown:
    """The view as last shown, since making it costs as much as there are units.

    However many people look and however often, at most one part in `SHOW_SHARE` + 1 of the
    coordinator's time goes into views, unless there is news. A small run's is always fresh.
    """

    def __init__(self) -> None:
        self._line: bytes | None = None
        self._made_at = 0.0
        self._cost_s = 0.0

    def forget(self) -> None:
        """There is news."""
        self._line = None

    def line(self, coordinator: Coordinator, now: float, followers: tuple[str, ...]) -> bytes:
        """The answer to a request for the status."""
        if self._line is None or now - self._made_at > SHOW_SHARE * self._cost_s:
            start = time.perf_counter()
            shown = view(coordinator, now, followers=followers)
            self._line = to_line({"ok": True, "result": shown.to_json()}) + b"\n"
            self._made_at = now
            self._cost_s = time.perf_counter() - start
        return self._line
