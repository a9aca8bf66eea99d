"""A deployment as the record protocol asks about it: who reads what, and how it begins."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from holdfast.deployment import Deployment, Segment
from holdfast.deployment.blocks import shard_groups
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.streams.records import Change, Child, unit_name
from holdfast.streams.steps import Put, Steps, changes


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentWiring:
    """Implements `holdfast.streams.floors.Wiring`."""

    deployment: Deployment
    kept: Collection[str] = ()
    """Streams that are never trimmed."""

    def readers(self, stream: str) -> Iterable[str]:
        if stream in self.kept:
            return ()
        deployment = self.deployment
        return [
            item.name for item in deployment.segments if stream in deployment.streams_read(item)
        ]

    def publishes(self, stream: str) -> bool:
        return bool(self.deployment.segment(stream).outputs)

    def inputs(self, segment: str) -> Iterable[str]:
        return self.deployment.streams_read(self.deployment.segment(segment))

    def may_shut_down(self, stream: str) -> bool:
        return bool(self.deployment.segment(stream).path)


def shared_streams(deployment: Deployment) -> Collection[str]:
    """Streams that a change may halt whose units take the state over."""
    return {item.name for item in deployment.segments if item.shared_state}


def first_change(segment: Segment, *, start: int | None = None, reason: str = "") -> Change:
    """The change that makes the units a segment begins with; the same whoever puts it.

    With a `start` they begin after that epoch.
    """
    return Change(
        stream=segment.name,
        number=segment.change,
        how="halt" if segment.change else "run",
        children=tuple(
            Child(
                unit=unit_name(segment.name, segment.change, shard),
                segment=segment.name,
                groups=groups,
                of=segment.max_shards,
            )
            for shard, groups in enumerate(shard_groups(segment.shards, segment.max_shards))
        ),
        start=start,
        reason=reason or "the run began",
    )


def begin_alone(log: SliceLog, *streams: str, shards: int = 1) -> None:
    """The first changes of streams in a log of their own, which belongs to no deployment."""
    for stream in streams:
        log.run(_begin(Segment(name=stream, kind="inner", operators=(stream,), shards=shards)))


def begin(log: SliceLog, deployment: Deployment) -> None:
    """See that every stream has its first change, before any unit runs.

    Readers come first: nobody may trim what one of them has not been born to read.
    """
    for segment in reversed(deployment.segments):
        if not segment.change:  # else it is on record: see `anew`
            log.run(_begin(segment))


def _begin(segment: Segment) -> Steps[None]:
    yield Put(changes(segment.name), 0, first_change(segment))
