"""Cut a pipeline into segments.

Problem: given a pipeline and a set of operators whose output a plan wants logged, find the segments
(what stays connected when the boundaries are cut), the boundaries' layouts and the units. Every
operator with several consumers is a boundary, so each segment is an in-tree whose root is its
output operator. O(operators * edges), far below anything a plan costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypedDict

from holdfast.deployment import PATH_MARK, Boundary, Deployment, Segment
from holdfast.errors import BadInputError
from holdfast.pipeline.api import Pipeline
from holdfast.pipeline.fingerprint import fingerprints
from holdfast.pipeline.graph import Layout, layout
from holdfast.pipeline.growth import with_max_shards
from holdfast.pipeline.operators import PipelineOperator
from holdfast.pipeline.paths import hot_path_of, paths_of
from holdfast.plan import FastRecoverPlan, FtcPlan, JointPlan, Plan

Cuts: TypeAlias = Literal["none", "all"] | Iterable[str] | Plan | Mapping[str, Any]
"""`none`: forced boundaries only; `all`: every operator; names; or a plan or its JSON."""
PerOperator: TypeAlias = int | Mapping[str, int]
"""One number for all, or by operator; a segment takes the smallest of its operators'. A batch
interval is 1 in any case where `one_epoch_operators` says so."""


class DeployOptions(TypedDict):
    """Arguments of `deploy` that a joint plan decides."""

    cuts: tuple[str, ...]
    batch_epochs: Mapping[str, int]
    snapshot_batches: Mapping[str, int]
    epoch_s: float | None
    max_shards: Mapping[str, int]


def deploy_options(plan: JointPlan) -> DeployOptions:
    """What `deploy` takes to run a joint plan.

    Topologies of pipelines count in seconds, and so does a deployment's epoch.
    """
    _check_feasible(plan)
    segments = plan.segments
    return {
        "cuts": plan.boundaries,
        "batch_epochs": {v: s.batch_epochs for s in segments for v in s.operators},
        "snapshot_batches": {v: s.snapshot_batches for s in segments for v in s.operators},
        "epoch_s": plan.epoch,
        "max_shards": plan.max_shards,
    }


def deploy(
    pipeline: Pipeline,
    *,
    cuts: Cuts = "none",
    shards: Mapping[str, int] | None = None,
    batch_epochs: PerOperator = 1,
    snapshot_batches: PerOperator = 10,
    epoch_s: float | None = None,
    fuse_sources: bool = False,
    max_shards: Mapping[str, int] | None = None,
) -> Deployment:
    """The deployment of a pipeline under a plan's cuts; `max_shards` are a plan's choice."""
    pipeline.validate()
    if isinstance(cuts, Mapping):
        from holdfast.plan.document import parse_plan  # noqa: PLC0415 - nodes never read plan files

        cuts = parse_plan(cuts)
    if isinstance(cuts, JointPlan) and max_shards is None:
        max_shards = cuts.max_shards
    declared = fingerprints(pipeline)
    pipeline = with_max_shards(pipeline, max_shards or {})
    facts = layout(pipeline, shards=shards, fuse_sources=fuse_sources)
    chosen = cut_operators(pipeline, cuts, shards=shards)
    ends = set(facts.forced) | chosen
    trees = [
        _members(pipeline, operator.name, ends)
        for operator in pipeline.operators
        if operator.name in ends
    ]
    logs = _boundaries(pipeline, ends)
    single = one_epoch_operators(pipeline)
    segments = [
        _segment(
            pipeline,
            tree,
            facts,
            logs,
            batch_epochs=batch_epochs,
            snapshot_batches=snapshot_batches,
            single=single,
        )
        for tree in trees
    ]
    exporters = [
        Segment(
            name=sink.name,
            kind="exporter",
            operators=(sink.name,),
            inputs=(_read(sink, 0, logs[sink.inputs[0]]).name,),
        )
        for sink in pipeline.sinks
    ]
    return Deployment(
        pipeline=pipeline.name,
        epoch_s=pipeline.epoch_s if epoch_s is None else epoch_s,
        segments=(*segments, *exporters),
        fingerprints=declared,
    )


def cut_operators(
    pipeline: Pipeline, cuts: Cuts, *, shards: Mapping[str, int] | None = None
) -> set[str]:
    """The operators whose output a plan wants logged, forced ones not counted.

    A plan's backups log their own output, its anchors their inputs. Backups may be named by task
    (`count.0`); an operator must have all its tasks chosen or none, for one Spark query per
    shard of one segment cannot be cut in some shards only.
    """
    inner = {operator.name for operator in pipeline.operators if operator.kind != "sink"}
    if cuts == "none":
        return set()
    if cuts == "all":
        return inner
    if isinstance(cuts, str):
        raise BadInputError(f"unknown cuts {cuts!r}", hint="none, all, or names of operators")
    if isinstance(cuts, Mapping):
        from holdfast.plan.document import parse_plan  # noqa: PLC0415 - nodes never read plan files

        cuts = parse_plan(cuts)
    if isinstance(cuts, Plan):
        chosen = _planned(pipeline, cuts, layout(pipeline, shards=shards).shards)
    else:
        chosen = set(cuts)
    for name in sorted(chosen):
        if pipeline.operator(name).kind == "sink":
            raise BadInputError("a sink has no output to cut", where=name)
    return chosen


def _planned(pipeline: Pipeline, plan: Plan, count: Mapping[str, int]) -> set[str]:
    _check_feasible(plan)
    match plan:
        case FtcPlan():
            return _backed_up(pipeline, plan.backups, count)
        case FastRecoverPlan():
            return {name for anchor in plan.anchors for name in pipeline.operator(anchor).inputs}
        case JointPlan():
            return set(plan.boundaries)
    raise BadInputError(
        f"a plan of the method {plan.method} does not say where to cut",
        where=pipeline.name,
        hint="plan with the method ftc, fastrecover or joint",
    )


def _check_feasible(plan: Plan) -> None:
    if not plan.feasible:
        raise BadInputError("the plan is infeasible", hint="plan again with other bounds")


def _backed_up(pipeline: Pipeline, backups: Iterable[str], count: Mapping[str, int]) -> set[str]:
    tasks: dict[str, set[str]] = {}
    for name in backups:
        known = any(operator.name == name for operator in pipeline.operators)
        operator, _, index = (name, "", "") if known else name.rpartition(".")
        tasks.setdefault(pipeline.operator(operator).name, set()).add(index)
    for operator, indices in tasks.items():
        if "" not in indices and len(indices) != count[operator]:
            raise BadInputError(
                f"the plan backs up {len(indices)} of its {count[operator]} tasks",
                where=operator,
                hint="plan per operator, or require all of its tasks",
            )
    return set(tasks)


def one_epoch_operators(pipeline: Pipeline) -> set[str]:
    """Operators whose result depends on the batching, and all that feed them.

    A slice is read whole, so a batch can be no shorter than the slices it reads: whatever lies
    before such an operator publishes one epoch per slice as well, also when it is behind.
    """
    found: set[str] = set()
    for operator in reversed(pipeline.operators):
        if operator.one_epoch_per_batch or operator.name in found:
            found.update((operator.name, *operator.inputs))
    return found


def _members(pipeline: Pipeline, root: str, ends: set[str]) -> tuple[PipelineOperator, ...]:
    """The operators of the segment that ends with `root`, in topological order."""
    found = {root}
    for operator in reversed(pipeline.operators):
        if operator.name in found:
            found.update(name for name in operator.inputs if name not in ends)
    return tuple(operator for operator in pipeline.operators if operator.name in found)


def _boundaries(pipeline: Pipeline, ends: set[str]) -> dict[str, tuple[Boundary, ...]]:
    """Per cut operator, one log per distinct key its consumers are sharded by.

    A consumer without a key reads all groups, so it takes whatever log there is.
    """
    logs: dict[str, tuple[Boundary, ...]] = {}
    for name in ends:
        operator = pipeline.operator(name)
        keys = [
            consumer.key_of_input(index)
            for consumer in pipeline.consumers(name)
            for index, read in enumerate(consumer.inputs)
            if read == name and consumer.key
        ]
        logs[name] = tuple(
            Boundary(operator=name, key=key, mode=operator.mode, upsert_key=operator.upsert_key)
            for key in dict.fromkeys(keys or [()])
        )
    return logs


def _read(consumer: PipelineOperator, index: int, logs: tuple[Boundary, ...]) -> Boundary:
    """The one of an input's logs that a consumer reads."""
    key = consumer.key_of_input(index)
    return next((log for log in logs if log.key == key), logs[0])


