"""A world in which streams change hands, with everything that can go wrong between two operations.

Every process (units and their replicas, coordinators, trimmers) is a generator over the *production*
decisions of `holdfast.streams`. The scheduler lets one of them do one operation on the records at a
time, and may crash it there for good, or put it to sleep for so long that others have taken its
place when it wakes up with what it knew. Rows are checked where they leave: every sink must get,
batch by batch, exactly the rows of a run without failures, and everything must be delivered once
faults stop.

`broken` names a rule to be switched off: a check that cannot fail is none.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from holdfast.streams.floors import Floors
from holdfast.streams.handover import Birth
from holdfast.streams.reading import TrimmedError
from holdfast.streams.records import (
    Change,
    Child,
    Claim,
    Floor,
    Skip,
    Slice,
    stream_of,
    unit_name,
)
from holdfast.streams.steps import (
    Delete,
    Get,
    GetFloor,
    Newest,
    Operation,
    Put,
    RaiseFloor,
    changes,
    claims,
    skips,
)
from holdfast.streams.unit import Ended, Position, RunBatch

GROUPS = 4
RETAIN = 2
"""Committed batches that a checkpoint keeps."""


class Violation(AssertionError):  # noqa: N818 - it is one
    """Something happened that must never happen."""


class Local(NamedTuple):
    """A step that touches nothing shared: a place to be stopped at."""

    hurts: bool = False


class Idle(NamedTuple):
    """Nothing to do until something changes."""


class Rest(NamedTuple):
    """Others may do so many operations first."""

    operations: int


Process = Generator[Any, Any, Any]
Row = tuple[Any, int, int, Any]
"""Id, key group, epoch, value."""


class Memory:
    """The record store: each operation is atomic, nothing else is."""

    def __init__(self) -> None:
        self.folders: dict[str, dict[int, Any]] = {}
        self.floors: dict[str, Floor] = {}
        self.version = 0

    def execute(self, operation: Operation) -> Any:
        match operation:
            case Get(folder, number):
                return self.folders.get(folder, {}).get(number)
            case Put(folder, number, record):
                known = self.folders.setdefault(folder, {})
                if number not in known:
                    known[number] = record
                    self.version += 1
                return known[number]
            case Newest(folder):
                return max(self.folders.get(folder, ()), default=-1)
            case Delete(folder, number):
                self.folders.get(folder, {}).pop(number, None)
                return None
            case GetFloor(folder):
                return self.floors.get(folder, Floor())
            case RaiseFloor(folder, floor):
                if floor.number > self.floors.get(folder, Floor()).number:
                    self.floors[folder] = floor
                    self.version += 1
                return None


class Seg(NamedTuple):
    """What a segment does."""

    operation: str
    inputs: tuple[str, ...]
    output: str
    span: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One world, drawn from its seed."""

    segments: dict[str, Seg]
    alternatives: tuple[str, ...]
    """Segments that may carry stream j, one at a time."""
    epochs: int
    replicas: dict[str, int]
    poison: bool
    trim: bool
    coordinators: int
    faults: float
    gap_faults: float
    changes: int
    pace: float
    """Epochs per operation: in a slow world units keep up, in a fast one they fall behind."""
    spares: float = 1.0
    """How readily a unit that never ran gets a node."""


