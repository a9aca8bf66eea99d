"""Shards and forced boundaries of a pipeline, and the topology that planners see of it.

The rules of forced boundaries stand in `holdfast.topology.boundaries`; here a pipeline is told to
them. Three reasons only a pipeline knows: a source, an operator declared nondeterministic, and one
that quarantines.

An operator without a key and without state runs in as many shards as the one it is fused with; when
it reads a boundary it has one, since rows without a key are all in group 0. So it is with the
number of shards that it may ever have: rows move behind whatever may be given several.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.deployment import KEY_GROUPS
from holdfast.errors import BadInputError
from holdfast.pipeline.api import Pipeline
from holdfast.pipeline.operators import PipelineOperator
from holdfast.pipeline.paths import hot_path_of, paths_of
from holdfast.pipeline.sources import Rate, SparkSource
from holdfast.topology import graph as model
from holdfast.topology.boundaries import Reason, all_boundaries, own_boundaries, rows_move


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What holds for every deployment of a pipeline with these shards."""

    shards: Mapping[str, int]
    """Per operator but sinks; that of a keyless operator holds as long as it is not cut off."""
    forced: Mapping[str, Reason]
    """Operators whose output is a boundary in any case, and why."""


def layout(
    pipeline: Pipeline, *, shards: Mapping[str, int] | None = None, fuse_sources: bool = False
) -> Layout:
    """Shards and forced boundaries.

    With `fuse_sources` a source may be fused with the operators behind it up to the first one with
    several inputs; without, it is a segment of its own.
    """
    asked = _asked_shards(pipeline, shards or {})
    inner = [operator for operator in pipeline.operators if operator.kind != "sink"]
    place = {operator.name: i for i, operator in enumerate(inner)}
    declared: dict[int, Reason] = {}
    for i, operator in enumerate(inner):
        if operator.kind == "source" and not (fuse_sources and _alone(pipeline, operator)):
            declared[i] = "source"
        elif not operator.deterministic:
            declared[i] = "nondeterministic"
        elif paths_of(operator) is not None:
            declared[i] = "path"
    for operator in inner:
        if operator.on_error == "quarantine":
            # Fused with what is before it, a bad row would take all rows of the same origin along.
            for name in operator.inputs:
                declared.setdefault(place[name], "quarantine")
            if _meets_reader(pipeline, operator):
                # Fused with what else reads its input, rows put aside would be missing there too.
                declared.setdefault(place[operator.name], "quarantine")
        if paths_of(operator) is not None or hot_path_of(operator):
            for name in operator.inputs:
                declared.setdefault(place[name], "path")
    readers = [
        [place[one.name] for one in pipeline.consumers(operator.name) if one.kind != "sink"]
        for operator in inner
    ]
    own = own_boundaries(
        readers, declared=declared, results={place[sink.inputs[0]] for sink in pipeline.sinks}
    )
    logged = {inner[i].name for i in own}
    count: dict[str, int] = {}
    most: dict[str, int] = {}
    for operator in inner:
        count[operator.name] = _count(operator, asked, count, logged)
        ever = {operator.name: operator.max_shards or 1}
        most[operator.name] = _count(operator, ever, most, logged)
    forced = all_boundaries(
        own,
        exchanges=[
            place[name]
            for operator in inner
            for name in operator.inputs
            if rows_move(
                max(count[name], most[name]),
                max(count[operator.name], most[operator.name]),
                one_to_one=_in_step(operator, name, count),
            )
        ],
        readers=readers,
        inputs=[len(operator.inputs) for operator in inner],
        stateful=[operator.keeps_state for operator in inner],
    )
    return Layout(shards=count, forced={inner[i].name: reason for i, reason in forced.items()})


