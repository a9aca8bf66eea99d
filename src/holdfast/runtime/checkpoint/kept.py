"""Commits that are kept beyond those that Spark keeps, so that lost slices can be made again.

A slice is made again from the state before its batch. Spark removes all but the newest few states;
with several levels of acknowledgement a slice may be needed much longer. So every few batches the
checkpoint is cloned, by links, under the number of its last commit. A clone that lies before the
oldest slice still needed is dropped when a newer one does as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from holdfast.deployment import UnitId
from holdfast.errors import CorruptLogError
from holdfast.rundir.layout import generation_word
from holdfast.runtime.checkpoint.clone import batch_number, clone_between
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.storage import Storage
from holdfast.storage.identity import new_id
from holdfast.streams.records import Range

_NAME = re.compile(r"kept-(?P<batch>\d{10})")
REPLICAS = 2
"""A unit and its follower: the checkpoints of either will do."""


def keep(folder: Storage, generation: int, batch: int, *, unit: str, crash: Crash) -> None:
    """Keep the checkpoint of a generation as it is after a batch; -1: as it was born."""
    clone_between(folder, generation_word(generation), kept_name(batch), unit=unit, crash=crash)


def kept_name(batch: int) -> str:
    """What the checkpoint after a batch is called that is kept; -1: as the unit was born."""
    return f"kept-{batch + 1:010d}"


def kept(folder: Storage) -> list[int]:
    """The batches after which the state is kept, in order."""
    found = [_NAME.fullmatch(name) for name in folder.checkpoints("")]
    return sorted(int(match["batch"]) - 1 for match in found if match)


def drop_kept(
    folder: Storage,
    range_of: Callable[[int], Range | None],
    epoch: int,
    *,
    new_id: Callable[[], str] = new_id,
) -> None:
    """Remove what lies before the newest one at or before an epoch, by the range of its batch."""
    known = kept(folder)
    for newer in reversed(known):
        record = range_of(newer)
        # Of one whose range is trimmed nobody can begin: there is none before it either.
        if record is None or record.upto <= epoch:
            for older in known:
                if older < newer:
                    name = kept_name(older)
                    folder.remove_folder(name, aside=f".{name}-{new_id()}.gone")
            return


def committed(log: SliceLog, unit: str, rows: int) -> dict[int, tuple[str, int]]:
    """The batches of a unit whose state some checkpoint has: its name, and Spark's number there.

    `rows` of the clock source stand for one batch.
    """
    found: dict[int, tuple[str, int]] = {}
    for replica in range(REPLICAS):
        home = log.layout.checkpoints(str(replace(UnitId.parse(unit), replica=replica)))
        # What is kept comes last and counts: Spark removes none of it under our hands.
        for name in sorted(log.store.checkpoints(home)):
            checkpoint = log.store.below(f"{home}/{name}")
            commits = sorted(_numbers(checkpoint, "commits"))
            planned = _numbers(checkpoint, "offsets")
            for spark_batch in commits:
                # Spark goes on after a commit from the offsets before it. Where a query runs it may
                # remove the oldest meanwhile; what a unit was born with has no others.
                spare = spark_batch > commits[0] and not _NAME.fullmatch(name)
                before = 2 if spare else 1
                if not planned.issuperset(range(max(0, spark_batch - before), spark_batch)):
                    continue
                try:
                    batch = batch_number(checkpoint, spark_batch, rows)
                except CorruptLogError:
                    continue  # torn, or removed meanwhile
                found[batch] = (f"{home}/{name}", spark_batch)
    return found


def _numbers(checkpoint: Storage, folder: str) -> set[int]:
    return {int(name) for name in checkpoint.names(folder) if name.isdigit()}
