"""A world in which streams change hands, with everything that can go wrong between two operations.

Every process (units and their replicas, coordinators, trimmers) is a generator over the production
decisions of `holdfast.streams`. The scheduler lets one of them do one operation on the records at a
time, and may crash it there for good, or put it to sleep for so long that others have taken its
place when it wakes up with what it knew. Rows are checked where they leave: every sink must get,
batch by batch, exactly the rows of a run without failures, and everything must be delivered once
faults stop.

`broken` names a rule to be switched off: a check that cannot fail is none.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from holdfast.streams.records import Change, Child, Slice, stream_of
from holdfast.streams.steps import GetFloor, Operation, Put, RaiseFloor, changes
from holdfast.testing.hands.memory import Idle, Local, Process, Rest
from holdfast.testing.hands.scenario import Violation, left_out
from holdfast.testing.hands.units import Units

PATIENCE = 100_000
"""Operations without a result after faults have stopped: then something is stuck."""
QUIET = 1500
"""The same while nobody has anything to do."""


@dataclass(slots=True)
class Running:
    """A process and where it stands."""

    name: str
    steps: Process
    unit: str | None = None
    replica: int = 0
    result: Any = None
    asleep_until: int = 0
    idle_since: int = -1
    """The store's version when it last began to look and found nothing to do."""
    looking_since: int = -1
    given_up: bool = False
    """Others believe it dead; it may still wake up."""


