"""From options to a deployment: what `run` and `chaos` say about cuts, shards and paces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from holdfast.errors import BadInputError
from holdfast.quantities import parse_time
from holdfast.rundir.application import absolute_app

if TYPE_CHECKING:
    from holdfast.deployment import Deployment
    from holdfast.pipeline import Pipeline
    from holdfast.pipeline.deploy import Cuts
    from holdfast.plan import Plan
    from holdfast.topology.graph import Topology

__all__ = [
    "Batch",
    "Cut",
    "Replicate",
    "Shards",
    "Snapshot",
    "absolute_app",
    "make_deployment",
    "make_places",
    "parse_batches",
    "parse_nodes",
    "parse_shards",
    "planned_order",
    "require_apart",
]

Cut = Annotated[
    list[str] | None,
    typer.Option("--cut", help="Operator to cut after; may be repeated; or all."),
]
Shards = Annotated[list[str] | None, typer.Option("--shards", help="OPERATOR=N; may be repeated.")]
Batch = Annotated[
    list[str] | None,
    typer.Option(
        "--batch",
        help="Batch interval, whole epochs: TIME for all, OPERATOR=TIME for one's segment.",
    ),
]
Replicate = Annotated[
    list[str] | None,
    typer.Option(
        "--replicate",
        help="OPERATOR or OPERATOR#SHARD whose unit has a hot follower; may be repeated; or all.",
    ),
]
Snapshot = Annotated[
    int | None, typer.Option("--snapshot", min=1, help="Batches between state snapshots.")
]

DEFAULT_SNAPSHOT = 10
"""Batches between snapshots, if nobody says."""


def make_deployment(
    pipeline: Pipeline,
    *,
    plan: Plan | None = None,
    cut: Iterable[str] = (),
    shards: Iterable[str] = (),
    batch: Iterable[str] = (),
    snapshot: int | None = None,
    replicate: Iterable[str] = (),
) -> Deployment:
    """The deployment that a plan, or the options by hand, ask for."""
    from holdfast.pipeline.replicas import sinks_of, with_followers
    from holdfast.plan import JointPlan, ReplicationPlan

    made = _without_followers(
        pipeline,
        plan=None if isinstance(plan, ReplicationPlan) else plan,
        cut=cut,
        shards=shards,
        batch=batch,
        snapshot=snapshot,
    )
    planned = plan.replicas if isinstance(plan, JointPlan | ReplicationPlan) else ()
    if isinstance(plan, JointPlan):
        # It speaks of segments that publish: results come in time only if they are delivered too.
        planned = (*planned, *sinks_of(made, planned))
    return with_followers(pipeline, made, [*planned, *replicate])


def _without_followers(
    pipeline: Pipeline,
    *,
    plan: Plan | None,
    cut: Iterable[str],
    shards: Iterable[str],
    batch: Iterable[str],
    snapshot: int | None,
) -> Deployment:
    from holdfast.pipeline import deploy
    from holdfast.pipeline.deploy import deploy_options
    from holdfast.plan import JointPlan

    cut, batch = list(cut), list(batch)
    counts = parse_shards(shards)
    if plan is not None and cut:
        raise BadInputError("--plan and --cut exclude each other")
    if isinstance(plan, JointPlan):
        if batch or snapshot is not None:
            raise BadInputError("a joint plan says the batch and snapshot intervals itself")
        return deploy(pipeline, shards=counts, **deploy_options(plan))
    cuts: Cuts = plan if plan is not None else "all" if cut == ["all"] else cut or "none"
    common, single = parse_batches(batch, pipeline.epoch_s)
    paced = dict(single)
    if common is not None:
        # A segment with a pace of its own keeps it; the common one would undercut it.
        for segment in deploy(pipeline, cuts=cuts, shards=counts).segments:
            if segment.kind != "exporter" and not set(segment.operators) & set(single):
                paced.update(dict.fromkeys(segment.operators, common))
    return deploy(
        pipeline,
        cuts=cuts,
        shards=counts,
        batch_epochs=paced,
        snapshot_batches=snapshot or DEFAULT_SNAPSHOT,
    )


def planned_order(
    pipeline: Pipeline, deployment: Deployment, how: Literal["inc", "topological"]
) -> tuple[str, ...]:
    """Units, the first to come back first; none where upstream first is asked for."""
    if how == "topological":
        return ()
    from holdfast.planners.ppa.returns import return_order

    units, names = planned_units(pipeline, deployment)
    return tuple(names[task] for task in return_order(units, how))


def planned_units(pipeline: Pipeline, deployment: Deployment) -> tuple[Topology, dict[str, str]]:
    """The units of a deployment as planners see them, and the unit of each of their tasks."""
    from holdfast.deployment import UnitId
    from holdfast.planners.ppa.units import unit_graph

    shards = {item.name: item.shards for item in deployment.segments if item.kind != "exporter"}
    ends = [item.name for item in deployment.segments if item.kind != "exporter"]
    units = unit_graph(pipeline.topology(shards=_sharded(pipeline, shards)), cuts=ends)
    names = {
        operator.task_name(shard): str(UnitId(segment=operator.name, shard=shard))
        for operator in units.operators
        for shard in range(operator.parallelism)
    }
    return units, names


def _sharded(pipeline: Pipeline, shards: Mapping[str, int]) -> dict[str, int]:
    """Those that may have several shards: the others have what they are fused with."""
    return {
        name: number
        for name, number in shards.items()
        if pipeline.operator(name).key or pipeline.operator(name).kind == "source"
    }


def require_apart(deployment: Deployment, *, nodes: int, domains: int) -> None:
    """Refuse followers that would have no place of their own."""
    hot = [segment.name for segment in deployment.segments if segment.followers]
    if hot and min(nodes, domains) < 2:
        raise BadInputError(
            f"the followers of {', '.join(hot)} need a node in another failure domain",
            where="--nodes" if nodes < 2 else "--domains",
            hint="write 2 or more",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where units run: as asked for, else as planned, else as is usual."""

    plan: Plan | None
    nodes: int
    spares: int

    def together(self, deployment: Deployment) -> tuple[tuple[str, ...], ...]:
        """Units that the plan puts on one node; none if it was made for another number of nodes."""
        from holdfast.plan import JointPlan

        plan = self.plan
        if not isinstance(plan, JointPlan) or len(plan.nodes) != self.nodes or self.nodes == 1:
            return ()
        home = {name: number for number, node in enumerate(plan.nodes) for name in node.segments}
        groups: dict[int, list[str]] = {}
        for segment in deployment.segments:
            # What only delivers goes with what it reads.
            name = (
                deployment.producer(segment.inputs[0]).name if not segment.outputs else segment.name
            )
            if name in home:
                units = groups.setdefault(home[name], [])
                units += [str(unit) for unit in deployment.units() if unit.segment == segment.name]
        return tuple(tuple(units) for units in groups.values())