def draw(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(f"scenario/{seed}")

    def span() -> int:
        return rng.choice([1, 1, 2, 4])

    shape = rng.choice(["chain", "join", "paths", "all"])
    paths = shape in ("paths", "all")
    segments = {"S0": Seg("source", (), "s0", span())}
    if paths:
        segments["X"] = Seg("map", ("s0",), "j", span())
        segments["Y"] = Seg("map", ("s0",), "j", span())
        segments["OUT2"] = Seg("sink", ("j",), "OUT2", 1)
    segments["K"] = Seg("sum", ("j" if paths else "s0",), "k", span())
    last = "k"
    if shape in ("join", "all"):
        segments["S1"] = Seg("source", (), "s1", span())
        segments["N"] = Seg("join", ("k", "s1"), "n", span())
        last = "n"
    segments["OUT"] = Seg("sink", (last,), "OUT", 1)
    return Scenario(
        segments=segments,
        alternatives=("X", "Y") if paths else (),
        epochs=rng.choice([8, 16, 24]),
        replicas={name: rng.choice([1, 1, 2]) for name in segments},
        poison=rng.random() < 0.5,
        trim=rng.random() < 0.85,
        coordinators=rng.choice([1, 2, 2]),
        faults=rng.choice([0.0, 0.001, 0.003, 0.008]),
        gap_faults=rng.choice([0.0, 0.02, 0.1, 0.3]),
        changes=rng.choice([2, 4, 8]),
        pace=rng.choice([0.002, 0.005, 0.02]),
        spares=rng.choice([1.0, 0.05]),
    )


class Snapshot(NamedTuple):
    """One commit of a checkpoint: state, and the position after the batch."""

    state: dict[int, Any]
    position: Position


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


@dataclass(slots=True)
class Sink:
    """Takes rows and progress in one transaction."""

    end: int = -1
    batch: int = -1
    delivered: list[Row] = field(default_factory=list)


class World:
    """Runs one scenario to its end; raises `Violation`."""

    def __init__(
        self,
        seed: int,
        *,
        scenario: Scenario | None = None,
        protocol: Callable[..., Floors] = Floors,
        broken: str = "",
    ) -> None:
        self.seed, self.broken = seed, broken
        self.scenario = scenario or draw(seed)
        self.rng = random.Random(f"world/{seed}")
        self.memory = Memory()
        self.make_protocol = protocol
        self.processes: list[Running] = []
        self.checkpoints: dict[tuple[str, int, int], dict[int, Snapshot]] = {}
        self.owners: dict[tuple[str, int, int], str] = {}
        self.generations: Counter[tuple[str, int]] = Counter()
        self.count: Counter[str] = Counter()
        self.now, self.step, self.writers = -1, 0, 0
        self.calm = False
        self.dead: set[Any] = set()
        """Rows that count as quarantined."""
        self.sinks = {
            name: Sink() for name, seg in self.segments.items() if seg.operation == "sink"
        }
        self.rows = {
            seg.output: self._rows(seg.output)
            for seg in self.segments.values()
            if seg.operation == "source"
        }
        flat = [row for rows in self.rows["s0"] for row in rows]
        bad = self.rng.sample(flat, min(4, len(flat))) if self.scenario.poison else []
        self.poison = {row[0] for row in bad[:2]}
        self.flaky = {row[0] for row in bad[2:]}
        self._begin()

    @property
    def segments(self) -> dict[str, Seg]:
        return self.scenario.segments

    # Who reads what (the `Wiring` that trimming asks for)

    def readers(self, stream: str) -> list[str]:
        found = [seg.output for seg in self.segments.values() if stream in seg.inputs]
        return list(dict.fromkeys(found))

    def publishes(self, stream: str) -> bool:
        return stream not in self.sinks

    def inputs(self, segment: str) -> tuple[str, ...]:
        return self.segments[segment].inputs

    # The beginning

    def _rows(self, stream: str) -> list[list[Row]]:
        rng = random.Random(f"rows/{self.seed}/{stream}")
        return [
            [
                ((stream, epoch, index), rng.randrange(GROUPS), epoch, rng.randrange(1, 9))
                for index in range(rng.choice([0, 1, 2, 3]))
            ]
            for epoch in range(self.scenario.epochs)
        ]

    def _begin(self) -> None:
        for name, seg in self.segments.items():
            if seg.output == "j" and name != self.scenario.alternatives[0]:
                continue
            shards = 1 if seg.operation == "sink" else self.rng.choice([1, 2, 3])
            change = Change(
                stream=seg.output,
                number=0,
                how="run",
                children=self._children(name, seg.output, 0, self._even(shards)),
                start=-1,
            )
            self.memory.execute(Put(changes(seg.output), 0, change))

    def _even(self, shards: int) -> list[tuple[int, int]]:
        edges = [index * GROUPS // shards for index in range(shards + 1)]
        return list(zip(edges, edges[1:], strict=False))

    def _children(
        self, segment: str, stream: str, number: int, parts: Sequence[tuple[int, int]]
    ) -> tuple[Child, ...]:
        return tuple(
            Child(unit=unit_name(stream, number, index), segment=segment, groups=part)
            for index, part in enumerate(parts)
        )

    def protocol(self) -> Floors:
        """The production decisions, as one process sees them."""
        self.writers += 1
        return self.make_protocol(self, writer=f"w{self.writers}", retain=RETAIN, margin=2)

    # What a run without failures delivers

    def expected(self, sink: str, after: int, upto: int) -> list[Row]:
        made = {
            name: [row for part in rows[: upto + 1] for row in part]
            for name, rows in self.rows.items()
        }
        made["j"] = made["s0"]
        into = [row for row in made[self.segments["K"].inputs[0]] if row[0] not in self.dead]
        made["k"] = apply("sum", {}, [into])[1]
        if "N" in self.segments:
            made["n"] = apply("join", {}, [made["k"], made["s1"]])[1]
        return [row for row in made[self.segments[sink].inputs[0]] if after < row[2] <= upto]

    # A unit

    def unit_main(self, unit: str, replica: int, generation: int) -> Process:
        protocol = self.protocol()
        rng = random.Random(f"{self.seed}/{protocol.writer}")
        claim = Claim(unit=unit, replica=replica, number=generation, writer=protocol.writer)
        stored = yield Put(claims(unit, replica), generation, claim)
        if stored != claim and self.broken != "claims":
            return
        child = yield from protocol.child(unit)
        key = (unit, replica, generation)
        mine = self.checkpoints.setdefault(key, {})
        while not mine:
            yield Local()
            mine.update(self._clone(unit))
            if mine:
                break
            first = yield from self._initial(protocol, child)
            if first == "void":
                return
            if first is None:
                yield Idle()
                continue
            yield Local()
            mine[-1] = first
        seg = self.segments[child.segment]
        while True:
            newest = yield Newest(claims(unit, replica))
            if newest > generation and rng.random() < 0.7:
                return
            snapshot = mine[max(mine)]
            propose = self._propose(seg, rng)
            try:
                step = yield from protocol.next_step(unit, snapshot.position, seg.inputs, propose)
                if step == "waiting":
                    yield Idle()
                    continue
                if isinstance(step, Ended):
                    if step.why == "left behind":
                        self._left_behind(unit, max(mine), "its range")
                    return
                done = yield from self._batch(protocol, child, step, snapshot, rng, replica)
            except TrimmedError as error:
                self._left_behind(unit, max(mine), str(error))
                return
            if done == "over":
                return
            if done is None:
                continue
            state, position = done
            if self.broken == "seal-before-commit":
                yield from protocol._hand_over(unit, position)  # noqa: SLF001
            yield Local(hurts=True)
            if self.owners.setdefault(key, protocol.writer) != protocol.writer:
                raise Violation(f"{key}: two processes write one checkpoint")
            mine[position.batch - 1] = Snapshot(state, position)
            self.count["batches"] += 1
            for old in [number for number in mine if number < position.batch - RETAIN]:
                del mine[old]

    def _propose(
        self, seg: Seg, rng: random.Random
    ) -> Callable[[int, Sequence[int], int | None], int | None]:
        def propose(after: int, ends: Sequence[int], limit: int | None) -> int | None:
            if seg.operation == "source":
                upto = epoch_due(after, self.now, seg.span)
            else:
                known = [end for end in ends if limit is None or end <= limit]
                upto = choose_end(after, known, seg.span, rng.choice([1, 2, 4, 8]))
            if limit is None or limit <= after or self.broken == "cut-is-candidate":
                return upto
            there = seg.operation == "source" or limit in ends
            if there and (upto is None or upto > limit or rng.random() < 0.5):
                return limit
            return upto

        return propose

    def _clone(self, unit: str) -> dict[int, Snapshot]:
        """The checkpoint with the newest commit, of whatever replica and generation."""
        found = [item for (owner, _, _), item in self.checkpoints.items() if owner == unit and item]
        return dict(max(found, key=max, default={}))

    def _initial(self, protocol: Floors, child: Child) -> Process:
        """The state a unit is born with; None: not yet there."""
        born = yield from protocol.birth(child.unit)
        if born == "void":
            return "void"
        if not isinstance(born, Birth):
            return None
        state: dict[int, Any] = {}
        for parent, batch in born.parents:
            yield Local()
            commits = [
                item[batch]
                for (owner, _, _), item in self.checkpoints.items()
                if owner == parent and batch in item
            ]
            if not commits:
                return None
            state.update(commits[0].state)
        groups = range(*child.groups)
        mine = {group: value for group, value in state.items() if group in groups}
        return Snapshot(mine, protocol.first_position(born))

    def _left_behind(self, unit: str, committed: int, why: str) -> None:
        """Fine for a zombie or a slow replica; fatal if nobody has got further."""
        best = max((max(item) for (owner, _, _), item in self.checkpoints.items()
                    if owner == unit and item), default=-2)
        if best > committed or self._sealed(unit):
            self.count["left behind"] += 1
            return
        raise Violation(f"{unit}: nobody can run batch {committed + 1}: {why}")

    def _sealed(self, unit: str) -> bool:
        found = self.memory.folders.get(f"units/{unit}/slices", {})
        return any(item.kind == "seal" for item in found.values())

    def _batch(
        self,
        protocol: Floors,
        child: Child,
        step: RunBatch,
        snapshot: Snapshot,
        rng: random.Random,
        replica: int,
    ) -> Process:
        """Run, publish; gives the state and position to commit, None to try again, or "over"."""
        seg, unit, number = self.segments[child.segment], child.unit, step.position.batch
        inputs = yield from self._input_rows(protocol, child, step)
        skip = ""
        if child.segment == "K" and self.scenario.poison:
            outcome = yield from self._without_poison(protocol, unit, number, inputs[0], rng)
            if outcome is None:
                return None
            kept, skip = outcome
            inputs = [kept]
        state, rows = apply(seg.operation, snapshot.state, inputs)
        after, upto = step.range.after, step.range.upto
        position = Position(
            batch=number + 1, after=upto, turn=step.position.turn, change=step.position.change
        )
        if seg.operation == "sink":
            yield Local(hurts=True)
            self._deliver(child.segment, number, after, upto, rows)
            return state, position
        if replica > 0:  # the leader's head start
            for _ in range(rng.choice([2, 8, 20])):
                if (yield Get(f"units/{unit}/slices", number)) is not None:
                    break
        item = Slice(
            unit=unit,
            number=number,
            after=after,
            upto=upto,
            files={"rows": tuple(rows)},
            digest=repr(sorted(rows)),
            skip=skip,
            writer=protocol.writer,
        )
        told = yield from protocol.publish(item)
        self.count[told] += 1
        if told == "other skip":
            return None
        return "over" if told == "sealed" else (state, position)

    def _input_rows(self, protocol: Floors, child: Child, step: RunBatch) -> Process:
        """What a batch reads, one list per input, the unit's key groups only."""
        seg, groups = self.segments[child.segment], range(*child.groups)
        after, upto = step.range.after, step.range.upto
        if seg.operation == "source":
            rows = [row for part in self.rows[seg.output][after + 1 : upto + 1] for row in part]
            return [[row for row in rows if row[1] in groups]]
        found = []
        for stream in seg.inputs:
            read = yield from protocol.read(stream, after, upto)
            rows = [row for item in read for row in item.files["rows"]]
            found.append([row for row in rows if row[1] in groups])
        return found

    def _without_poison(
        self, protocol: Floors, unit: str, number: int, rows: list[Row], rng: random.Random
    ) -> Process:
        """The rows that an operator does not fail on, and the skip they were left out by."""
        there = yield Get(f"units/{unit}/slices", number)
        put = yield Get(skips(unit), number)
        if isinstance(there, Slice) and self.broken != "skip-in-slice":
            skip = there.skip
        else:
            skip = put.reason if put is not None else ""
        left_out = eval_skip(skip)
        kept = [row for row in rows if row[0] not in left_out]
        bad = {
            row[0]
            for row in kept
            if row[0] in self.poison or (row[0] in self.flaky and rng.random() < 0.5)
        }
        if not bad:
            return kept, skip
        if put is None and not isinstance(there, Slice):
            record = Skip(
                unit=unit, number=number, reason=repr(sorted(bad)), writer=protocol.writer
            )
            stored = yield Put(skips(unit), number, record)
            if self.broken == "skip-in-slice":
                self.dead |= eval_skip(stored.reason)
        return None  # fails as it would without quarantine; a restart tries again

    def _deliver(self, name: str, number: int, after: int, upto: int, rows: list[Row]) -> None:
        sink = self.sinks[name]
        if number <= sink.batch:
            return
        if after != sink.end:
            raise Violation(f"{name}: batch {number} goes on from {after}, not from {sink.end}")
        expected, got = Counter(self.expected(name, after, upto)), Counter(rows)
        if got != expected:
            more, less = list((got - expected))[:3], list((expected - got))[:3]
            raise Violation(f"{name}: epochs {after + 1}..{upto}: too many {more}, missing {less}")
        sink.batch, sink.end = number, upto
        self.memory.version += 1

    # Coordinators: they decide when, the records what

    def coordinator(self) -> Process:
        protocol = self.protocol()
        rng = random.Random(f"{self.seed}/{protocol.writer}")
        streams = [name for name in dict.fromkeys(seg.output for seg in self.segments.values())]
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
                    self.dead |= eval_skip(item.skip)
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
        quiet = 0
        for _ in range(6000 * self.scenario.epochs):
            self.step += 1
            if self._finished():
                return
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
            if quiet > 1500:
                break
            self._advance_one()
        ends = {name: sink.end for name, sink in self.sinks.items()}
        raise Violation(f"no progress: sinks at {ends} of {self.scenario.epochs - 1}")


def _resumed(operation: Any, rest: Process) -> Process:
    """A process that still has to do an operation which it had decided on."""
    result = yield operation
    while True:
        try:
            operation = rest.send(result)
        except StopIteration:
            return
        result = yield operation


def eval_skip(text: str) -> set[Any]:
    """The rows that a skip leaves out."""
    import ast  # noqa: PLC0415 - models only

    return set(ast.literal_eval(text)) if text else set()


def apply(
    operation: str, state: dict[int, Any], inputs: list[list[Row]]
) -> tuple[dict[int, Any], list[Row]]:
    """What a batch does; rows are taken in order of epoch, so the batching does not matter."""
    state = dict(state)
    rows = sorted((row for part in inputs for row in part), key=lambda row: (row[2], repr(row[0])))
    if operation in ("map", "sink", "source"):
        return state, rows
    out: list[Row] = []
    if operation == "sum":
        for ident, group, epoch, value in rows:
            state[group] = state.get(group, 0) + value
            out.append((ident, group, epoch, state[group]))
        return state, out
    for side, part in enumerate(inputs):
        for row in part:
            group = row[1]
            sides = list(state.get(group, (frozenset(), frozenset())))
            for other in sides[1 - side]:
                left, right = (row, other) if side == 0 else (other, row)
                ident, epoch = (left[0], right[0]), max(left[2], right[2])
                out.append((ident, group, epoch, (left[3], right[3])))
            sides[side] |= {row}
            state[group] = tuple(sides)
    return state, out


def roundest(low: int, high: int) -> int:
    """The number in [low, high] that the largest power of two divides."""
    for bits in range(high.bit_length(), -1, -1):
        number = high >> bits << bits
        if number >= low:
            return number
    raise ValueError((low, high))


def epoch_due(last: int, tick: int, span: int) -> int | None:
    first = (last + 1) // span + 1
    if (tick + 1) // span < first:
        return None
    return roundest(first, (tick + 1) // span) * span - 1


def choose_end(after: int, ends: Sequence[int], span: int, most: int) -> int | None:
    chosen: tuple[int, int] | None = None
    cell, seen = (after + 1) // span, 0
    for end in ends:
        if (end + 1) // span == cell:
            continue
        cell = (end + 1) // span
        seen += 1
        if chosen is not None and seen > most:
            break
        chosen = max(chosen or (-1, -1), (cell & -cell, end))
    return chosen[1] if chosen else None
