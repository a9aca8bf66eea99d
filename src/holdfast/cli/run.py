"""`holdfast run`: a pipeline on this machine, as a plan or options say."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from holdfast.cli import tentative as tentative_results
from holdfast.cli.autoscale import PolicyName, autoscaled
from holdfast.cli.breakers import Breaker, own_nodes, with_paths
from holdfast.cli.deployment import (
    Batch,
    Cut,
    Replicate,
    Shards,
    Snapshot,
    absolute_app,
    make_deployment,
    make_places,
    planned_order,
    require_apart,
)
from holdfast.cli.runs import Json
from holdfast.cli.watch import finish, interruptible, stop, watch

if TYPE_CHECKING:
    from holdfast.control.status import RunView
    from holdfast.deployment import Deployment
    from holdfast.health.policy import Policy


def run(
    app: Annotated[str, typer.Argument(help="Application: FILE.py, FILE.py:NAME or MODULE:NAME.")],
    plan: Annotated[
        Path | None, typer.Option("--plan", "-p", help="Plan as JSON: where to cut.")
    ] = None,
    replan: Annotated[
        bool, typer.Option("--replan", help="Resume with the plan made again from what was seen.")
    ] = False,
    cut: Cut = None,
    shards: Shards = None,
    batch: Batch = None,
    snapshot: Snapshot = None,
    replicate: Replicate = None,
    nodes: Annotated[
        int | None,
        typer.Option("--nodes", "-n", min=1, help="Node processes; default: the plan's, or 1."),
    ] = None,
    spares: Annotated[
        int | None,
        typer.Option("--spares", "-s", min=0, help="Warm spare nodes; default: the plan's, or 1."),
    ] = None,
    coordinators: Annotated[
        int, typer.Option(min=1, help="Coordinators: one leads, the others take over if it fails.")
    ] = 1,
    domains: Annotated[int, typer.Option(min=1, help="Failure domains nodes are dealt to.")] = 2,
    max_units: Annotated[
        int, typer.Option("--max-units-per-node", min=1, help="Maximum units per node.")
    ] = 16,
    breaker: Breaker = None,
    recovery_order: Annotated[
        Literal["inc", "topological"],
        typer.Option(help="Who comes back first when places are too few for all that failed."),
    ] = "inc",
    tentative_after: tentative_results.After = None,
    duration: Annotated[
        str | None,
        typer.Option("--for", help="Stop when everything has run for this long, such as 60s."),
    ] = None,
    run_dir: Annotated[
        Path | None, typer.Option("--run-dir", "-d", help="Default: runs/PIPELINE.")
    ] = None,
    reset: Annotated[
        list[str] | None, typer.Option("--reset", help="Operator whose state is dropped.")
    ] = None,
    begin: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            help="Where reset operators and added sinks begin: EPOCH, now or earliest, or "
            "OPERATOR=... for one; default: 0.",
        ),
    ] = None,
    recut: Annotated[bool, typer.Option(help="Let other cuts take a run over.")] = True,
    keep_input: Annotated[
        bool, typer.Option("--keep-input", help="Never trim sources, so that verify can check.")
    ] = False,
    ack_levels: Annotated[
        int,
        typer.Option(
            min=1,
            help="Boundaries further down at which results must be durable before input is "
            "trimmed: slices lost on up to N-1 boundaries in a row are made again.",
        ),
    ] = 1,
    autoscale: Annotated[
        int | None,
        typer.Option(min=1, help="Rescale by load, up to so many shards of scalable operators."),
    ] = None,
    autoscale_policy: Annotated[
        PolicyName,
        typer.Option(
            help="predict: the smallest shape that will hold what arrives and waits; threshold: "
            "one shard more (less) after two reports in a row of CPU above 80% (below 30%)."
        ),
    ] = "predict",
    memory_mb: Annotated[
        int, typer.Option(min=480, help="Java heap of a node, MB; Spark needs 480.")
    ] = 512,
    host: Annotated[str, typer.Option(help="What runs units.", hidden=True)] = "spark",
    as_json: Json = False,
) -> None:
    """Run a pipeline on this machine and keep it running."""
    from holdfast.cli.check import made_pipeline, note, sound_pipeline
    from holdfast.cli.growth import say_growth
    from holdfast.cli.learning import keep_plan, promised_by, replan_run
    from holdfast.cli.resume import (
        Starts,
        announced,
        check_resume,
        require_unchanged,
        reset_operators,
    )
    from holdfast.plan.document import load_plan
    from holdfast.quantities import parse_time
    from holdfast.rundir.spec import RunSpec
    from holdfast.runtime.launch.local import LaunchSettings
    from holdfast.runtime.launch.run import LocalRun
    from holdfast.runtime.node.hosts import host_target
    from holdfast.runtime.units.places import check_sinks

    limit_s = None if duration is None else parse_time(duration, where="--for")
    host_target(host, where="--host")
    options: dict[str, Any] = {}
    if host == "spark":
        options = {"memory_mb": memory_mb, "keep_input": keep_input, "ack_levels": ack_levels}
    app = absolute_app(app)
    planned = None if plan is None else load_plan(plan)
    pipeline = made_pipeline(app, note)
    if replan:
        planned = replan_run(app, pipeline, run_dir or Path("runs") / pipeline.name, plan, note)
    deployment = make_deployment(
        pipeline,
        plan=planned,
        cut=cut or (),
        shards=shards or (),
        batch=batch or (),
        snapshot=snapshot,
        replicate=replicate or (),
    )
    if grows := say_growth(planned):
        note(grows)
    places = make_places(planned, nodes=nodes, spares=spares)
    require_apart(deployment, nodes=places.nodes, domains=domains)

    def spec_of(deployment: Deployment) -> RunSpec:
        together = places.together(deployment)
        order = planned_order(pipeline, deployment, recovery_order)
        policy = replace(
            _policy(deployment, places.nodes, max_units, together, order),
            tentative=tentative_results.tentative(tentative_after, pipeline, deployment, planned),
        )
        policy = with_paths(policy, deployment, breaker or ())
        return RunSpec(app=app, host=host, deployment=deployment, policy=policy, options=options)

    spec = spec_of(deployment)
    directory = run_dir or Path("runs") / spec.deployment.pipeline
    operators = pipeline.operators if recut else ()
    resumed = check_resume(directory, spec, reset or [], Starts.parse(begin or []), operators)
    spec = spec_of(resumed.spec.deployment) if resumed else spec
    fresh = resumed.fresh if resumed else {}
    check_sinks(pipeline, directory, fresh)
    if host == "spark":
        sound_pipeline(app, note, made=pipeline)
    launch = LaunchSettings(
        nodes=places.nodes + own_nodes(deployment),
        spares=places.spares,
        domains=domains,
        coordinators=coordinators,
    )
    local = LocalRun(directory, spec, launch)
    if resumed and (fresh or resumed.recut):
        resumed = reset_operators(directory, resumed)
        local = LocalRun(directory, spec_of(resumed.spec.deployment), launch)
        note(announced(resumed))
    tentative_results.tell_default(tentative_after, spec.policy.tentative, note)
    note(f"{'resuming' if resumed else 'starting'} in {directory}; Ctrl-C stops")
    if host == "spark":
        from holdfast.runtime.spark.start.prepare import prepare

        prepare(note)
    promised = promised_by(app, pipeline, planned)
    view: RunView | None = None
    with interruptible():
        try:
            local.start(lambda: require_unchanged(directory, local.spec.deployment))
            keep_plan(directory, planned)
            with autoscaled(local, autoscale, autoscale_policy, note):
                view = watch(local, limit_s, quiet=as_json, promised=promised)
        except KeyboardInterrupt:
            note("stopping")
        finally:
            with contextlib.suppress(Exception):
                view = local.status()
            report = stop(local)
    finish(directory, view, report, as_json=as_json)


def _policy(
    deployment: Deployment,
    nodes: int,
    max_units: int,
    together: tuple[tuple[str, ...], ...],
    order: tuple[str, ...],
) -> Policy:
    from holdfast.errors import BadInputError
    from holdfast.health.policy import Policy

    most = max([len(group) for group in together], default=0)
    units = len(deployment.replicas()) - own_nodes(deployment)
    if units > nodes * max_units or most > max_units:
        raise BadInputError(
            f"{units} units do not fit on {nodes} nodes of {max_units} each",
            hint="more --nodes, or a larger --max-units-per-node",
        )
    return Policy(
        workers=nodes, max_units_per_node=max_units, together=together, recovery_order=order
    )
