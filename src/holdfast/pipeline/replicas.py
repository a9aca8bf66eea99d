"""Which units of a deployment have a hot follower.

A unit is named by an operator of its segment, all shards of it or one (`count`, `count#1`); plans
name tasks (`count.1`). A sink is named by itself. What cannot have a follower is refused here, with
the reason: a source that Spark reads, whose position only its own checkpoint knows, and state in
one segment with chance, since two replicas would publish different rows of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from holdfast.deployment import Deployment, Segment
from holdfast.errors import BadInputError
from holdfast.pipeline.api import Pipeline
from holdfast.pipeline.sources import SparkSource

ALL = "all"
WHERE = "--replicate"


def with_followers(pipeline: Pipeline, deployment: Deployment, names: Iterable[str]) -> Deployment:
    """The deployment with followers of the units named."""
    chosen: dict[str, set[int]] = {}
    for name in names:
        found = (
            [(segment, segment.shards) for segment in deployment.segments]
            if name == ALL
            else [_find(deployment, name)]
        )
        for segment, shard in found:
            _check(pipeline, segment)
            shards = range(segment.shards) if name == ALL or shard is None else [shard]
            chosen.setdefault(segment.name, set()).update(shards)
    return replace(
        deployment,
        segments=tuple(
            replace(segment, followers=tuple(sorted(chosen.get(segment.name, ()))))
            for segment in deployment.segments
        ),
    )


def sinks_of(deployment: Deployment, names: Collection[str]) -> tuple[str, ...]:
    """The sinks that deliver only what the segments named publish."""
    return tuple(
        segment.name
        for segment in deployment.segments
        if segment.kind == "exporter"
        and all(deployment.producer(boundary).name in names for boundary in segment.inputs)
    )


def _find(deployment: Deployment, name: str) -> tuple[Segment, int | None]:
    """The segment meant, and the shard; None: all of them."""
    whole = _segment(deployment, name)
    if whole is not None:
        return whole, None
    for mark in "#.":
        operator, _, shard = name.rpartition(mark)
        segment = _segment(deployment, operator)
        if segment is not None and shard.isdecimal():
            if int(shard) < segment.shards:
                return segment, int(shard)
            raise BadInputError(
                f"{operator!r} has {segment.shards} shards", where=f"{WHERE} {name}"
            )
    raise BadInputError(
        "there is no such operator",
        where=f"{WHERE} {name}",
        hint=f"one of {', '.join(v for item in deployment.segments for v in item.operators)}",
    )


def _segment(deployment: Deployment, operator: str) -> Segment | None:
    return next((item for item in deployment.segments if operator in item.operators), None)


def _check(pipeline: Pipeline, segment: Segment) -> None:
    members = [pipeline.operator(name) for name in segment.operators]
    where = f"{WHERE} {segment.name}"
    if any(isinstance(one.source, SparkSource) for one in members):
        raise BadInputError(
            "a source that Spark reads cannot have a follower",
            where=where,
            hint="replicate what reads it",
        )
    if segment.stateful and not all(one.deterministic for one in members):
        raise BadInputError(
            "it keeps state and its output is made by chance, so two replicas would differ",
            where=where,
            hint="cut before the operator that is declared deterministic=False",
        )