class World(Units):
    """Runs one scenario to its end; raises `Violation`."""

    def __init__(self, seed: int, **options: Any) -> None:
        super().__init__(seed, **options)
        self.processes: list[Running] = []

    # Coordinators: they decide when, the records what

    def coordinator(self) -> Process:
        protocol = self.protocol()
        rng = random.Random(f"{self.seed}/{protocol.writer}")
        streams = list(dict.fromkeys(seg.output for seg in self.segments.values()))
        while True:
            yield Rest(rng.choice([20, 200, 1000]))
            stream = rng.choice([name for name in streams if name not in self.sinks])
            if "j" in streams and rng.random() < 0.4:
                stream = "j"
            known = yield from protocol.changes_of(stream)
            if len(known) <= self.scenario.changes:
                if stream == "j" and rng.random() < 0.6:
                    change = self._switch(known, rng)
                else:
                    carriers = yield from protocol.carriers(stream)
                    change = self._rescale(stream, len(known), carriers, rng)
                yield Local(hurts=True)
                if (yield from protocol.decide(change)):
                    self.count[change.how] += 1
            for name in streams:
                yield from protocol.carry_out(name)

    def _switch(self, known: list[Change], rng: random.Random) -> Change:
        number = len(known)
        segment = rng.choice(self.scenario.alternatives)
        parts = self._even(rng.choice([1, 2]))
        children = self._children(segment, "j", number, parts)
        return Change(
            stream="j", number=number, how="cut", children=children, writer=str(rng.random())
        )

    def _rescale(
        self, stream: str, number: int, carriers: list[Child], rng: random.Random
    ) -> Change:
        kind = rng.choice(["split", "merge", "all"])
        wide = [item for item in carriers if item.groups[1] - item.groups[0] > 1]
        ordered = sorted(carriers, key=lambda item: item.groups)
        if kind == "split" and wide:
            one = rng.choice(wide)
            at = rng.randrange(one.groups[0] + 1, one.groups[1])
            parents, parts = [one], [(one.groups[0], at), (at, one.groups[1])]
        elif kind == "merge" and len(ordered) > 1:
            first = rng.randrange(len(ordered) - 1)
            parents = ordered[first : first + 2]
            parts = [(parents[0].groups[0], parents[1].groups[1])]
        else:
            parents, parts = ordered, self._even(rng.choice([1, 2, 3]))
        return Change(
            stream=stream,
            number=number,
            how="run",
            parents=tuple(item.unit for item in parents),
            children=self._children(parents[0].segment, stream, number, parts),
            writer=str(rng.random()),
        )

    def trimmer(self) -> Process:
        protocol = self.protocol()
        rng = random.Random(f"{self.seed}/{protocol.writer}")
        while True:
            yield Rest(rng.randrange(20, 200))
            units = self._known_units()
            if units:
                unit = rng.choice(units)
                yield from protocol.trim(unit, stream_of(unit))

    def finisher(self) -> Process:
        protocol = self.protocol()
        for stream in dict.fromkeys(seg.output for seg in self.segments.values()):
            yield from protocol.carry_out(stream)

    def _known_units(self) -> list[str]:
        return [
            child.unit
            for seg in dict.fromkeys(seg.output for seg in self.segments.values())
            for change in self.memory.folders.get(changes(seg), {}).values()
            for child in change.children
        ]

    # The scheduler

    def run(self) -> None:
        scenario, rng = self.scenario, self.rng
        for index in range(scenario.coordinators):
            self.processes.append(Running(f"coordinator{index}", self.coordinator()))
        if scenario.trim:
            for index in range(2):
                self.processes.append(Running(f"trimmer{index}", self.trimmer()))
        self._ensure(1.0)
        limit = int(1.3 * scenario.epochs / scenario.pace)
        while self.step < limit and not self._finished():
            self.step += 1
            if rng.random() < scenario.pace and self.now < scenario.epochs - 1:
                self.now += 1
                self.memory.version += 1
            if rng.random() < 0.02:
                self._ensure(0.6)
            if rng.random() < scenario.faults and self.processes:
                self._fault(rng.choice(self.processes))
            if rng.random() < scenario.faults / 10:
                self._slow_segment()
            self._advance_one()
        self._calm_down()

    def _advance_one(self) -> bool:
        """Whoever is drawn; if it has nothing to do, whoever comes next in the list."""
        version, step, processes = self.memory.version, self.step, self.processes
        first = int(self.rng.random() * len(processes))
        for index in range(len(processes)):
            item = processes[first - index]
            if item.asleep_until <= step and item.idle_since < version:
                self._advance(item)
                return True
        return False

    def _advance(self, process: Running) -> None:
        if process.looking_since < 0:
            process.looking_since = self.memory.version
        try:
            operation = process.steps.send(process.result)
        except StopIteration:
            self.processes.remove(process)
            return
        hurts = isinstance(operation, Put | RaiseFloor) or (
            isinstance(operation, Local) and operation.hurts
        )
        faulty = hurts and not self.calm and self.rng.random() < self.scenario.gap_faults
        if faulty and self.rng.random() < 0.5:
            # Stopped before the operation: it is done when, and if, the process wakes up.
            process.steps = _resumed(operation, process.steps)
            process.result = None
            self._fault(process)
            return
        if isinstance(operation, Rest):
            process.asleep_until, process.result = self.step + operation.operations, None
            return
        if isinstance(operation, Idle):
            process.idle_since, process.looking_since = process.looking_since, -1
            process.result = None
            return
        process.idle_since = -1
        process.result = None if isinstance(operation, Local) else self._execute(operation)
        if faulty:
            self._fault(process)

    def _execute(self, operation: Operation) -> Any:
        result = self.memory.execute(operation)
        match operation:
            case Put(folder, number, Slice() as item) if result is item and item.skip:
                # What is published decides which rows are left out, whoever lives to see it.
                if number >= self.memory.execute(GetFloor(folder)).number:
                    self.dead |= left_out(item.skip)
        return result

    def _fault(self, victim: Running) -> None:
        rng = self.rng
        if victim not in self.processes:
            return
        if rng.random() < 0.5:
            self.count["crash"] += 1
            self.processes.remove(victim)
            victim.steps.close()
            self._replace(victim.name)
        else:
            self.count["asleep"] += 1
            victim.asleep_until = self.step + rng.choice([50, 300, 1500, 4000])
            victim.given_up = rng.random() < 0.7
            if victim.given_up:
                self._replace(victim.name)

    def _replace(self, name: str) -> None:
        kind = name.rstrip("0123456789")
        if sum(1 for item in self.processes if item.name.startswith(kind)) >= 4:
            return
        if kind == "coordinator":
            self.processes.append(Running(name, self.coordinator()))
        elif kind == "trimmer":
            self.processes.append(Running(name, self.trimmer()))

    def _slow_segment(self) -> None:
        units = [item for item in self.processes if item.unit]
        if units:
            stream = stream_of(self.rng.choice(units).unit or "")
            for item in units:
                if stream_of(item.unit or "") == stream and self.rng.random() < 0.6:
                    item.asleep_until = self.step + self.rng.choice([1000, 3000, 6000])

    def _ensure(self, chance: float) -> None:
        """A unit without a living process gets one, as recovery does it."""
        running = {(item.unit, item.replica) for item in self.processes if not item.given_up}
        ran = {owner for (owner, _, _), item in self.checkpoints.items() if item}
        for unit in self._known_units():
            if self._sealed(unit):
                continue
            segment = self._segment_of(unit)
            for replica in range(self.scenario.replicas[segment]):
                odds = chance if chance == 1.0 or unit in ran else chance * self.scenario.spares
                if (unit, replica) in running or self.rng.random() >= odds:
                    continue
                generation = self.generations[unit, replica]
                if self.rng.random() < 0.95:  # else a second one is started with the same number
                    self.generations[unit, replica] += 1
                self.processes.append(
                    Running(
                        f"{unit}/{replica}/{generation}/",
                        self.unit_main(unit, replica, generation),
                        unit=unit,
                        replica=replica,
                    )
                )

    def _segment_of(self, unit: str) -> str:
        change = int(unit.rpartition("#")[0].rpartition(".")[2])
        children = self.memory.folders[changes(stream_of(unit))][change].children
        return str(next(child.segment for child in children if child.unit == unit))

    def _finished(self) -> bool:
        return all(sink.end >= self.scenario.epochs - 1 for sink in self.sinks.values())

    def _calm_down(self) -> None:
        """Faults stop: everything must be delivered."""
        self.calm = True
        self.now = self.scenario.epochs - 1
        self.memory.version += 1
        for item in self.processes:
            item.asleep_until = 0
        self.processes = [
            item for item in self.processes if not item.name.startswith("coordinator")
        ]
        quiet, moved_at, ends = 0, self.step, -1
        while self.step - moved_at < PATIENCE and quiet < QUIET:
            self.step += 1
            if self._finished():
                return
            if (reached := sum(sink.end for sink in self.sinks.values())) > ends:
                ends, moved_at = reached, self.step
            if self.step % 50 == 0:
                self._ensure(1.0)
            if self.step % 400 == 0 and not any(
                item.name.startswith("finisher") for item in self.processes
            ):
                self.processes.append(Running("finisher", self.finisher()))
            busy = any(
                item.idle_since < self.memory.version and not item.name.startswith("trimmer")
                for item in self.processes
            )
            quiet = 0 if busy else quiet + 1
            self._advance_one()
        where = {name: sink.end for name, sink in self.sinks.items()}
        raise Violation(f"no progress: sinks at {where} of {self.scenario.epochs - 1}")


def _resumed(operation: Any, rest: Process) -> Process:
    """A process that still has to do an operation which it had decided on."""
    result = yield operation
    while True:
        try:
            operation = rest.send(result)
        except StopIteration:
            return
        result = yield operation