def topology(pipeline: Pipeline, *, shards: Mapping[str, int] | None = None) -> model.Topology:
    """The planner's topology: tasks are shards, sinks are queries, forced boundaries are required.

    An operator read by sinks only is not marked: its result log exists in every deployment, and no
    planner needs to pay for it.
    """
    pipeline.validate()
    facts = layout(pipeline, shards=shards)
    inner = [operator for operator in pipeline.operators if operator.kind != "sink"]
    read = {name for operator in inner for name in operator.inputs}
    return model.Topology(
        name=pipeline.name,
        operators=tuple(
            model.Operator(
                name=operator.name,
                parallelism=facts.shards[operator.name],
                input="correlated" if operator.kind == "join" else "independent",
                backup="required"
                if operator.name in facts.forced and operator.name in read
                else "free",
                paths=split.names if (split := paths_of(operator)) is not None else (),
            )
            for operator in inner
        ),
        edges=tuple(
            model.Edge(
                source=name,
                target=operator.name,
                partitioning="one-to-one" if _in_step(operator, name, facts.shards) else "full",
            )
            for operator in inner
            for name in operator.inputs
        ),
        rates={
            operator.name: operator.source.rows_per_second
            for operator in pipeline.sources
            if isinstance(operator.source, Rate)
        },
        queries=tuple(
            model.Query(name=sink.name, sink=sink.inputs[0], priority=sink.priority)
            for sink in pipeline.sinks
        ),
    )


def _asked_shards(pipeline: Pipeline, shards: Mapping[str, int]) -> dict[str, int]:
    asked = {operator.name: operator.shards for operator in pipeline.operators}
    for name, number in shards.items():
        operator = pipeline.operator(name)
        if not 1 <= number <= KEY_GROUPS:
            raise BadInputError(f"{number} shards", where=name, hint=f"1 to {KEY_GROUPS}")
        if number > 1 and not operator.key and operator.kind != "source":
            raise BadInputError(
                "has no key, so it cannot be sharded",
                where=name,
                hint="give it a key, or shard the operator before it",
            )
        asked[name] = number
    for operator in pipeline.operators:
        if operator.max_shards is not None and asked[operator.name] > operator.max_shards:
            raise BadInputError(
                f"{asked[operator.name]} shards, and max_shards is {operator.max_shards}",
                where=operator.name,
                hint="declare as many as it will ever have",
            )
    for operator in pipeline.sources:
        if isinstance(operator.source, SparkSource) and asked[operator.name] > 1:
            raise BadInputError(
                f"{asked[operator.name]} shards of a SparkSource would each read all of its rows",
                where=operator.name,
                hint="leave its parallelism at 1: Spark reads its partitions in parallel; or write "
                "one source per part and unite them",
            )
    return asked


def _meets_reader(pipeline: Pipeline, operator: PipelineOperator) -> bool:
    """Whether another operator that reads the same could come to be in one segment with it."""
    behind = _reached(pipeline, operator)
    return any(
        not behind.isdisjoint(_reached(pipeline, other))
        for name in operator.inputs
        for other in pipeline.consumers(name)
        if other.name != operator.name and other.kind != "sink"
    )


def _reached(pipeline: Pipeline, operator: PipelineOperator) -> set[str]:
    """An operator and all behind it but sinks."""
    found = {operator.name}
    for later in pipeline.operators:
        if later.kind != "sink" and not found.isdisjoint(later.inputs):
            found.add(later.name)
    return found


def _alone(pipeline: Pipeline, source: PipelineOperator) -> bool:
    """Whether a source can be fused: nothing joins its stream before a boundary or the end."""
    name = source.name
    for _ in pipeline.operators:
        consumers = pipeline.consumers(name)
        if len(consumers) != 1 or consumers[0].kind == "sink":
            return True
        if len(consumers[0].inputs) > 1:
            return False
        if consumers[0].keeps_state or not consumers[0].deterministic:
            return True
        name = consumers[0].name
    return True


def _count(
    operator: PipelineOperator, asked: Mapping[str, int], count: Mapping[str, int], logged: set[str]
) -> int:
    if operator.kind != "map" or operator.key:
        return asked[operator.name]
    (producer,) = operator.inputs
    return 1 if producer in logged else count[producer]


def _in_step(operator: PipelineOperator, producer: str, count: Mapping[str, int]) -> bool:
    """Whether each shard of the operator reads the same shard of the producer."""
    mapped = operator.kind == "map" and not operator.key
    return mapped and count[producer] == count[operator.name]
