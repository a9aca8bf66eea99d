"""A model of forks: units that go on without an input, beside the exact ones that wait for it.

A small world of its own: two logs of a source, two shards of a sum, behind them a count (in every
fifth world a join with another source) and a sink, under the production decisions of
`holdfast.streams`. Logs fall silent and come back, also while a fork lives; processes are stopped
between any two operations, are started again from their checkpoints, or go on as zombies; somebody
trims. What must hold: the sink has exactly what a run without failures delivers; at no moment is a
tentative row beside the exact ones that replace it; a batch of a fork that is run again gives the
same rows; rows that claim to lack nothing lack nothing; no tentative row is left in the end.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from holdfast.deployment import exact_name, fork_number
from holdfast.streams.floors import Floors
from holdfast.streams.fork import ForkSteps, end_fork, find_fork, put_fork
from holdfast.streams.reading import TrimmedError
from holdfast.streams.records import (
    Branch,
    Change,
    Child,
    Fork,
    ForkEnd,
    Range,
    Slice,
    stream_of,
    unit_name,
)
from holdfast.streams.repair import Repairs
from holdfast.streams.steps import Get, Put, changes, ranges
from holdfast.streams.unit import End, Ended, Position, Proposal
from holdfast.testing.hands.memory import Idle, Local, Memory, Process
from holdfast.testing.hands.scenario import GROUPS, Row, Violation, apply, choose_end, digest_of

MOST_STEPS = 200_000
RETAIN = 2

SHARDS = {"lines": 2, "marks": 1, "sum": 2, "count": 1, "OUT": 1}
READS = {"lines": (), "marks": (), "sum": ("lines",), "count": ("sum",), "OUT": ("count",)}
DOWNSTREAM = ("sum", "count", "OUT")


class Commit(NamedTuple):
    """What a checkpoint has after a batch: state, and where its unit stands."""

    state: dict[int, Any]
    batch: int


class Delivered(NamedTuple):
    """A tentative delivery."""

    fork: int
    batch: int
    after: int
    upto: int
    missing: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(slots=True)
class Sink:
    """Takes rows and progress in one transaction."""

    end: int = -1
    batch: int = -1
    rows: list[Row] = field(default_factory=list)
    tentative: list[Delivered] = field(default_factory=list)


class ForkWorld:
    """One world, drawn from its seed."""

    def __init__(
        self,
        seed: int,
        *,
        steps: Callable[..., ForkSteps] = ForkSteps,
        floors: Callable[..., Floors] = Floors,
        broken: str = "",
    ) -> None:
        self.seed, self.broken = seed, broken
        self.rng = random.Random(f"forks/{seed}")
        self.memory = Memory()
        self._make_steps, self._make_floors = steps, floors
        self.epochs = self.rng.choice([8, 12, 16])
        self.crashes = self.rng.choice([0.0, 0.002, 0.01])
        self.zombies = self.rng.choice([0.0, 0.5])
        self.patience = self.rng.choice([0.0, 0.05, 0.5])
        self.sink = Sink()
        self.checkpoints: dict[str, list[Commit]] = {}
        """Unit to its commits, oldest first; of a fork's seeds by unit and generation."""
        self.seeds: dict[tuple[str, int], Commit] = {}
        self.silent: set[str] = set()
        self.count: Counter[str] = Counter()
        self.generations: Counter[str] = Counter()
        self.processes: dict[str, Process] = {}
        self.restarts: dict[str, Callable[[str, int], Process]] = {}
        self.asleep: list[Process] = []
        self.results: dict[int, Any] = {}
        self.reads: dict[str, tuple[str, ...]] = dict(READS)
        self.joins = seed % 5 == 1
        if self.joins:
            self.reads["count"] = ("sum", "marks")
        else:
            del self.reads["marks"]
        self.streams = tuple(self.reads)
        self.rows = {
            unit_name(stream, 0, shard): self._rows(stream, shard)
            for stream in self.streams
            if not self.reads[stream]
            for shard in range(SHARDS[stream])
        }
        for stream in self.streams:
            shards = SHARDS[stream]
            edges = [index * GROUPS // shards for index in range(shards + 1)]
            children = tuple(
                Child(unit=unit_name(stream, 0, n), segment=stream, groups=(edges[n], edges[n + 1]))
                for n in range(shards)
            )
            change = Change(stream=stream, number=0, how="run", children=children, start=-1)
            self.memory.execute(Put(changes(stream), 0, change))

    # Who reads what

    def readers(self, stream: str) -> list[str]:
        return [name for name, read in self.reads.items() if stream in read]

    def publishes(self, stream: str) -> bool:
        return stream != "OUT"

    def inputs(self, segment: str) -> tuple[str, ...]:
        return self.reads[segment]

    def may_shut_down(self, stream: str) -> bool:  # noqa: ARG002 - none is here
        return False

    # Rows

    def _rows(self, stream: str, shard: int) -> list[list[Row]]:
        rng = random.Random(f"rows/{self.seed}/{shard if stream == 'lines' else stream}")
        return [
            [
                ((shard, epoch, index), rng.randrange(GROUPS), epoch, rng.randrange(1, 9))
                for index in range(rng.choice([0, 1, 2]))
            ]
            for epoch in range(self.epochs)
        ]

    def expected(self) -> list[Row]:
        """What a run without failures delivers."""
        lines, marks = (
            [
                row
                for unit, made in self.rows.items()
                if unit.startswith(name)
                for part in made
                for row in part
            ]
            for name in ("lines", "marks")
        )
        summed = apply("sum", {}, [lines])[1]
        if self.joins:
            return apply("join", {}, [summed, marks])[1]
        return apply("count", {}, [summed])[1]

    # Units

    def source(self, unit: str, generation: int) -> Process:
        """Publishes epoch by epoch, or two at once."""
        rng = random.Random(f"{self.seed}/{unit}")
        steps = Repairs(writer=f"{unit}/{generation}")
        number, after = 0, -1
        spans = [rng.choice([1, 1, 2]) for _ in range(self.epochs)]
        while after < self.epochs - 1:
            upto = min(after + spans[number], self.epochs - 1)
            rows = tuple(row for part in self.rows[unit][after + 1 : upto + 1] for row in part)
            yield from steps.publish(
                Slice(
                    unit=unit,
                    number=number,
                    after=after,
                    upto=upto,
                    files={"rows": rows},
                    rows=len(rows),
                    digest=digest_of(rows),
                )
            )
            number, after = number + 1, upto

    def exact(self, unit: str, generation: int) -> Process:
        """A unit that computes what counts."""
        steps = Repairs(writer=f"{unit}/{generation}")
        kept = self.checkpoints.setdefault(unit, [Commit({}, 0)])
        begin = kept[-1]
        if self.broken == "state becomes exact":
            forked = [found[-1] for name, found in self.checkpoints.items() if _is_fork(name, unit)]
            begin = max([begin, *forked], key=lambda commit: commit.batch)
        position = yield from steps.position_at(unit, begin.batch)
        if not isinstance(position, Position):
            raise Violation(f"{unit} is {position} born")
        yield from self._run(unit, steps, position, begin.state, kept)

    def forked(self, unit: str, generation: int) -> Process:
        """The same unit in a fork."""
        record = yield from find_fork(fork_number(unit) or 0)
        if record is None:
            return
        rng = random.Random(f"{self.seed}/{unit}/{generation}")
        steps = self._make_steps(
            record,
            unit,
            writer=f"{unit}/{generation}",
            impatient=lambda _: rng.random() < self.patience,
        )
        kept = self.checkpoints.get(unit)
        branch: Branch | None = yield from steps.branch(unit)
        if branch is None or not kept:
            if branch is None or self.broken == "seed anew":
                found = self.checkpoints.get(exact_name(unit), [Commit({}, 0)])[-1]
                self.seeds[unit, generation] = found
                yield Local()
                branch = yield from steps.begin(found.batch, generation=generation)
            begin = self.seeds[unit, branch.generation]
            if self.broken == "seed anew":
                begin = found
            if begin.batch != branch.batch:
                raise Violation(f"{unit} begins with batch {begin.batch}, its branch differs")
            for _ in range(rng.choice([1, 60])):  # a clone takes its time
                yield Local()
            kept = self.checkpoints.setdefault(unit, [begin])
        yield from steps.begin(branch.batch, generation=branch.generation)
        begin = kept[-1]
        position = yield from steps.position_at(unit, begin.batch)
        if not isinstance(position, Position):
            raise Violation(f"{unit} is {position} born")
        yield from self._run(unit, steps, position, begin.state, kept)

    def _run(
        self,
        unit: str,
        steps: Repairs,
        position: Position,
        state: dict[int, Any],
        kept: list[Commit],
    ) -> Process:
        stream = exact_name(stream_of(unit))
        child = yield from steps.child(unit)
        inputs = self.reads[stream]
        operation = "join" if stream == "count" and self.joins else stream
        rng = random.Random(f"{steps.writer}/{self.seed}")
        while True:
            step = yield from steps.next_step(
                unit, position, inputs, _proposing(rng), reach=rng.choice((None, 1, 3))
            )
            if isinstance(step, Ended):
                return
            if step == "waiting":
                yield Idle()
                continue
            record, number = step.range, step.position.batch
            parts: list[list[Row]] = []
            for name in inputs:
                found = yield from steps.read(name, record.after, record.upto)
                read = [row for item in found for row in item.files["rows"]]
                parts.append([row for row in read if child.groups[0] <= row[1] < child.groups[1]])
            missing: tuple[str, ...] = ()
            if isinstance(steps, ForkSteps):
                stateful = stream != "OUT"
                missing = tuple((yield from steps.missing(number, inputs, stateful=stateful)))
            if stream == "OUT":
                yield from self._deliver(record, parts[0], missing)
            else:
                state, made = apply(operation, state, parts)
                yield Local()
                yield from steps.publish(
                    Slice(
                        unit=unit,
                        number=number,
                        after=record.after,
                        upto=record.upto,
                        files={"rows": tuple(made)},
                        rows=len(made),
                        digest=digest_of(made),
                        missing=missing,
                    )
                )
            for _ in range(rng.choice([1, 1, 60])):
                yield Local()
            position = step.done
            if position.batch > kept[-1].batch:
                kept.append(Commit(state, position.batch))
                del kept[:-RETAIN]
            self.count["fork batches" if fork_number(unit) else "batches"] += 1

    # The sink

    def _deliver(self, record: Range, rows: Sequence[Row], missing: tuple[str, ...]) -> Process:
        """One transaction: what is checked in it is still so when it ends."""
        sink, fork, number = self.sink, fork_number(record.unit), record.number
        after, upto = record.after, record.upto
        if fork is None:
            yield Local()
            if sink.batch < number:
                sink.rows += rows
                sink.end, sink.batch = upto, number
                if self.broken != "exact removes":
                    sink.tentative = [item for item in sink.tentative if item.after >= upto]
                self._check_sink()
            return
        beyond = after >= sink.end
        for _ in range(self.rng.choice([1, 1, 1, 400])):
            yield Local()
        if self.broken != "check apart":
            beyond = after >= sink.end or self.broken == "no check"
        if beyond:
            mine = Delivered(fork, number, after, upto, missing, tuple(rows))
            others = [item for item in sink.tentative if item.fork == fork and item.batch != number]
            sink.tentative = [*others, mine]
            self.count["tentative"] += 1
            self._check_sink()
            self._check_claim(mine)

    def _check_sink(self) -> None:
        for item in self.sink.tentative:
            if item.after < self.sink.end:
                raise Violation(
                    f"tentative rows of ({item.after}, {item.upto}] beside exact ones up to "
                    f"{self.sink.end}"
                )

    def _check_claim(self, item: Delivered) -> None:
        """Rows that are said to lack nothing are those of a run without failures."""
        if not item.missing:
            exact = [row for row in self.expected() if item.after < row[2] <= item.upto]
            if sorted(item.rows) != sorted(exact):
                raise Violation(f"({item.after}, {item.upto}] lacks rows and does not say so")
        elif "" in item.missing or any(fork_number(name) for name in item.missing):
            raise Violation(f"{item.missing} are not units")

    # Somebody trims

    def trimmer(self) -> Process:
        while True:
            floors = self._make_floors(self, writer="trimmer", retain=RETAIN, margin=2)
            for stream in self.streams[:-1]:
                for shard in range(SHARDS[stream]):
                    yield from floors.trim(unit_name(stream, 0, shard), stream)
            yield Idle()

    # Forks

    def coordinator(self) -> Process:
        """Forks what is downstream of a silent log, and ends it when all is back and caught up."""
        number, rng = 0, random.Random(f"{self.seed}/coordinator")
        while True:
            for _ in range(rng.choice([3, 30])):
                yield Local()
            if not self.silent:
                continue
            number += 1
            down = tuple(sorted(self.silent))
            names = [
                unit_name(f"{stream}+{number}", 0, shard)
                for stream in DOWNSTREAM
                for shard in range(SHARDS[stream])
            ]
            yield from put_fork(Fork(number=number, units=tuple(names), silent=down))
            for name in names:
                self._start(name, self.forked)
            while self.silent or (rng.random() < 0.9 and self.sink.end < self.epochs - 1):
                yield Local()
            yield from end_fork(ForkEnd(number=number, reason="caught up"))
            self.count["forks"] += 1

    def weather(self) -> Process:
        """Logs fall silent and come back, several at once, and again."""
        rng = random.Random(f"{self.seed}/weather")
        units = ["lines.0#0", "lines.0#1", "sum.0#0", "sum.0#1"]
        units += ["marks.0#0"] if self.joins else []
        for _ in range(rng.choice([1, 2, 4])):
            for _ in range(rng.choice([10, 50, 150])):
                yield Local()
            for unit in rng.sample(units, rng.choice([1, 1, 2])):
                self.silent.add(unit)
            for _ in range(rng.choice([100, 600, 2000])):
                yield Local()
            if rng.random() < 0.5:
                self.silent.add(rng.choice(units))
                for _ in range(300):
                    yield Local()
            self.silent.clear()

    # Chance

    def _start(self, name: str, make: Callable[[str, int], Process]) -> None:
        self.generations[name] += 1
        self.restarts[name] = make
        process = self.processes[name] = make(name, self.generations[name])
        self.results.pop(id(process), None)  # of one that is gone, in whose place it is

    def run(self) -> None:
        """Until the sink has everything."""
        for stream in self.streams:
            for shard in range(SHARDS[stream]):
                make = self.exact if self.reads[stream] else self.source
                self._start(unit_name(stream, 0, shard), make)
        self._start("trimmer", lambda *_: self.trimmer())
        self._start("coordinator", lambda *_: self.coordinator())
        self._start("weather", lambda *_: self.weather())
        for _ in range(MOST_STEPS):
            if self.sink.end == self.epochs - 1 and not self.silent:
                break
            self._turn()
        if self.sink.end != self.epochs - 1:
            raise Violation(f"the sink stands at {self.sink.end} of {self.epochs - 1}")
        if sorted(self.sink.rows) != sorted(self.expected()):
            raise Violation("the sink has other rows than a run without failures")
        if self.sink.tentative:
            raise Violation(f"{len(self.sink.tentative)} tentative deliveries are left")

    def _turn(self) -> None:
        """One operation of one process, or its end and a new beginning."""
        if self.asleep and self.rng.random() < 0.1:
            self._step(self.rng.choice(self.asleep), None)
            return
        name = self.rng.choice(list(self.processes))
        if name in self.silent:
            return
        unit = name not in ("coordinator", "weather", "trimmer", *self.rows)
        if unit and self.rng.random() < self.crashes:
            if self.rng.random() < self.zombies:
                self.asleep.append(self.processes[name])
            self._start(name, self.restarts[name])
            self.count["crashes"] += 1
            return
        self._step(self.processes[name], name)

    def _step(self, process: Process, name: str | None) -> None:
        key = id(process)
        try:
            operation = process.send(self.results.pop(key, None))
        except StopIteration:
            self._gone(process, name)
            return
        except TrimmedError as error:
            # A zombie or a fork that its exact units have overtaken may find what it reads gone.
            if name is not None and fork_number(name) is None:
                raise Violation(f"{name}: {error}") from error
            if name is not None and not self._overtaken(fork_number(name)):
                raise Violation(f"{name}: {error}, and no exact unit has gone on") from error
            self._gone(process, name)
            return
        if not isinstance(operation, Local | Idle):
            self.results[key] = self.memory.execute(operation)

    def _gone(self, process: Process, name: str | None) -> None:
        if name is None:
            self.asleep.remove(process)
        else:
            del self.processes[name]

    def _overtaken(self, fork: int | None) -> bool:
        """Whether an exact unit has recorded more than when it was forked."""
        for folder in list(self.memory.folders):
            if folder.endswith("/branch"):
                branch: Branch | None = self.memory.execute(Get(folder, 0))
                if branch is None or fork_number(branch.unit) != fork:
                    continue
                newest = max(
                    self.memory.folders.get(ranges(exact_name(branch.unit)), ()), default=-1
                )
                if newest >= branch.decided:
                    return True
        return False


def _is_fork(name: str, unit: str) -> bool:
    return fork_number(name) is not None and exact_name(name) == unit


def _proposing(
    rng: random.Random,
) -> Callable[[int, Sequence[End], int | None], Proposal | None]:
    def propose(after: int, found: Sequence[End], limit: int | None) -> Proposal | None:
        known = [end.epoch for end in found if limit is None or end.epoch <= limit]
        if limit is not None and limit in known:
            return Proposal(upto=limit)
        upto = choose_end(after, known, 1, rng.choice((1, 2, 4)))
        return None if upto is None else Proposal(upto=upto)

    return propose
