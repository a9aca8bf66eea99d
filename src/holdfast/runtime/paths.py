"""Have a split take another path while it runs.

The split's stream is carried by units of one path at a time. To leave it is a `cut` of the stream
(`holdfast.streams`): the logs of its units are sealed where they are, whoever hangs or sleeps, and
units of the other path begin at the last end that all of them have published, with the input after
it. What an old unit still computes is published by nobody. Who asks may die at any moment: what is
on record is carried out by the units themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.deployment import Deployment, Segment
from holdfast.deployment.blocks import shard_groups
from holdfast.errors import BadInputError
from holdfast.pipeline.paths import MARK
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.streams.records import Change, Child, unit_name

MOST_ATTEMPTS = 16
"""How often others may come first before one gives up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """Which path carries a split's stream once all that is on record is carried out."""

    split: str
    path: str
    change: int
    """The change that it was taken by; 0: since the run began."""
    reason: str


def splits(deployment: Deployment) -> tuple[Segment, ...]:
    """The segments that are splits."""
    return tuple(segment for segment in deployment.segments if segment.paths)


def carried(log: SliceLog, segment: Segment) -> Carried:
    """The path that a split takes."""
    change = log.run(log.steps().changes_of(segment.name))[-1]
    return Carried(
        split=segment.name,
        path=path_of(change.children[0], segment),
        change=change.number,
        reason=change.reason,
    )


def path_of(child: Child, segment: Segment) -> str:
    """The path that a unit of a split runs."""
    _, _, path = child.segment.partition(MARK)
    return path or segment.paths[0]


def take(log: SliceLog, segment: Segment, path: str, *, reason: str) -> Change | None:
    """Leave the path that a split takes for another one; None: it takes that one already."""
    if path not in segment.paths:
        known = ", ".join(segment.paths)
        raise BadInputError(f"no path {path!r}", where=segment.name, hint=f"there are: {known}")
    for _ in range(MOST_ATTEMPTS):
        known_changes = log.run(log.steps().changes_of(segment.name))
        if path_of(known_changes[-1].children[0], segment) == path:
            carry_out(log, segment)
            return None
        change = _cut(log, segment, path, number=len(known_changes), reason=reason)
        if log.run(log.steps().decide(change)):
            carry_out(log, segment)
            return change
    raise BadInputError("others change its path all the time", where=segment.name)


def carry_out(log: SliceLog, segment: Segment) -> None:
    """Seal the logs of the path that was left, as far as that has not been done: anyone may."""
    log.run(log.steps().carry_out(segment.name))


def _cut(log: SliceLog, segment: Segment, path: str, *, number: int, reason: str) -> Change:
    return Change(
        stream=segment.name,
        number=number,
        how="cut",
        children=tuple(
            Child(
                unit=unit_name(segment.name, number, shard),
                segment=f"{segment.name}{MARK}{path}",
                groups=groups,
            )
            for shard, groups in enumerate(shard_groups(segment.shards, segment.max_shards))
        ),
        reason=reason,
        writer=log.writer,
    )
