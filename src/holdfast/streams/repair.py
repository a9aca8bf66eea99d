"""Slices whose files were lost or damaged, made again from the records.

The state of the unit at the batch before is cloned, the batch is run again from its recorded range,
and a *repair* record names the new files. Their digest must be that of the slice record, which
stays as it is: a repair changes where rows are, never which. Whoever finds files missing looks for
a repair first; the newest one counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from holdfast.streams.reading import ProtocolError
from holdfast.streams.records import Repair, Slice
from holdfast.streams.steps import Delete, Get, Newest, Put, Steps, repairs, slices
from holdfast.streams.unit import NondeterministicError, UnitSteps

MOST_REPAIRS = 16
"""Of one slice; a disk that loses it more often needs a person."""

KEEP_EVERY = 4
"""Batches between two commits that a checkpoint keeps for repairs, beyond the newest few."""

Repaired: TypeAlias = Literal["repaired", "adopted", "trimmed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Batches of a unit that are run again in a row, to make slices again."""

    commit: int
    """The batch whose committed state they begin with; -1: the state of the unit's birth."""
    last: int
    wanted: tuple[int, ...]
    """Those whose slices are lost; the others are run for the state they leave behind."""

    @property
    def first(self) -> int:
        return self.commit + 1


def replays(wanted: Iterable[int], commits: Collection[int]) -> list[Replay] | None:
    """How to make lost slices again, running as few batches as the commits there are allow.

    None: before one of them there is no commit left.
    """
    found: list[Replay] = []
    for number in sorted(set(wanted)):
        commit = max((at for at in commits if at < number), default=None)
        if commit is None:
            return None
        if found and commit <= found[-1].last:  # the one before comes by: it goes on from there
            found[-1] = replace(found[-1], last=number, wanted=(*found[-1].wanted, number))
        else:
            found.append(Replay(commit=commit, last=number, wanted=(number,)))
    return found


class Repairs(UnitSteps):
    """Finding and making repairs."""

    def repaired(self, item: Slice) -> Steps[tuple[Slice, int]]:
        """A slice with the files that its newest repair names, and how many repairs it has."""
        number = 0
        while number < MOST_REPAIRS:
            found: Repair | None = yield Get(repairs(item.unit), _place(item, number))
            if found is None:
                break
            if found.digest != item.digest:
                raise ProtocolError(f"{item.unit}: the repair of slice {item.number} differs")
            item = replace(item, files=found.files)
            number += 1
        return item, number

    def repair(
        self, item: Slice, files: Mapping[str, tuple[Any, ...]], digest: str, *, number: int
    ) -> Steps[Repaired]:
        """Put repair `number` of a slice: that many were there and are damaged as well."""
        if digest != item.digest:
            raise NondeterministicError(
                f"{item.unit}: batch {item.number} run again gave other rows"
            )
        if number >= MOST_REPAIRS:
            raise ProtocolError(f"{item.unit}: slice {item.number} was lost {number} times")
        record = Repair(
            unit=item.unit,
            number=_place(item, number),
            slice=item.number,
            files=files,
            digest=digest,
            writer=self.writer,
        )
        stored = yield Put(repairs(item.unit), record.number, record)
        floor = yield from self.floor_now(slices(item.unit))
        if item.number < floor.number:
            if stored == record:
                yield Delete(repairs(item.unit), record.number)
            return "trimmed"
        return "repaired" if stored == record else "adopted"

    def check_replay(self, unit: str, batch: int, digest: str) -> Steps[None]:
        """A batch that is run again gives the rows on record, if they still are."""
        item = yield Get(slices(unit), batch)
        if isinstance(item, Slice) and item.digest != digest:
            raise NondeterministicError(f"{unit}: batch {batch} run again gave other rows")

    def forget_repairs(self, unit: str, first: int, last: int) -> Steps[None]:
        """Remove the repairs of slices that are trimmed."""
        if (yield Newest(repairs(unit))) < 0:
            return
        for place in range(first * MOST_REPAIRS, (last + 1) * MOST_REPAIRS):
            yield Delete(repairs(unit), place)


def _place(item: Slice, number: int) -> int:
    """Repairs of all slices share one sequence of numbers, so that they need one folder a unit."""
    return item.number * MOST_REPAIRS + number
