"""Which path carries a split's stream, and how another one takes its place.

The stream of a split is carried by units of one path at a time. To leave it is a `halt`: the logs
of its units are sealed where they are, whoever hangs or sleeps, and units of the other path begin
at the last end that all of them have published: with the input after it, and with the state there
if paths share it. What an old unit still computes is published by nobody. Who asks may die at any
moment: what is on record is carried out by whoever finds it.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.deployment import PATH_MARK, Segment
from holdfast.deployment.blocks import shard_groups
from holdfast.errors import BadInputError
from holdfast.streams.handover import Handover
from holdfast.streams.records import Change, Child, unit_name
from holdfast.streams.steps import Steps

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
    units: tuple[str, ...]


def path_of(child: Child, segment: Segment) -> str:
    """The path that a unit of a split runs."""
    _, _, path = child.segment.partition(PATH_MARK)
    return path or segment.paths[0]


def carried(steps: Handover, segment: Segment) -> Steps[Carried | None]:
    """The path that a split takes; None: its stream has not begun."""
    known = yield from steps.changes_of(segment.name)
    return _carried(known[-1], segment) if known else None


def take(steps: Handover, segment: Segment, path: str, *, reason: str) -> Steps[Carried]:
    """Leave the path that a split takes for another one, unless it takes that one already."""
    if path not in segment.paths:
        known = ", ".join(segment.paths)
        raise BadInputError(f"no path {path!r}", where=segment.name, hint=f"there are: {known}")
    for _ in range(MOST_ATTEMPTS):
        changes = yield from steps.changes_of(segment.name)
        last = changes[-1]
        if path_of(last.children[0], segment) != path:
            last = leave_for(
                segment, path, number=last.number + 1, reason=reason, writer=steps.writer
            )
            if not (yield from steps.decide(last)):
                continue
        # Seal the logs of the path that was left, as far as that has not been done.
        yield from steps.carry_out(segment.name)
        return _carried(last, segment)
    raise BadInputError("others change its path all the time", where=segment.name)


def leave_for(segment: Segment, path: str, *, number: int, reason: str, writer: str) -> Change:
    """The change by which a path begins to carry a split's stream."""
    return Change(
        stream=segment.name,
        number=number,
        how="halt",
        shared=segment.shared_state,
        children=tuple(
            Child(
                unit=unit_name(segment.name, number, shard),
                segment=f"{segment.name}{PATH_MARK}{path}",
                groups=groups,
            )
            for shard, groups in enumerate(shard_groups(segment.shards, segment.max_shards))
        ),
        reason=reason,
        writer=writer,
    )


def _carried(change: Change, segment: Segment) -> Carried:
    return Carried(
        split=segment.name,
        path=path_of(change.children[0], segment),
        change=change.number,
        reason=change.reason,
        units=tuple(child.unit for child in change.children),
    )