def _segment(
    pipeline: Pipeline,
    members: tuple[PipelineOperator, ...],
    facts: Layout,
    logs: Mapping[str, tuple[Boundary, ...]],
    *,
    batch_epochs: PerOperator,
    snapshot_batches: PerOperator,
    single: set[str],
) -> Segment:
    names = {operator.name for operator in members}
    inputs = [
        _read(operator, index, logs[name]).name
        for operator in members
        for index, name in enumerate(operator.inputs)
        if name not in names
    ]
    one_epoch = not single.isdisjoint(names)
    sharded = [operator for operator in members if operator.key or operator.kind == "source"]
    root = members[-1].name
    declared = [operator.max_shards for operator in members if operator.max_shards is not None]
    given = _least(pipeline, batch_epochs, members, 1, "batch_epochs")
    split = paths_of(members[-1])
    return Segment(
        name=root,
        kind="inner" if inputs else "source",
        operators=tuple(operator.name for operator in members),
        inputs=tuple(dict.fromkeys(inputs)),
        outputs=logs[root],
        shards=max((facts.shards[operator.name] for operator in sharded), default=1),
        max_shards=declared[0] if declared else 1,
        key=_divided_by(members, names),
        batch_epochs=1 if one_epoch else given,
        snapshot_batches=_least(pipeline, snapshot_batches, members, 10, "snapshot_batches"),
        stateful=any(operator.keeps_state for operator in members),
        one_epoch_per_batch=one_epoch,
        paths=split.names if split is not None else (),
        shared_state=split is not None and split.shared_state,
        hot=split is not None and bool(split.hot_paths),
        path=_hot_path(pipeline, members[-1]),
    )


