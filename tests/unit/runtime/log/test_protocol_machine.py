"""The record protocol under every interleaving hypothesis can think of.

The production records, decisions and trimming run over an in-memory store; only Spark is replaced,
by generations that keep a checkpoint (committed batches and a running sum) and advance one atomic
step at a time. A generation that is not stepped is hung, one that is stepped after a newer one has
started is a woken zombie.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.deployment import Boundary, Deployment, Segment
from holdfast.deployment.records import (
    GroupPart,
    RangeRecord,
    SliceFile,
    SliceRecord,
    parse_record_name,
)
from holdfast.runtime.log.protocol import Batching, next_range, read_range, roundest
from holdfast.runtime.log.slicelog import SliceLog, SupersededError
from holdfast.runtime.log.trim import Trimmer
from holdfast.storage.memory import MemoryStorage

pytestmark = pytest.mark.unit

RETAIN = 2
UNITS = st.sampled_from(["sum", "sum", "out"])
BACK = st.sampled_from([0, 0, 1, 2])
"""How many generations before the newest: the newest most often, zombies sometimes."""


def deployment(shards: int) -> Deployment:
    return Deployment(
        pipeline="machine",
        epoch_s=1.0,
        fingerprints={},
        segments=(
            Segment(
                name="src",
                kind="source",
                operators=("src",),
                outputs=(Boundary(operator="src"),),
                shards=shards,
            ),
            Segment(
                name="sum",
                kind="inner",
                operators=("sum",),
                inputs=("src",),
                outputs=(Boundary(operator="sum"),),
                stateful=True,
            ),
            Segment(name="out", kind="exporter", operators=("out",), inputs=("sum",)),
        ),
    )


def slice_of(value: int) -> tuple[SliceFile, ...]:
    part = GroupPart(group=0, rows=1, offset=0, size=1, crc=0, digest=value % 2**64)
    return (SliceFile(name="f", schema_size=0, schema_crc=0, parts=(part,)),)


@dataclass
class Generation:
    """One process running one unit, with its own checkpoint directory."""

    unit: str
    number: int
    writer: SliceLog
    states: dict[int, int]
    """Committed batch to the state after it; Spark keeps the last few."""
    phase: str = "check"
    proposed: RangeRecord | None = None
    running: RangeRecord | None = None
    result: int = 0
    alive: bool = True

    @property
    def committed(self) -> int:
        return max(self.states, default=-1)


class SleepyStore(MemoryStorage):
    """A store whose next writer falls asleep just before its put, while the world goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] | None = None

    def put_if_absent(self, name: str, data: bytes) -> bytes:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return super().put_if_absent(name, data)


@dataclass
class Ghost:
    """What the test knows and the protocol does not."""

    ranges: dict[tuple[str, int], RangeRecord] = field(default_factory=dict)
    slices: dict[tuple[str, int, int], SliceRecord] = field(default_factory=dict)


