"""Processor sharing: when each of several tasks is done that compete for the same cores.

A task computes, sleeps and waits for others in turn. A step of computing is given by how long it
takes alone and by how many cores it keeps busy meanwhile, so that what it waits for by itself
(disks, other processes) is part of it. As long as all steps together want no more cores than there
are, each runs as if alone; beyond that all slow down alike.

All running steps advance at the same speed, so one clock that runs at this speed tells when each of
them ends: it ends when the clock has advanced by its length. Steps are kept in a heap by that time.
O(log tasks) a step.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Generator, Hashable, Sequence
from typing import NamedTuple, TypeAlias


class Compute(NamedTuple):
    """A step that takes so long alone and keeps so many cores busy."""

    seconds: float
    cores: float


class Sleep(NamedTuple):
    """Nothing until a point in time; at once if that is over."""

    until: float


class Await(NamedTuple):
    """Nothing until something is told; whether it is what was hoped for, the task looks itself."""

    what: Hashable


class Tell(NamedTuple):
    """Wake whoever awaits this."""

    what: Hashable


Step: TypeAlias = Compute | Sleep | Await | Tell
Task: TypeAlias = Generator[Step, float, None]
"""Yields its steps and is sent the time when each is over; begins by yielding one."""


def share(tasks: Sequence[Task], *, cores: float, busy: float = 0.0) -> float:
    """Run tasks until all have ended; gives the time of the last end.

    `busy` are cores that others keep busy all the while. If all that is left awaits what nobody
    tells any more, it never ends: the result is infinite.
    """
    return _Share(tasks, cores, busy).run()


class _Share:
    def __init__(self, tasks: Sequence[Task], cores: float, busy: float) -> None:
        self._tasks = tasks
        self._cores, self._wanted = cores, busy
        self._now = self._clock = 0.0
        self._running: list[tuple[float, int, float]] = []
        """(clock at which it ends, task, its cores)."""
        self._asleep: list[tuple[float, int]] = []
        self._awaited: dict[Hashable, list[int]] = {}
        self._left = len(tasks)

    def run(self) -> float:
        for number in range(len(self._tasks)):
            self._resume(number, first=True)
        while self._running or self._asleep:
            speed = 1.0 if self._wanted <= self._cores else self._cores / self._wanted
            done = math.inf
            if self._running:
                done = self._now + (self._running[0][0] - self._clock) / speed
            wakes = self._asleep[0][0] if self._asleep else math.inf
            if done <= wakes:
                self._clock, number, cores = heapq.heappop(self._running)
                self._now = done
                self._wanted -= cores
            else:
                if self._running:
                    self._clock += (wakes - self._now) * speed
                self._now, number = heapq.heappop(self._asleep)
            self._resume(number)
        return self._now if not self._left else math.inf

    def _resume(self, number: int, *, first: bool = False) -> None:
        task = self._tasks[number]
        while True:
            try:
                step = next(task) if first else task.send(self._now)
            except StopIteration:
                self._left -= 1
                return
            first = False
            # By far the most time of a prediction is spent here, and this is quicker than `match`.
            if isinstance(step, Compute):
                seconds, cores = step
                if seconds > 0:
                    heapq.heappush(self._running, (self._clock + seconds, number, cores))
                    self._wanted += cores
                    return
            elif isinstance(step, Sleep):
                if step.until > self._now:
                    heapq.heappush(self._asleep, (step.until, number))
                    return
            elif isinstance(step, Await):
                self._awaited.setdefault(step.what, []).append(number)
                return
            else:
                for waiting in self._awaited.pop(step.what, ()):
                    heapq.heappush(self._asleep, (self._now, waiting))
