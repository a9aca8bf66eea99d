"""Which boundaries a pipeline has whatever the plan says, and the topology planners see.

Forced boundaries depend on the pipeline and its shards alone, never on the cuts a plan adds: so
more cuts always refine fewer, and a planner can count forced boundaries before it chooses. The
rules, each with the reason it gives:

- a source: its rows are kept as they came in, late ones apart, before anything is computed;
- several consumers: Spark would compute the operator once per consumer;
- an exchange with several shards: rows move between shards through the log only;
- a nondeterministic operator: a redo may come out differently, so its first output is kept;
- a stateful operator with another one, or with an operator of several inputs, downstream: at most
  one stateful operator per segment lets its state survive a change of plan.

An operator without a key and without state runs in as many shards as the one it is fused with; when
it reads a boundary it has one, since rows without a key are all in group 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from holdfast.errors import BadInputError
from holdfast.model.deployment import KEY_GROUPS
from holdfast.pipeline.api import Pipeline
from holdfast.pipeline.operators import Operator
from holdfast.pipeline.sources import Rate
from holdfast.topology import graph as model
from holdfast.topology.links import Partitioning

Reason = Literal["source", "consumers", "exchange", "nondeterministic", "state"]


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
    forced: dict[str, Reason] = {}
    for operator in pipeline.operators:
        reason = _own_reason(pipeline, operator, fuse_sources=fuse_sources)
        if reason:
            forced[operator.name] = reason
    count: dict[str, int] = {}
    for operator in pipeline.operators:
        if operator.kind != "sink":
            count[operator.name] = _count(operator, asked, count, forced)
    for operator in pipeline.operators:
        if operator.kind in ("sink", "map"):
            continue
        for name in operator.inputs:
            if max(count[name], count[operator.name]) > 1:
                forced.setdefault(name, "exchange")
    for operator in pipeline.operators:
        if operator.keeps_state and _state_follows(pipeline, operator.name, forced):
            forced.setdefault(operator.name, "state")
    return Layout(shards=count, forced=forced)


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
            )
            for operator in inner
        ),
        edges=tuple(
            model.Edge(
                source=name, target=operator.name, partitioning=_partitioning(operator, name, facts)
            )
            for operator in inner
            for name in operator.inputs
        ),
        rates={
            operator.name: operator.source.rows_per_second
            for operator in pipeline.sources
            if isinstance(operator.source, Rate)
        },
        queries=tuple(model.Query(name=sink.name, sink=sink.inputs[0]) for sink in pipeline.sinks),
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
    return asked


def _own_reason(pipeline: Pipeline, operator: Operator, *, fuse_sources: bool) -> Reason | None:
    consumers = pipeline.consumers(operator.name)
    if operator.kind == "sink":
        return None
    if operator.kind == "source" and not (fuse_sources and _alone(pipeline, operator)):
        return "source"
    if len(consumers) > 1:
        return "consumers"
    if not operator.deterministic:
        return "nondeterministic"
    return None


def _alone(pipeline: Pipeline, source: Operator) -> bool:
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
    operator: Operator,
    asked: Mapping[str, int],
    count: Mapping[str, int],
    forced: Mapping[str, Reason],
) -> int:
    if operator.kind != "map":
        return asked[operator.name]
    (producer,) = operator.inputs
    return 1 if producer in forced else count[producer]


def _state_follows(pipeline: Pipeline, name: str, forced: Mapping[str, Reason]) -> bool:
    """Whether the segment of `name` would reach another stateful operator or several inputs."""
    for _ in pipeline.operators:
        if name in forced:
            return False
        (consumer,) = pipeline.consumers(name)
        if consumer.kind == "sink":
            return False
        if consumer.keeps_state or len(consumer.inputs) > 1:
            return True
        name = consumer.name
    return False


def _partitioning(operator: Operator, producer: str, facts: Layout) -> Partitioning:
    same = facts.shards[producer] == facts.shards[operator.name]
    return "one-to-one" if operator.kind == "map" and same else "full"
