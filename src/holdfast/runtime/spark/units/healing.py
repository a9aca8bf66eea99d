"""Making lost slices again on a node's own Spark session: see `holdfast.runtime.units.healing`."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException

from holdfast.deployment import UnitId
from holdfast.deployment.slicefiles import Files, content_digest
from holdfast.errors import BadInputError, HoldfastError
from holdfast.pipeline import SparkSource
from holdfast.runtime.checkpoint.align import plan_again
from holdfast.runtime.checkpoint.clone import clone_between, make_stateless
from holdfast.runtime.checkpoint.kept import committed, kept_name
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.damage import Damage, Inputs, find_damage, inputs_of
from holdfast.runtime.log.slicelog import NondeterministicError, SliceLog, SupersededError
from holdfast.runtime.spark.units.replay import (
    REPLAYED,
    Bench,
    ReplayUnit,
    drop_files,
    read_natively,
)
from holdfast.runtime.units.healing import NotCommittedError, NotHealedError, Tell
from holdfast.runtime.units.positions import SourcePosition
from holdfast.runtime.units.sources import WATERMARK, EpochRows, read_batch, split_late, write_rows
from holdfast.runtime.units.threads import UnitContext
from holdfast.storage import Storage
from holdfast.streams import unit as streams_unit
from holdfast.streams.handover import Birth
from holdfast.streams.reading import TrimmedError
from holdfast.streams.records import Range
from holdfast.streams.repair import Repairs, Replay, replays

log = logging.getLogger("holdfast.spark")

KEEP_MORE = "with --ack-levels 2 or more, what that takes is kept for longer"
COMMIT_S = 0.5
"""How long a unit that was left may take to commit what it has published: it is told to stop, and
to wait for it is sooner than to run the batch again."""
LOOK_S = 0.02
REPLAY_S = 30.0
"""A batch that is run again for its state may take so long: its function may hang, which is why the
unit was left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What a node lends to whoever makes slices again."""

    context: Callable[[UnitId, int], UnitContext]
    """Of any unit of the run, as of a generation."""
    bench: Callable[[UnitContext], Bench]
    source: Callable[[UnitContext], EpochRows | SparkSource]
    alone: threading.RLock
    """Held while slices are made again: other units of the node find them whole then."""
    scratch: str
    """Name of a folder for checkpoints, on the disk of those that are cloned."""


class SparkHealer:
    """Implements `holdfast.runtime.units.healing.Healer`."""

    def __init__(self, workshop: Workshop, records: SliceLog, crash: Crash) -> None:
        self._workshop, self._log, self._crash = workshop, records, crash

    def heal(self, inputs: Inputs, after: int, upto: int, *, heeded: int, tell: Tell) -> int | None:
        try:
            with self._workshop.alone:
                return self._heal(inputs, after, upto, heeded=heeded, tell=tell, beyond=True)
        except TrimmedError:
            return None  # the reader was left behind: nobody needs what it misses

    def _heal(
        self, inputs: Inputs, after: int, upto: int, *, heeded: int, tell: Tell, beyond: bool
    ) -> int | None:
        steps = self._log.steps()
        found = find_damage(self._log, steps, inputs, after, upto, beyond=beyond)
        if not found.damage and (found.heed is None or found.heed <= heeded):
            return None
        ordered = sorted(found.damage, key=lambda one: (one.item.unit, one.item.number))
        for unit, lost in itertools.groupby(ordered, key=lambda one: one.item.unit):
            self._heal_unit(unit, list(lost), steps, tell)
        return found.heed

    def _heal_unit(self, unit: str, lost: Sequence[Damage], steps: Repairs, tell: Tell) -> None:
        began = time.monotonic()
        numbers = ", ".join(str(one.item.number) for one in lost)
        tell(f"making slice {numbers} of {unit} again: {lost[0].what}")
        context = self._workshop.context(UnitId.parse(unit), REPLAYED)
        try:
            for number, files in self._made(context, [one.item.number for one in lost], tell):
                one = next(one for one in lost if one.item.number == number)
                self._put(context, one, files, steps)
        except NotHealedError:
            raise
        except (HoldfastError, PySparkException, OSError) as error:
            first = lost[0]
            raise NotHealedError(unit, first.item.number, first.what, _why(error)) from error
        took_s = time.monotonic() - began
        log.warning("%s: slice %s was lost, and made again in %.1f s", unit, numbers, took_s)

    def _put(self, context: UnitContext, lost: Damage, files: Files, steps: Repairs) -> None:
        number = lost.item.number
        self._crash.at("before-repair-record", context.name, number)
        digest = content_digest(files)
        told = self._log.run(steps.repair(lost.item, files, digest, number=lost.repairs))
        if told != "repaired":
            drop_files(context, files)
        self._crash.at("after-repair-record", context.name, number)

    def commit(self, unit: str, batch: int, *, tell: Tell) -> None:
        context = self._workshop.context(UnitId.parse(unit), REPLAYED)
        rows = self._rows(context)
        deadline = time.monotonic() + COMMIT_S
        while batch not in (found := committed(self._log, unit, rows)):
            if time.monotonic() > deadline:
                break
            time.sleep(LOOK_S)
        else:
            return
        tell(f"running batch {batch} of {unit} again, whose state was not committed")
        try:
            with self._workshop.alone:
                self._commit(context, batch, found, tell)
        except (HoldfastError, PySparkException, OSError) as error:
            raise NotCommittedError(unit, batch, _why(error)) from error
        log.warning("%s: batch %d was run again for its state, never committed", unit, batch)

    def _commit(
        self, context: UnitContext, batch: int, found: Mapping[int, tuple[str, int]], tell: Tell
    ) -> None:
        """Put the state after a batch beside the checkpoints of its unit."""
        (replay,) = self._planned(context, (batch,), found)
        with self._replaying(context, replay, found.get(replay.commit), tell) as (name, again):
            again.commit(REPLAY_S)
            commits = [int(n) for n in self._log.store.names(f"{name}/commits") if n.isdigit()]
            home = self._log.layout.checkpoints(context.name)
            self._clone(context, name, f"{home}/{kept_name(batch)}", newest=max(commits))

    # Batches run again

    def _made(
        self, context: UnitContext, numbers: Sequence[int], tell: Tell
    ) -> Iterator[tuple[int, Files]]:
        if context.segment.kind == "source":
            for number in numbers:
                yield number, self._source_again(context, number)
            return
        stateful = context.segment.stateful
        found = committed(self._log, context.name, self._rows(context)) if stateful else {}
        for replay in self._planned(context, numbers, found):
            yield from self._replayed(context, replay, found.get(replay.commit), tell).items()

    def _planned(
        self, context: UnitContext, numbers: Sequence[int], found: Mapping[int, Any]
    ) -> list[Replay]:
        if context.segment.stateful:
            born = self._log.run(self._log.steps().birth(context.name))
            empty = isinstance(born, Birth) and not born.parents
            planned = replays(numbers, {*found, *([-1] if empty else [])})
        else:
            planned = replays(numbers, {number - 1 for number in numbers})
        if planned is None:
            raise BadInputError(
                f"no checkpoint has its state before batch {min(numbers)} any more", hint=KEEP_MORE
            )
        return planned

    def _replayed(
        self,
        context: UnitContext,
        replay: Replay,
        commit: tuple[str, int] | None,
        tell: Tell,
    ) -> Mapping[int, Files]:
        """The files of a unit's batches."""
        with self._replaying(context, replay, commit, tell) as (_, again):
            return again.replay()

    @contextmanager
    def _replaying(
        self,
        context: UnitContext,
        replay: Replay,
        commit: tuple[str, int] | None,
        tell: Tell,
    ) -> Iterator[tuple[str, ReplayUnit]]:
        """A unit that runs batches again, and its checkpoint, which goes afterwards.

        What the batches read is made again first, if need be.
        """
        records = [
            self._log.need_range(context.name, number)
            for number in range(replay.first, replay.last + 1)
        ]
        after, upto = records[0].after, records[-1].upto
        inputs = inputs_of(context.deployment, context.segment)
        self._heal(inputs, after, upto, heeded=upto, tell=tell, beyond=False)
        with self._checkpoint(context) as name:
            if not context.segment.stateful:
                self._make_stateless(context, name, replay)
            elif commit is not None:
                self._clone(context, commit[0], name, newest=commit[1])
            else:
                self._log.store.make_checkpoint(name)
            self._crash.at("before-replay", context.name, replay.last)
            home = self._log.store.below(name)
            yield name, ReplayUnit(context, self._workshop.bench(context), replay, home, heed=upto)

    def _make_stateless(self, context: UnitContext, name: str, replay: Replay) -> None:
        folder, _, last = name.rpartition("/")
        make_stateless(
            self._log.store.below(folder),
            last,
            next_batch=replay.first,
            rows=self._rows(context),
            inputs=len(context.segment.inputs),
        )

    def _clone(self, context: UnitContext, source: str, target: str, newest: int | None) -> None:
        clone_between(
            self._log.store,
            source,
            target,
            unit=context.name,
            crash=Crash(),
            newest=newest,
            beside=True,
        )

    def _rows(self, context: UnitContext) -> int:
        return self._workshop.bench(context).partitions

    @contextmanager
    def _checkpoint(self, context: UnitContext) -> Iterator[str]:
        """A name for a checkpoint, which goes when it is not needed any more."""
        name = f"{self._workshop.scratch}/heal-{context.new_id()}"
        try:
            yield name
        finally:
            self._log.store.remove_folder(name, aside=f"{name}.gone")

    # Sources

    def _source_again(self, context: UnitContext, number: int) -> Files:
        record = self._log.need_range(context.name, number)
        source = self._workshop.source(context)
        self._crash.at("before-replay", context.name, number)
        if isinstance(source, SparkSource):
            rows = self._native_again(context, source, record)
        else:
            watermark = self._watermark_before(context.name, record, number)
            event_time = self._workshop.bench(context).pipeline.event_time
            rows, _, _ = read_batch(source.again, record, event_time, watermark)
        return write_rows(context, number, rows)

    def _native_again(self, context: UnitContext, source: SparkSource, record: Range) -> Any:
        """What Spark gives for the recorded offsets, if its source still has it."""
        position = SourcePosition.after(record)
        bench = self._workshop.bench(context)
        if position.offset is None:
            raise BadInputError("its record names no offset of Spark's")
        home = self._log.layout.checkpoints(context.name)
        known = sorted(filter(str.isdigit, self._log.store.checkpoints(home)))
        if not known:
            raise BadInputError("its checkpoint is gone")
        with self._checkpoint(context) as name:
            self._clone(context, f"{home}/{known[-1]}", name, None)
            checkpoint: Storage = self._log.store.below(name)
            plan_again(
                checkpoint,
                unit=context.name,
                start=position.start,
                end=position.offset,
                now=context.wall.now(),
            )
            rows = read_natively(bench, source, checkpoint)
        return split_late(rows, bench.pipeline.event_time, position.watermark_us)[0]

    def _watermark_before(self, unit: str, record: Range, number: int) -> int | None:
        told = record.source if isinstance(record.source, Mapping) else {}
        if WATERMARK in told or number == 0:
            watermark: int | None = told.get(WATERMARK)
            return watermark
        return self._log.need_slice(unit, number - 1).watermark_us


def _why(error: BaseException) -> str:
    """What keeps a slice from being made again, in one line."""
    match error:
        case NondeterministicError() | streams_unit.NondeterministicError():
            return "its batch, run again, gave other rows: the segment is not deterministic"
        case TrimmedError() | SupersededError():
            return f"what its batch has read is trimmed; {KEEP_MORE}"
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
