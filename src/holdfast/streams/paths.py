"""Which path carries a split's stream, and how another one takes its place.

The stream of a split is carried by units of one path at a time. To leave it is a `halt`: the logs
of its units are sealed where they are, whoever hangs or sleeps, and units of the other path begin
at the last end that all of them have published: with the input after it, and with the state there
if paths share it. What an old unit still computes is published by nobody. Who asks may die at any
moment: what is on record is carried out by whoever finds it.

A hot path has a stream of its own, and pins its input all along. One that has failed for good is
shut down: a `halt` after which nobody carries its stream, so that it pins nothing any more. It can
be begun again, with empty state, where it was left or where its split has come to, whichever is
later: whoever takes it then begins there or after that, or reads what it had published before, so
nothing is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.deployment import PATH_MARK, Segment
from holdfast.deployment.blocks import shard_groups
from holdfast.errors import BadInputError
from holdfast.streams.handover import Handover
from holdfast.streams.records import Change, Child, unit_name
from holdfast.streams.restart import Restarts
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
                of=segment.max_shards,
            )
            for shard, groups in enumerate(shard_groups(segment.shards, segment.max_shards))
        ),
        reason=reason,
        writer=writer,
    )


def shut_down(steps: Handover, segment: Segment, split: Segment, *, reason: str) -> Steps[bool]:
    """See that nobody carries the stream of a hot path; False: its split takes it, or nobody knows.

    Who takes it all the same finds nothing to read until it is begun again.
    """
    for _ in range(MOST_ATTEMPTS):
        changes = yield from steps.changes_of(segment.name)
        now = yield from carried(steps, split)
        if not changes or now is None or f"{split.name}{PATH_MARK}{now.path}" == segment.path:
            return False
        last = changes[-1]
        if last.children:
            last = _alone(segment, last.number + 1, reason, steps.writer)
            if not (yield from steps.decide(replace(last, children=()))):
                continue
        yield from steps.carry_out(segment.name)
        return True
    raise BadInputError("others change it all the time", where=segment.name)


def begin_again(
    steps: Restarts, segment: Segment, split: Segment, inputs: Sequence[str], *, reason: str
) -> Steps[tuple[str, ...]]:
    """See that somebody carries the stream of a hot path; gives who does.

    One that was shut down begins after its own last end or that of its split, whichever is later:
    its input is kept from there on. Between the look and the put that end may have moved, and the
    input with it: then it is shut down again.
    """
    for _ in range(MOST_ATTEMPTS):
        changes = yield from steps.changes_of(segment.name)
        # Whoever decided on the last one may have died before it was carried out.
        yield from steps.carry_out(segment.name)
        if not changes:
            return ()
        last = changes[-1]
        if last.children and (yield from _can_begin(steps, last, inputs)):
            return tuple(child.unit for child in (yield from steps.carriers(segment.name)))
        following = _alone(segment, last.number + 1, reason, steps.writer)
        if last.children:
            yield from steps.decide(replace(following, children=()))
        else:
            own = yield from steps.last_end(segment.name)
            end = max(own, (yield from steps.last_end(split.name)))
            yield from steps.decide(replace(following, start=end))
    raise BadInputError("its input is trimmed all the time", where=segment.name)


def _can_begin(steps: Restarts, change: Change, inputs: Sequence[str]) -> Steps[bool]:
    """Whether the units of a hot path find their input, or have found it."""
    for child in change.children:
        if (yield from steps.has_state(child.unit)):
            return True
    if change.start is None or change.restart is not None:
        return True
    return (yield from steps.may_begin_at(inputs, change.start + 1))


def _alone(segment: Segment, number: int, reason: str, writer: str) -> Change:
    """A change by which the units of a hot path begin."""
    return Change(
        stream=segment.name,
        number=number,
        how="halt",
        children=tuple(
            Child(
                unit=unit_name(segment.name, number, shard),
                segment=segment.name,
                groups=groups,
                of=segment.max_shards,
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