def make_places(
    plan: Plan | None, *, nodes: int | None, spares: int | None, otherwise: int = 1
) -> Places:
    """Nodes besides spares, `otherwise` so many, and warm spares."""
    return Places(plan=plan, nodes=_nodes(plan, nodes, otherwise), spares=_spares(plan, spares))


def _spares(plan: Plan | None, spares: int | None) -> int:
    """Warm spares: as asked for, as planned, or one."""
    from holdfast.plan import JointPlan

    if spares is not None:
        return spares
    planned = plan.spares if isinstance(plan, JointPlan) else None
    return 1 if planned is None else planned


def _nodes(plan: Plan | None, nodes: int | None, otherwise: int) -> int:
    """Nodes besides spares: as asked for, as planned, or as many as are usual.

    Followers need a second one: a plan says what shares a node, and they share none.
    """
    from holdfast.plan import JointPlan, ReplicationPlan

    if nodes is not None:
        return nodes
    planned = len(plan.nodes) if isinstance(plan, JointPlan) else 0
    hot = isinstance(plan, JointPlan | ReplicationPlan) and plan.replicas
    return max(2 if hot else 1, planned or otherwise)


def parse_nodes(text: str | None) -> int | None:
    """How many nodes to plan for: one unless told otherwise; None: as many as it takes."""
    if text == "auto":
        return None
    if text is not None and (not text.isdecimal() or int(text) < 1):
        raise BadInputError(f"is {text!r}", where="--nodes", hint="write 1 or more, or auto")
    return 1 if text is None else int(text)


def parse_shards(items: Iterable[str]) -> dict[str, int]:
    """OPERATOR=N, repeated."""
    shards = {}
    for item in items:
        name, _, number = item.partition("=")
        if not name or not number.isdecimal():
            raise BadInputError(f"{item!r} is not OPERATOR=N", where="--shards")
        shards[name] = int(number)
    return shards


def parse_batches(items: Iterable[str], epoch_s: float) -> tuple[int | None, dict[str, int]]:
    """TIME or OPERATOR=TIME, repeated: epochs for all (None: not said) and by operator."""
    common: int | None = None
    single: dict[str, int] = {}
    for item in items:
        name, equals, text = item.rpartition("=")
        where = f"--batch {item}"
        seconds = parse_time(text, where=where)
        epochs = round(seconds / epoch_s)
        if epochs < 1 or abs(epochs * epoch_s - seconds) > 1e-6 * epoch_s:
            raise BadInputError(
                f"is not a whole number of epochs of {epoch_s:g} s",
                where=where,
                hint=f"such as {max(1, epochs) * epoch_s:g}s",
            )
        if not equals:
            common = epochs
        elif name:
            single[name] = epochs
        else:
            raise BadInputError("names no operator", where=where, hint="OPERATOR=TIME")
    return common, single