def _divided_by(members: tuple[PipelineOperator, ...], names: set[str]) -> tuple[str, ...]:
    """The columns that a segment's input and state are divided by; empty: by none, or by several.

    Whatever has a key must read from outside, where rows are laid out by it.
    """
    readers = [operator for operator in members if not names.issuperset(operator.inputs)]
    keyed = [operator for operator in members if operator.key or operator.keeps_state]
    whole = all(operator.key and names.isdisjoint(operator.inputs) for operator in readers)
    apart = paths_of(members[-1]) is not None or hot_path_of(members[-1])
    if not readers or not whole or apart or any(operator not in readers for operator in keyed):
        return ()
    return readers[0].key


def _hot_path(pipeline: Pipeline, operator: PipelineOperator) -> str:
    """Which path of which split an operator is, if that is hot."""
    path = hot_path_of(operator)
    return f"{pipeline.consumers(operator.name)[0].name}{PATH_MARK}{path}" if path else ""


def _least(
    pipeline: Pipeline,
    value: PerOperator,
    members: tuple[PipelineOperator, ...],
    default: int,
    what: str,
) -> int:
    if isinstance(value, int):
        value = {operator.name: value for operator in pipeline.operators}
    for name, number in value.items():
        pipeline.operator(name)
        if number < 1:
            raise BadInputError(f"{what} is {number}", where=name, hint="at least 1")
    given = [value[operator.name] for operator in members if operator.name in value]
    return min(given, default=default)
