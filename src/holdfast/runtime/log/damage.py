"""Which slices have lost rows on disk: files that are gone, torn or altered.

Nobody looks while all is well. Who fails on a batch looks at what it reads: at every byte of the
batch in hand, and at the sizes of what comes behind it, so that a log that was lost as a whole is
mended in one go and not batch by batch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from holdfast.deployment import KEY_GROUPS, Deployment, Segment
from holdfast.deployment.slicefiles import SliceFile
from holdfast.errors import CorruptLogError
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.slices import END_OF_STREAM, files_on, read_slice
from holdfast.streams.records import Slice
from holdfast.streams.repair import Repairs

Inputs: TypeAlias = Sequence[tuple[str, str]]
"""Boundaries that are read, each with the stream that comes through it."""


def inputs_of(deployment: Deployment, segment: Segment) -> Inputs:
    """What the units of a segment read."""
    return tuple((name, deployment.producer(name).name) for name in segment.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A slice that cannot be read."""

    item: Slice
    """With the newest files there were."""
    repairs: int
    """How many repairs it has had."""
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a look at some slices has found."""

    damage: tuple[Damage, ...]
    heed: int | None
    """Up to this epoch there are repairs, or must be; None: there is nothing to heed."""


def find_damage(
    log: SliceLog, protocol: Repairs, inputs: Inputs, after: int, upto: int, *, beyond: bool = False
) -> Found:
    """The slices of a range that are damaged on the boundaries that are read.

    With `beyond`, also those behind it that others have published already, by their sizes alone.
    """
    boundaries: dict[str, list[str]] = {}
    for boundary, stream in inputs:
        boundaries.setdefault(stream, []).append(boundary)
    sizes = _Sizes()
    found: list[Damage] = []
    heed: list[int] = []
    for stream, names in boundaries.items():
        end = max(upto, log.run(protocol.last_end(stream))) if beyond else upto
        for item in log.run(protocol.read(stream, after, end)):
            newest, repairs = log.run(protocol.repaired(item))
            look = _altered if item.upto <= upto else sizes.differ
            what = next((why for name in names if (why := look(log, newest, name))), "")
            if what:
                found.append(Damage(item=newest, repairs=repairs, what=what))
            if what or repairs:
                heed.append(item.upto)
    return Found(damage=tuple(found), heed=max(heed, default=None))


def size_of(file: SliceFile) -> int:
    """How many bytes a slice file has, by its record."""
    last = file.parts[-1] if file.parts else None
    messages = last.offset + last.size if last else file.schema_size
    return messages + len(END_OF_STREAM)


def _altered(log: SliceLog, item: Slice, boundary: str) -> str:
    """What is wrong with the rows of a slice on a boundary; empty: nothing."""
    try:
        for _ in read_slice(
            log.data(item.unit, boundary), files_on(item, boundary), range(KEY_GROUPS)
        ):
            pass
    except CorruptLogError as error:
        return str(error)
    return ""


class _Sizes:
    """Sizes of slice files, each folder listed once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Mapping[str, int]] = {}

    def differ(self, log: SliceLog, item: Slice, boundary: str) -> str:
        """The same as `_altered`, as far as sizes tell."""
        there = self._known.get((item.unit, boundary))
        if there is None:
            there = self._known[item.unit, boundary] = log.data(item.unit, boundary).sizes("")
        return _wrong_size(files_on(item, boundary), there)


def _wrong_size(files: Collection[SliceFile], there: Mapping[str, int]) -> str:
    for file in files:
        if there.get(file.name) != size_of(file):
            return f"{file.name}: slice file is missing or torn"
    return ""