class ProtocolMachine(RuleBasedStateMachine):
    """Publish, commit, clone, wake up, trim and redo in any order."""

    @initialize(shards=st.integers(1, 2), one=st.booleans(), span=st.integers(1, 3))
    def build(self, shards: int, one: bool, span: int) -> None:
        self.deployment = deployment(shards)
        self.store = SleepyStore()
        self.log = SliceLog("/none", self.store)
        self.batching = Batching(batch_epochs=span, one_epoch_per_batch=one)
        self.generations: list[Generation] = []
        self.ghost = Ghost()
        self.slept = False
        self.source_next = [0] * shards
        self.source_epoch = [-1] * shards
        for unit in ("sum", "out"):
            self.start_generation(unit)

    # The world

    @rule(shard=st.integers(0, 1), value=st.integers(0, 9), span=st.sampled_from([1, 1, 2, 3]))
    def source_publishes(self, shard: int, value: int, span: int) -> None:
        shard %= len(self.source_next)
        last = self.source_epoch[shard]
        upto = roundest(last + 2, last + 1 + span) - 1  # as sources that fell behind do
        record = SliceRecord(
            boundary="src",
            shard=shard,
            number=self.source_next[shard],
            after=self.source_epoch[shard],
            upto=upto,
            files=slice_of(10 ** (value % 4) + value),
            watermark_us=upto,
        )
        self.ghost.slices["src", shard, record.number] = self.log.put_slice(record, unit="src")
        self.source_next[shard] += 1
        self.source_epoch[shard] = upto

    @rule(unit=UNITS)
    def start_generation(self, unit: str) -> None:
        mine = self._of(unit)
        if mine and mine[-1].committed < 2 * len(mine) - 1:
            return  # mostly starts from checkpoints with something in them
        writer = SliceLog("/none", self.store)
        writer.claim(f"{unit}#0", len(mine))
        states = dict(mine[-1].states) if mine else {}
        self.generations.append(
            Generation(unit=unit, number=len(mine), writer=writer, states=states)
        )

    @rule(unit=UNITS, back=BACK)
    def kill(self, unit: str, back: int) -> None:
        """Kill an older generation: the newest may be, too, but then nothing moves any more."""
        mine = self._of(unit)
        mine[max(0, len(mine) - 2 - back)].alive = len(mine) < 2

    @rule(unit=UNITS, back=BACK, steps=st.integers(1, 7))
    def step(self, unit: str, back: int, steps: int) -> None:
        mine = self._of(unit)
        generation = mine[max(0, len(mine) - 1 - back)]
        for _ in range(steps):
            if generation.alive:
                self._step(generation)

    @rule(unit=UNITS)
    def run_newest(self, unit: str) -> None:
        generation = self._newest(unit)
        for _ in range(24):
            self._step(generation)

    @rule(unit=UNITS, values=st.lists(st.integers(0, 9), min_size=2, max_size=4), late=st.data())
    def takeover_in_mid_batch(self, unit: str, values: list[int], late: st.DataObject) -> None:
        """Hang a generation in some phase, start the next, let input arrive, wake the first."""
        old = self._newest(unit)
        hung_in = late.draw(st.sampled_from(["plan", "put_range", "put_slice", "commit"]))
        for _ in range(8):
            if old.alive and old.phase != hung_in:
                self._step(old)
        writer = SliceLog("/none", self.store)
        writer.claim(f"{unit}#0", old.number + 1)
        new = Generation(unit=unit, number=old.number + 1, writer=writer, states=dict(old.states))
        self.generations.append(new)
        for shard, value in enumerate(values):
            self.source_publishes(shard, value, 1)
        for generation in late.draw(st.lists(st.sampled_from([old, new]), max_size=20)):
            if generation.alive:
                self._step(generation)

    @rule(unit=UNITS, back=BACK)
    def trim(self, unit: str, back: int) -> None:
        mine = self._of(unit)
        generation = mine[max(0, len(mine) - 1 - back)]
        if not generation.alive or generation.committed < 0:
            return
        trimmer = Trimmer(log=generation.writer, deployment=self.deployment, retain=RETAIN)
        trimmer.trim_unit(f"{generation.unit}#0", generation.committed)
        for segment in self.deployment.segments:
            for shard in range(segment.shards):
                trimmer.trim_outputs(segment, shard)

    @precondition(lambda self: not self.slept)  # once: it makes a long log, dear to check
    @rule(unit=UNITS, batches=st.integers(6, 8))
    def put_after_a_long_sleep(self, unit: str, batches: int) -> None:
        """A writer has looked at the floor and falls asleep; the next one trims past its number."""
        old = self._newest(unit)
        for shard in range(len(self.source_next)):
            self.source_publishes(shard, 1, 1)
        for _ in range(12):
            if old.alive and old.phase not in ("put_range", "put_slice"):
                self._step(old)
        if not old.alive or old.phase not in ("put_range", "put_slice"):
            return

        def meanwhile() -> None:
            writer = SliceLog("/none", self.store)
            writer.claim(f"{unit}#0", old.number + 1)
            states = dict(old.states)
            new = Generation(unit=unit, number=old.number + 1, writer=writer, states=states)
            self.generations.append(new)
            for value in range(batches):
                for shard in range(len(self.source_next)):
                    self.source_publishes(shard, value, 1)
                for name in ("sum", "out"):
                    self.run_newest(name)
            for name in ("sum", "out"):
                self.trim(name, 0)

        self.slept = True
        self.store.meanwhile = meanwhile
        self._step(old)
        self.store.meanwhile = None

    # One process

    def _of(self, unit: str) -> list[Generation]:
        return [item for item in self.generations if item.unit == unit]

    def _newest(self, unit: str) -> Generation:
        return self._of(unit)[-1]

    def _step(self, generation: Generation) -> None:
        try:
            getattr(self, f"_{generation.phase}")(generation)
        except SupersededError:
            newest = self._newest(generation.unit)
            assert generation is not newest, "the newest generation was locked out"
            generation.alive = False

    def _check(self, generation: Generation) -> None:
        generation.writer.check_current(f"{generation.unit}#0", generation.number)
        generation.phase = "plan"

    def _plan(self, generation: Generation) -> None:
        unit, number = f"{generation.unit}#0", generation.committed + 1
        log = generation.writer
        known = log.range(unit, number)
        if known is None:
            previous = log.need_range(unit, number - 1)
            segment = self.deployment.segment(generation.unit)
            unread = {}
            for name in segment.inputs:
                shards = self.deployment.producer(name).shards
                first = previous.inputs[name] if previous else (0,) * shards
                unread[name] = [
                    list(log.slices_from(name, shard, first[shard])) for shard in range(shards)
                ]
            known = next_range(previous, unread, self.batching, unit=unit)
        generation.proposed = known
        generation.phase = "put_range" if known else "check"

    def _put_range(self, generation: Generation) -> None:
        assert generation.proposed is not None
        record = generation.writer.put_range(generation.proposed)
        key = (record.unit, record.number)
        assert record.number >= self._floor(f"units/{record.unit}"), "decided below the floor"
        first = self.ghost.ranges.setdefault(key, record)
        assert first.inputs == record.inputs, "a batch was decided twice"
        assert first.upto == record.upto
        generation.running, generation.phase = record, "compute"

    def _compute(self, generation: Generation) -> None:
        record = generation.running
        assert record is not None
        log = generation.writer
        previous = log.need_range(record.unit, record.number - 1)
        state = generation.states.get(record.number - 1, 0)
        for name, shards in read_range(previous, record).items():
            for shard, numbers in enumerate(shards):
                for number in numbers:
                    found = log.need_slice(name, shard, number)
                    assert found.upto <= record.upto
                    state = 3 * state + found.digests()[0]
        generation.result, generation.phase = state, "put_slice"

    def _put_slice(self, generation: Generation) -> None:
        record = generation.running
        assert record is not None
        if generation.unit == "sum":
            stored = generation.writer.put_slice(
                SliceRecord(
                    boundary="sum",
                    shard=0,
                    number=record.number,
                    after=record.after,
                    upto=record.upto,
                    inputs=record.inputs,
                    files=slice_of(generation.result),
                    generation=generation.number,
                ),
                unit=record.unit,
            )
            assert stored.number >= self._floor("log/sum/0"), "published below the floor"
            first = self.ghost.slices.setdefault(("sum", 0, record.number), stored)
            assert first.same_content(stored), "a slice was published twice"
        generation.phase = "commit"

    def _commit(self, generation: Generation) -> None:
        assert generation.running is not None
        number = generation.running.number
        generation.states[number] = generation.result
        generation.states = {
            batch: state for batch, state in generation.states.items() if batch > number - RETAIN
        }
        generation.phase, generation.running, generation.proposed = "check", None, None

    def _floor(self, folder: str) -> int:
        names = self.store.names(f"{folder}/floors")
        return max((parse_record_name(name)[1] for name in names), default=0)

    # What must always hold

    @invariant()
    def nothing_stays_below_the_floor(self) -> None:
        folders = {"units/sum#0": "ranges", "units/out#0": "ranges", "log/sum/0": "slices"}
        for folder, kind in folders.items():
            numbers = [parse_record_name(name)[1] for name in self.store.names(f"{folder}/{kind}")]
            assert min(numbers, default=self._floor(folder)) >= self._floor(folder)

    @invariant()
    def ranges_have_no_gap_and_lose_nothing(self) -> None:
        for unit in ("sum#0", "out#0"):
            numbers = sorted(n for name, n in self.ghost.ranges if name == unit)
            assert numbers == list(range(len(numbers)))
            previous = None
            for number in numbers:
                record = self.ghost.ranges[unit, number]
                assert record.after == (previous.upto if previous else -1)
                assert record.upto > record.after
                for name, shards in read_range(previous, record).items():
                    for shard, taken in enumerate(shards):
                        self._check_taken(record, name, shard, taken)
                previous = record

    def _check_taken(self, record: RangeRecord, name: str, shard: int, taken: range) -> None:
        """Exactly the slices with after < end <= upto were taken, and all were published."""
        for number in taken:
            found = self.ghost.slices[name, shard, number]
            assert record.after < found.upto <= record.upto
        assert self.ghost.slices[name, shard, taken.stop - 1].upto == record.upto, "no clean cut"
        follower = self.ghost.slices.get((name, shard, taken.stop))
        if follower is not None:
            assert follower.upto > record.upto, "a slice was left behind"

    @invariant()
    def slices_equal_an_independent_computation(self) -> None:
        state, previous = 0, None
        for number in range(len([1 for name, *_ in self.ghost.slices if name == "sum"])):
            record = self.ghost.ranges["sum#0", number]
            for name, shards in read_range(previous, record).items():
                for shard, numbers in enumerate(shards):
                    for item in numbers:
                        state = 3 * state + self.ghost.slices[name, shard, item].digests()[0]
            assert self.ghost.slices["sum", 0, number].digests()[0] == state % 2**64
            previous = record

    @invariant()
    def newest_generations_can_go_on(self) -> None:
        """Trimming left everything the newest checkpoint's next batch may read."""
        for unit in ("sum", "out"):
            number = self._newest(unit).committed + 1
            record = self.ghost.ranges.get((f"{unit}#0", number))
            if number > 0:
                assert self.log.range(f"{unit}#0", number - 1) is not None
            if record is None:
                continue
            assert self.log.range(f"{unit}#0", number) is not None
            previous = self.ghost.ranges.get((f"{unit}#0", number - 1))
            for name, shards in read_range(previous, record).items():
                for shard, numbers in enumerate(shards):
                    assert all(self.log.slice(name, shard, item) for item in numbers)


ProtocolMachine.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestProtocol = ProtocolMachine.TestCase
