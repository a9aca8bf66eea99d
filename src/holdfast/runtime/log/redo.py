"""What to do about a batch that failed here, or that someone else has published otherwise.

Problem: a batch may be run by several generations, now or later, and a user's function may fail in
one of them and not in another. Whatever is stored counts: a slice record names the version of the
skip record (the quarantined rows) that it was made with. So a unit that keeps state runs the batch
again with that very version, for its state must fit what was published; one that keeps none takes
the published rows and need not be able to compute them. Only while nothing is published may rows be
sought that the batch can go on without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from holdfast.runtime.log.slicelog import SliceLog, skip_version
from holdfast.streams.records import MOST_SKIPS, Range, Skip, Slice
from holdfast.streams.restart import Restarts
from holdfast.streams.unit import Ended, Position

Step: TypeAlias = Literal["again", "adopt", "search", "fail"]
"""`again`: run the batch with the version to use now; `adopt`: take what is published without
running it; `search`: look for rows to leave out; `fail`: there is nothing left to try."""


def version_to_use(published: int | None, newest: int) -> int:
    """The version of its skip record that a batch is run with; 0: nothing is left out.

    `published` is the version its slice was made with, None if there is no slice; `newest` the
    newest version that was put.
    """
    return newest if published is None else published


def after_failure(
    *, stateful: bool, published: int | None, newest: int, used: int, adopted: bool
) -> Step:
    """How to go on after a batch failed that was run with version `used`.

    Every step but `fail` brings the unit nearer to an end, so that there are few: a batch is
    adopted once, run once with what is published, and searched once per version.
    """
    if published is not None and not stateful:
        return "fail" if adopted else "adopt"
    if used != version_to_use(published, newest):
        return "again"
    return "fail" if published is not None or newest >= MOST_SKIPS else "search"


def skips_to_use(
    log: SliceLog, unit: str, stored: Callable[[int], Slice | None]
) -> dict[int, Skip]:
    """The rows that a unit's batches leave out; `stored` tells what a batch has published."""
    found = {}
    for number in log.skipping(unit):
        newest, published = log.newest_skip(unit, number), stored(number)
        version = version_to_use(
            skip_version(published) if published else None, newest.version if newest else 0
        )
        skip = log.skip(unit, number, version) if version else None
        if skip is not None:
            found[number] = skip
    return found


def decided_range(
    log: SliceLog, steps: Restarts, unit: str, number: int, before: Position
) -> Range:
    """The range of a batch that tasks have run; raises if they found the end of the unit."""
    record = log.range(unit, number)
    if record is not None:
        return record
    step = log.run(steps.next_step(unit, before, (), lambda *_: None))
    if isinstance(step, Ended):
        raise log.ended(unit, step)
    return log.need_range(unit, number)
