"""Who does the next operation: the scheduler of a world.

One process at a time does one operation, or a few in a row: how many is drawn, fine in one world
and coarse in another, as both find other faults. Processes are crashed or put to sleep at random,
and more often where it hurts: before and after what others can see, and while someone who trims
looks from one pin to the next.

A process that found nothing to do is woken when something changes that it has looked at since.
Nothing else could change its mind, so no interleaving is lost, and a world costs a fraction.
"""

from __future__ import annotations

import heapq
import random
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from holdfast.streams.steps import Delete, Get, GetFloor, Newest, Put, RaiseFloor
from holdfast.testing.hands.heirs import Heirs
from holdfast.testing.hands.memory import Idle, Local, Process, Rest


@dataclass(slots=True, eq=False)
class Running:
    """A process and where it stands."""

    name: str
    steps: Process
    unit: str | None = None
    replica: int = 0
    trims: bool = False
    result: Any = None
    alive: bool = True
    ready: bool = True
    idle: bool = False
    place: int = 0
    """How often it has stopped: what was to wake it from an earlier stop does so no more."""
    since: int = 0
    """The store's version when it last began to look."""
    seen: set[str] = field(default_factory=set)
    given_up: bool = False
    """Others believe it dead; it may still wake up."""
    alone: bool = False
    """Nobody takes its place while it may wake up."""


