"""Units of a world: production decisions, a toy operator, a checkpoint of their own."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from holdfast.runtime.log.batching import Batching
from holdfast.streams.floors import Floors
from holdfast.streams.reading import ProtocolError, TrimmedError
from holdfast.streams.records import (
    Change,
    Child,
    Claim,
    Range,
    Skip,
    Slice,
    change_of,
    skip_place,
    stream_of,
    unit_name,
)
from holdfast.streams.steps import Get, Newest, Put, changes, claims, skips, slices
from holdfast.streams.unit import End, Ended, Position, Proposal, RunBatch
from holdfast.testing.hands.memory import Idle, Local, Memory, Process
from holdfast.testing.hands.promises import check_promise, promise
from holdfast.testing.hands.results import Results, Sink
from holdfast.testing.hands.scenario import (
    GROUPS,
    RETAIN,
    Row,
    Scenario,
    Seg,
    Violation,
    apply,
    choose_end,
    digest_of,
    draw,
    left_out,
)


class Snapshot(NamedTuple):
    """One commit of a checkpoint: state, and the position after the batch."""

    state: dict[int, Any]
    position: Position


class Units(ABC):
    """The parts of a world that process rows."""

    def __init__(
        self,
        seed: int,
        *,
        scenario: Scenario | None = None,
        protocol: Callable[..., Floors] = Floors,
        broken: str = "",
        memory: Memory | None = None,
    ) -> None:
        self.seed, self.broken = seed, broken
        self.scenario = scenario or draw(seed)
        self.rng = random.Random(f"world/{seed}")
        self.memory = memory or Memory()
        self.make_protocol = protocol
        self.checkpoints: dict[tuple[str, int, int], dict[int, Snapshot]] = {}
        self.commits: dict[str, list[dict[int, Snapshot]]] = {}
        """Unit to its checkpoints, of all replicas and generations."""
        self.units: dict[str, Child] = {}
        """All that changes on record have brought."""
        self.sealed: set[str] = set()
        self.owners: dict[tuple[str, int, int], str] = {}
        self.generations: Counter[tuple[str, int]] = Counter()
        self.count: Counter[str] = Counter()
        self.now, self.step, self.writers = -1, 0, 0
        self.calm = False
        self.rows = {
            seg.output: self._rows(seg.output)
            for seg in self.segments.values()
            if seg.operation == "source"
        }
        self.streams = list(dict.fromkeys(seg.output for seg in self.segments.values()))
        self.results = Results(self.scenario, self.rows)
        flat = [row for rows in self.rows["s0"] for row in rows]
        bad = self.rng.sample(flat, min(4, len(flat))) if self.scenario.poison else []
        self.poison = {row[0] for row in bad[:2]}
        self.flaky = {row[0] for row in bad[2:]}
        self._begin()

    @property
    def segments(self) -> dict[str, Seg]:
        return self.scenario.segments

    @property
    def sinks(self) -> dict[str, Sink]:
        """The present life of each sink."""
        return self.results.sinks

    # Who reads what (the `Wiring` that trimming asks for)

    def readers(self, stream: str) -> list[str]:
        found = [seg.output for seg in self.segments.values() if stream in seg.inputs]
        return list(dict.fromkeys(found))

    def publishes(self, stream: str) -> bool:
        return stream not in self.segments or self.segments[stream].operation != "sink"

    def inputs(self, segment: str) -> tuple[str, ...]:
        return self.segments[segment].inputs

    def may_shut_down(self, stream: str) -> bool:  # noqa: ARG002 - none is here
        return False

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
            if name == self.scenario.late:
                continue
            shards = 1 if seg.operation == "sink" else self.rng.choice([1, 2, 2, 3])
            change = Change(
                stream=seg.output,
                number=0,
                how="run",
                children=self._children(name, seg.output, 0, self._even(shards)),
                start=-1,
            )
            self.memory.execute(Put(changes(seg.output), 0, change))
            self.learn(change)

    def learn(self, change: Change) -> None:
        """Take notice of a change that is on record."""
        self.units.update({child.unit: child for child in change.children})

    def _even(self, shards: int) -> list[tuple[int, int]]:
        edges = [index * GROUPS // shards for index in range(shards + 1)]
        return list(pairwise(edges))

    def _children(
        self, segment: str, stream: str, number: int, parts: Sequence[tuple[int, int]]
    ) -> tuple[Child, ...]:
        return tuple(
            Child(unit=unit_name(stream, number, index), segment=segment, groups=part)
            for index, part in enumerate(parts)
        )

    def protocol(self, writer: str = "") -> Floors:
        """The production decisions, as one process sees them."""
        self.writers += not writer
        return self.make_protocol(
            self,
            writer=writer or f"w{self.writers}",
            retain=RETAIN,
            margin=2,
            shared=("j",) if self.scenario.shared else (),
            levels=2 if self.scenario.damaged and self.broken != "levels" else 1,
            keep_newest=self.scenario.keep_newest,
        )

    # A unit

    def unit_main(self, unit: str, replica: int, generation: int) -> Process:
        protocol = self.protocol()
        rng = random.Random(self.seed * 1_000_003 + self.writers)
        claim = Claim(unit=unit, replica=replica, number=generation, writer=protocol.writer)
        stored = yield Put(claims(unit, replica), generation, claim)
        if stored != claim and self.broken != "claims":
            return
        # Tasks of a batch run in several processes, none of which sees all of them.
        workers = (protocol, self.protocol(writer=protocol.writer))
        child = yield from protocol.child(unit)
        key = (unit, replica, generation)
        if key not in self.checkpoints:
            self.checkpoints[key] = {}
            self.commits.setdefault(unit, []).append(self.checkpoints[key])
        mine = self.checkpoints[key]
        if not (yield from self._begin_unit(protocol, child, mine)):
            return
        seg = self.segments[child.segment]
        while True:
            newest = yield Newest(claims(unit, replica))
            if newest > generation and rng.random() < 0.7:
                return
            snapshot = mine[max(mine)]
            propose = self._propose(seg, rng)
            try:
                worker = rng.choice(workers)
                step = yield from worker.next_step(
                    unit,
                    snapshot.position,
                    seg.inputs,
                    propose,
                    reach=rng.choice((None, 1, 3)),
                )
                if step == "waiting":
                    yield Idle(on=("now",) if seg.operation == "source" else ())
                    continue
                if isinstance(step, Ended):
                    if step.why == "left behind":
                        self._left_behind(unit, max(mine), "its range")
                    return
                done = yield from self._batch(worker, child, step, snapshot, rng, replica)
            except TrimmedError as error:
                self._left_behind(unit, max(mine), str(error))
                return
            except ProtocolError:
                if unit not in self.sealed:
                    raise
                return  # it reads on where its stream, and what it reads, were begun anew
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
            self.memory.touch(f"{unit}/commits")
            self.count["batches"] += 1
            yield from self._drop_commits(protocol, unit, mine)

    def life_of(self, unit: str) -> int:
        """How often the stream of a unit had been begun anew when it was made."""
        stream = stream_of(unit)
        begun = [
            change.number
            for change in self.memory.folders[changes(stream)].values()
            if change.start is not None and change.number <= change_of(unit)
        ]
        return len(begun) - (stream != self.scenario.late)  # its first life, but for a late one

    def _begin_unit(self, protocol: Floors, child: Child, mine: dict[int, Snapshot]) -> Process:
        """Give a unit its first commit, cloned or born with; False: it never runs."""
        unit = child.unit
        while not mine:
            yield Local()
            mine.update(self._clone(unit))
            if mine:
                break
            try:
                first = yield from self.initial(protocol, child)
            except TrimmedError as error:
                if any(self.commits[unit]):
                    continue  # another one was faster, and what both needed is gone
                if unit in self.sealed:
                    return False
                raise Violation(f"{unit}: what it is born with is gone: {error}") from error
            if first == "void":
                return False
            if first is None:
                yield Idle(on=tuple(f"{parent}/commits" for parent in self.units))
                continue
            yield Local()
            mine[-1] = first
            self.memory.touch(f"{unit}/commits")
        return True

    def _drop_commits(self, protocol: Floors, unit: str, mine: dict[int, Snapshot]) -> Process:
        """Keep the newest few, and the one that heirs or repairs may need."""
        oldest = max(mine) - RETAIN + 1
        epoch = yield from protocol.keep_epoch(unit)
        if epoch is not None and self.broken != "keep-common":
            there = [number for number, item in mine.items() if item.position.after <= epoch]
            oldest = min(oldest, max(there, default=-1))
        for old in [number for number in mine if number < oldest]:
            del mine[old]

    def _propose(
        self, seg: Seg, rng: random.Random
    ) -> Callable[[int, Sequence[End], int | None], Proposal | None]:
        def propose(after: int, found: Sequence[End], limit: int | None) -> Proposal | None:
            upto = choose(after, [end.epoch for end in found], limit)
            return None if upto is None else Proposal(upto=upto)

        def choose(after: int, ends: Sequence[int], limit: int | None) -> int | None:
            if seg.operation == "source":
                upto = Batching(batch_epochs=seg.span).due(after, self.now)
            else:
                known = [end for end in ends if limit is None or end <= limit]
                upto = choose_end(after, known, seg.span, rng.choice(self.scenario.strides))
            if limit is None or limit <= after or self.broken == "handover-is-candidate":
                return upto
            there = seg.operation == "source" or limit in ends
            if there and (upto is None or upto > limit or rng.random() < self.scenario.direct):
                return limit
            return upto

        return propose

    def _clone(self, unit: str) -> dict[int, Snapshot]:
        """The checkpoint with the newest commit, of whatever replica and generation."""
        there = [item for item in self.commits[unit] if item]
        best: dict[int, Snapshot] = max(there, key=max, default={})
        return dict(best)

    @abstractmethod
    def initial(self, protocol: Floors, child: Child) -> Process:
        """What a unit is born with; None: not yet there."""

    @abstractmethod
    def delivered(self, upto: int) -> None:
        """A sink has got everything up to an epoch."""

    @abstractmethod
    def files_of(self, protocol: Floors, found: Sequence[Slice]) -> Process:
        """The rows of slices, read from their files."""

    def _left_behind(self, unit: str, committed: int, why: str) -> None:
        """Fine for a zombie or a slow replica; fatal if nobody has got further."""
        best = max((max(item) for item in self.commits[unit] if item), default=-2)
        if best > committed or unit in self.sealed:
            self.count["left behind"] += 1
            return
        raise Violation(f"{unit}: nobody can run batch {committed + 1}: {why}")

    def sealed_on_record(self, unit: str) -> bool:
        found = self.memory.folders.get(slices(unit), {})
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
        inputs = yield from self.input_rows(protocol, child, step.range)
        skip = ""
        if child.segment == "K" and self.scenario.poison:
            outcome = yield from self._without_poison(protocol, unit, number, inputs[0], rng)
            if outcome is None:
                return None
            kept, skip = outcome
            inputs = [kept]
        if self.scenario.watermarks and seg.operation != "source":
            check_promise(unit, step, inputs)
        state, rows = apply(seg.operation, snapshot.state, inputs)
        after, upto = step.range.after, step.range.upto
        position = step.done
        if seg.operation == "sink":
            yield Local(hurts=True)
            life = self.life_of(unit)
            looks = self.scenario.restarts and self.broken != "sealed-sinks"
            if looks and (yield from protocol.seal_of(unit)) is not None:
                return "over"
            self.results.deliver(child.segment, life, number, after, upto, rows)
            self.delivered(upto)
            return state, position
        if replica > 0:  # the leader's head start
            for _ in range(rng.choice([2, 8, 20])):
                if (yield Get(slices(unit), number)) is not None:
                    break
        watermarks = self.scenario.watermarks
        item = Slice(
            unit=unit,
            number=number,
            after=after,
            upto=upto,
            files={"rows": tuple(rows)},
            digest=digest_of(rows),
            watermark_us=(yield from promise(self.scenario, self.rows, child, step))
            if watermarks
            else None,
            skip=skip,
            writer=protocol.writer,
        )
        told = yield from protocol.publish(item)
        self.count[told] += 1
        if told == "other skip":
            return None
        return "over" if told == "sealed" else (state, position)

    def input_rows(self, protocol: Floors, child: Child, record: Range) -> Process:
        """What a batch reads, one list per input, the unit's key groups only."""
        seg, groups = self.segments[child.segment], range(*child.groups)
        after, upto = record.after, record.upto
        if seg.operation == "source":
            rows = [row for part in self.rows[seg.output][after + 1 : upto + 1] for row in part]
            return [[row for row in rows if row[1] in groups]]
        found = []
        for stream in seg.inputs:
            read = yield from protocol.read(stream, after, upto)
            rows = yield from self.files_of(protocol, read)
            found.append([row for row in rows if row[1] in groups])
        return found

    def _without_poison(
        self, protocol: Floors, unit: str, number: int, rows: list[Row], rng: random.Random
    ) -> Process:
        """The rows that an operator does not fail on, and the skip they were left out by."""
        there = yield Get(slices(unit), number)
        put = yield Get(skips(unit), skip_place(number))
        if isinstance(there, Slice) and self.broken != "skip-in-slice":
            skip = there.skip
        else:
            skip = put.reason if put is not None else ""
        gone = left_out(skip)
        kept = [row for row in rows if row[0] not in gone]
        bad = {
            row[0]
            for row in kept
            if row[0] in self.poison or (row[0] in self.flaky and rng.random() < 0.5)
        }
        if not bad:
            return kept, skip
        if put is None and (not isinstance(there, Slice) or self.broken == "skip-in-slice"):
            place = skip_place(number)
            record = Skip(unit=unit, number=place, reason=repr(sorted(bad)), writer=protocol.writer)
            stored = yield Put(skips(unit), place, record)
            if self.broken == "skip-in-slice":
                gone = left_out(stored.reason)
                self.results.leave_out(self.life_of(unit), change_of(unit), -1, gone)
        return None  # fails as it would without quarantine; a restart tries again
