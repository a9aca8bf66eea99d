"""The documents that only the web has; others are parts of the status (`control.status`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from holdfast.control.facts import Fact
from holdfast.control.status import NodeView, RunStatus, RunView, SplitView, UnitView
from holdfast.deployment import Deployment, SegmentKind


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentDocument:
    """Operators that run as one query."""

    name: str
    kind: SegmentKind
    operators: tuple[str, ...]
    reads: tuple[str, ...]
    """Segments whose output it reads."""
    units: tuple[str, ...]
    """Those it begins with, one per shard; the statistics name the ones that run now."""
    stateful: bool
    paths: tuple[str, ...]
    """Of a split: its alternative paths, in their order."""
    batch_s: float
    """Its batch interval, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyDocument:
    """What runs, upstream first."""

    pipeline: str
    epoch_s: float
    segments: tuple[SegmentDocument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsDocument:
    """How units and nodes do at this moment."""

    now: float
    status: RunStatus
    units: tuple[UnitView, ...]
    nodes: tuple[NodeView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorsDocument:
    """Who leads."""

    term: int
    leader: str
    followers: tuple[str, ...]
    """Those that are ready to take over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathsDocument:
    """The circuit breakers of all splits."""

    splits: tuple[SplitView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineDocument:
    """The newest facts of the journal, oldest first."""

    facts: tuple[Annotated[Fact, Field(discriminator="kind")], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A command was taken; what follows from it shows in the status."""

    done: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why a request was not answered."""

    detail: str


def topology(deployment: Deployment) -> TopologyDocument:
    """The segments of a deployment, and which reads which."""
    return TopologyDocument(
        pipeline=deployment.pipeline,
        epoch_s=deployment.epoch_s,
        segments=tuple(
            SegmentDocument(
                name=segment.name,
                kind=segment.kind,
                operators=segment.operators,
                reads=tuple(deployment.producer(name).name for name in segment.inputs),
                units=tuple(
                    str(unit) for unit in deployment.units() if unit.segment == segment.name
                ),
                stateful=segment.stateful,
                paths=segment.paths,
                batch_s=segment.batch_epochs * deployment.epoch_s,
            )
            for segment in deployment.segments
        ),
    )


def statistics(view: RunView) -> StatisticsDocument:
    return StatisticsDocument(now=view.now, status=view.status, units=view.units, nodes=view.nodes)


def coordinators(view: RunView) -> CoordinatorsDocument:
    leader, *followers = view.coordinators or ("",)
    return CoordinatorsDocument(term=view.term, leader=leader, followers=tuple(followers))