class Schedule(Heirs):
    """Runs processes of a world, one operation at a time."""

    def __init__(self, seed: int, **options: Any) -> None:
        super().__init__(seed, **options)
        self.processes: list[Running] = []
        self.ready: list[Running] = []
        self._waiting: dict[str, list[tuple[Running, int]]] = {}
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._entries = 0
        self.keep_on = self.scenario.keep_on

    # What happens when

    def at(self, step: int, act: Callable[[], None]) -> None:
        """Have something done at a step."""
        self._entries += 1
        heapq.heappush(self._agenda, (step, self._entries, act))

    def now_and_then(self, rate: float, act: Callable[[], None]) -> None:
        """Have something done at random, so often per operation on average."""
        if rate <= 0.0:
            return

        def again() -> None:
            if not self.calm:
                act()
                self.at(self.step + 1 + int(self.rng.expovariate(rate)), again)

        self.at(self.step + 1 + int(self.rng.expovariate(rate)), again)

    def turn(self) -> bool:
        """Let what is due happen, or somebody go on; False: all wait, for nothing that is due."""
        if self.memory.changed:
            self.tell()
        agenda = self._agenda
        if agenda and (agenda[0][0] <= self.step or not self.ready):
            at, _, act = heapq.heappop(agenda)
            self.step = max(self.step, at)
            act()
            return True
        if not self.ready:
            return False
        self._run_on(self.ready[int(self.rng.random() * len(self.ready))])
        return True

    # Processes

    def start(self, process: Running) -> None:
        process.since = self.memory.version
        self.processes.append(process)
        self.ready.append(process)

    def end(self, process: Running) -> None:
        if process.alive:
            self._stop(process)
            process.alive = False
            self.processes.remove(process)

    def wake(self, process: Running, place: int) -> None:
        if process.alive and not process.ready and process.place == place:
            process.ready = True
            self.ready.append(process)
            if process.idle:  # else it goes on with what it knew
                process.idle = False
                self._look_anew(process)

    def _look_anew(self, process: Running) -> None:
        process.since = self.memory.version
        process.seen.clear()

    def wake_all(self) -> None:
        for process in self.processes:
            self.wake(process, process.place)

    def sleep(self, process: Running, operations: int) -> None:
        self._stop(process)
        place = process.place
        self.at(self.step + operations, lambda: self.wake(process, place))

    def _stop(self, process: Running) -> None:
        process.place += 1
        if process.ready:
            process.ready = False
            self.ready.remove(process)

    def _wait(self, process: Running, on: tuple[str, ...]) -> None:
        process.seen.update(on)
        stamps = self.memory.stamps
        if any(stamps.get(folder, -1) > process.since for folder in process.seen):
            self._look_anew(process)
            return
        self._stop(process)
        process.idle = True
        for folder in process.seen:
            self._waiting.setdefault(folder, []).append((process, process.place))

    def tell(self) -> None:
        """Wake those who wait for what has changed."""
        for folder in self.memory.changed:
            for process, place in self._waiting.pop(folder, ()):
                self.wake(process, place)
        self.memory.changed.clear()

    def _run_on(self, process: Running) -> None:
        """Some operations of one process in a row."""
        look, chance, keep_on = self.memory.execute, self.rng.random, self.keep_on
        agenda = self._agenda
        while True:
            self.step += 1
            try:
                operation = process.steps.send(process.result)
            except StopIteration:
                self.end(process)
                return
            kind = type(operation)
            if kind is Get or kind is GetFloor or (kind is Newest and not process.trims):
                process.seen.add(operation.folder)
                process.result = look(operation)
            elif kind is Rest:
                process.result = None
                self.sleep(process, operation.operations)
                return
            elif kind is Idle:
                process.result = None
                self._wait(process, operation.on)
                return
            elif self._hurt(process, operation):
                return
            if chance() >= keep_on or (agenda and agenda[0][0] <= self.step):
                return

    def go_on(self, process: Running, operations: int, *, stop_before: type | None = None) -> None:
        """So many operations of a process, up to just before one of a kind: it may do that late."""
        for _ in range(operations):
            if not process.alive:
                return
            try:
                operation = process.steps.send(process.result)
            except StopIteration:
                self.end(process)
                return
            if stop_before is not None and isinstance(operation, stop_before):
                process.steps, process.result = _resumed(operation, process.steps), None
                return
            process.result = None
            if isinstance(operation, Idle):
                self._look_anew(process)
            elif not isinstance(operation, Local | Rest):
                process.seen.add(operation.folder)
                process.result = self.execute(operation)

    def _hurt(self, process: Running, operation: Any) -> bool:
        """An operation at which faults are likely; tells whether there was one."""
        where = operation.hurts if isinstance(operation, Local) else type(operation) is not Delete
        faulty = where and not self.calm and self.rng.random() < self.scenario.gap_faults
        if faulty and self.rng.random() < 0.5:
            # Stopped before the operation: it is done when, and if, the process wakes up.
            process.steps = _resumed(operation, process.steps)
            process.result = None
            self.fault(process)
            return True
        if isinstance(operation, Local):
            process.result = None
        else:
            process.seen.add(operation.folder)
            process.result = self.execute(operation)
            if isinstance(operation, Put | RaiseFloor | Delete):
                self.tell()
        if faulty:
            self.fault(process)
        return bool(faulty)

    # Faults

    def fault(self, victim: Running) -> None:
        """Crash a process, or put it to sleep for long."""
        if self.rng.random() < 0.5:
            self.count["crash"] += 1
            self.end(victim)
            victim.steps.close()
            self.replace(victim.name)
            return
        self.count["asleep"] += 1
        self.sleep(victim, self.rng.choice(self.scenario.sleeps))
        victim.given_up = self.rng.random() < 0.7 and not victim.alone
        if victim.given_up:
            self.replace(victim.name)

    @abstractmethod
    def replace(self, name: str) -> None:
        """Start another process in the place of one that is believed dead."""

    def execute(self, operation: Any) -> Any:
        return self.memory.execute(operation)


def _resumed(operation: Any, rest: Process) -> Process:
    """A process that still has to do an operation which it had decided on."""
    result = yield operation
    while True:
        try:
            operation = rest.send(result)
        except StopIteration:
            return
        result = yield operation


def seeded(*parts: Any) -> random.Random:
    """A source of chance of one's own, so that what one process draws moves no other."""
    return random.Random("/".join(map(str, parts)))
