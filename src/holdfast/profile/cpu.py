"""CPU time of the processes that Spark started for us, and how busy the machine is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import psutil

from holdfast.profile.cache import cores
from holdfast.runtime.node.processes import session_members

T = TypeVar("T")
TRIES = 2
"""How often something is timed at most, if other load disturbs it."""
CALM = 0.25
"""Share of the cores that others may keep busy meanwhile."""
DISTURBED = "disturbed by other load"


class CpuMeter:
    """CPU seconds of all descendants of this process, those that have ended included.

    Wall time would measure the neighbours on a shared machine. The system counts in ticks of 10 ms,
    so what is measured must be larger.
    """

    def __init__(self) -> None:
        self._self = psutil.Process()

    def seconds(self) -> float:
        """Of Java and its Python workers."""
        found = 0.0
        for process in self._self.children(recursive=True):
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            # Workers that ended are counted with the daemon that waited for them.
            found += times.user + times.system + times.children_user + times.children_system
        return found

    def with_own(self) -> float:
        """Of those and of this process."""
        return self.seconds() + time.process_time()


class Elsewhere:
    """How many cores other processes than ours keep busy, from its making on."""

    def __init__(self) -> None:
        self._meter = CpuMeter()
        self._began = time.monotonic()
        self._busy, self._own = _busy_s(), self._meter.with_own()

    def cores(self) -> float:
        """In the mean so far; a little below 0 if the system counts ticks otherwise."""
        passed = max(time.monotonic() - self._began, 1e-9)
        busy, own = _busy_s() - self._busy, self._meter.with_own() - self._own
        return (busy - own) / passed


def when_calm(attempt: Callable[[], T]) -> tuple[T, bool]:
    """Time something; what other load disturbed is set aside and made again.

    Gives what was found, and whether it was calm. If it never was, the calmest counts.
    """
    tried: list[tuple[float, T]] = []
    for _ in range(TRIES):
        meanwhile = Elsewhere()
        found = attempt()
        tried.append((meanwhile.cores(), found))
        if tried[-1][0] <= CALM * cores():
            return found, True
    return min(tried, key=lambda one: one[0])[1], False


def _busy_s() -> float:
    """CPU seconds of everything on this machine."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


def sessions_cpu(sessions: Iterable[int]) -> float:
    """CPU seconds of process sessions; ended children of living processes included."""
    total = 0.0
    for session in sessions:
        for pid in session_members(session):
            try:
                times = psutil.Process(pid).cpu_times()
            except psutil.Error:
                continue
            total += times.user + times.system + times.children_user + times.children_system
    return total


def load_average() -> str:
    """How busy the machine was while something was measured, in words."""
    return f"load average {os.getloadavg()[0]:.1f}"
