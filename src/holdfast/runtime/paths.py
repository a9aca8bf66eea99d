"""Which path a split takes, on the records of a run; `holdfast.streams.paths` decides."""

from __future__ import annotations

from holdfast.deployment import Deployment, Segment, UnitId
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.streams import paths
from holdfast.streams.paths import Carried, path_of
from holdfast.streams.reading import TrimmedError

__all__ = ["Carried", "carried", "path_of", "seen_by", "splits", "take"]


def splits(deployment: Deployment) -> tuple[Segment, ...]:
    """The segments that are splits."""
    return tuple(segment for segment in deployment.segments if segment.paths)


def carried(log: SliceLog, segment: Segment) -> Carried:
    """The path that a split takes."""
    found = log.run(paths.carried(log.steps(), segment))
    if found is None:
        raise TrimmedError(f"the stream of {segment.name} has not begun")
    return found


def take(log: SliceLog, segment: Segment, path: str, *, reason: str) -> Carried | None:
    """Leave the path that a split takes for another one; None: it takes that one already."""
    before = carried(log, segment)
    now = log.run(paths.take(log.steps(), segment, path, reason=reason))
    return None if now.change == before.change else now


def seen_by(log: SliceLog, deployment: Deployment, unit: UnitId) -> Deployment:
    """The deployment as a unit has it.

    Its operator's state has as many partitions as the change says that made the unit; a split of
    hot paths reads the one that it takes.
    """
    segment = deployment.segment(unit.segment)
    child = log.run(log.steps().child(unit.exact.name))
    seen = deployment.with_partitions(segment.name, child.of)
    if not segment.hot:
        return seen
    return seen.on_path(segment.name, path_of(child, segment))
