"""`holdfast chaos`: break a pipeline on purpose, and judge its results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.deployment import (
    Batch,
    Cut,
    Replicate,
    Shards,
    absolute_app,
    make_deployment,
    require_apart,
)
from holdfast.cli.tentative import After, tentative
from holdfast.cli.verify import show_verdict
from holdfast.errors import BadInputError

if TYPE_CHECKING:
    from holdfast.faults.campaign import Outcome
    from holdfast.faults.schedule import Schedule


def chaos(
    app: Annotated[str, typer.Argument(help="A .py file or module:attribute.")],
    schedule: Annotated[Path | None, typer.Option(help="A file of faults (YAML or JSON).")] = None,
    seed: Annotated[int | None, typer.Option(help="Draw the faults from this seed.")] = None,
    faults: Annotated[int, typer.Option(help="How many faults to draw.")] = 4,
    kinds: Annotated[
        str,
        typer.Option(
            help="Kinds to draw from, by comma; default: "
            "kill,suspend,domain,coordinator,disk,tear. "
            "There are also correlated (several nodes at once), coordinator-hang, tear-slice, "
            "lose-slice and, of paths, mem, slp, thr, err."
        ),
    ] = "",
    nodes: Annotated[int, typer.Option("--nodes", "-n", min=1, help="Node processes.")] = 2,
    spares: Annotated[int, typer.Option("--spares", "-s", min=0, help="Warm spare nodes.")] = 1,
    coordinators: Annotated[int, typer.Option(min=1, help="Coordinators; one leads.")] = 1,
    cut: Cut = None,
    shards: Shards = None,
    batch: Batch = None,
    replicate: Replicate = None,
    ack_levels: Annotated[
        int, typer.Option(min=1, help="As of `run`: what is kept so that lost slices can be made.")
    ] = 1,
    tentative_after: After = None,
    trim: Annotated[
        bool,
        typer.Option("--trim", help="Trim the input as a real run does; check against a copy."),
    ] = False,
    run_dir: Annotated[
        Path | None, typer.Option("--run-dir", "-d", help="A new one; default: a temporary one.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run a pipeline, break it by a schedule, and verify that its results are right all the same.

    Exit code 1 when a result is wrong or the run did not heal.
    """
    import tempfile

    from holdfast.cli.check import note, sound_pipeline
    from holdfast.errors import CheckFailedError
    from holdfast.faults.campaign import Campaign, run_campaign
    from holdfast.runtime.launch.run import DeadlineError

    plan = _schedule(schedule, seed, faults, kinds)
    pipeline = sound_pipeline(app, note)
    deployment = make_deployment(
        pipeline,
        cut=cut or (),
        shards=shards or (),
        batch=batch or (),
        replicate=replicate or (),
    )
    campaign = Campaign(
        app=absolute_app(app),
        pipeline=pipeline,
        deployment=deployment,
        schedule=plan,
        nodes=nodes,
        spares=spares,
        coordinators=coordinators,
        ack_levels=ack_levels,
        tentative=tentative(tentative_after, pipeline, deployment, None),
        trim=trim,
    )
    require_apart(deployment, nodes=nodes, domains=campaign.domains)
    where = run_dir or Path(tempfile.mkdtemp(prefix=f"holdfast-chaos-{pipeline.name}-"))
    if where.exists() and any(where.iterdir()):
        raise BadInputError("is not empty", where=str(where), hint="name a new run directory")
    try:
        outcome = run_campaign(campaign, where, report=lambda line: typer.echo(line, err=True))
    except DeadlineError as error:
        raise CheckFailedError(f"{where}: {error}") from error
    _finish(outcome, as_json=as_json)


def _schedule(path: Path | None, seed: int | None, faults: int, kinds: str) -> Schedule:
    from holdfast.faults.schedule import DRAWN, draw_schedule, read_schedule

    if (path is None) == (seed is None):
        raise BadInputError("needs either --schedule or --seed", where="chaos")
    if path is not None:
        return read_schedule(path)
    # Any words are taken here; the schedule refuses what it does not know.
    chosen = tuple(kinds.split(",")) if kinds else DRAWN
    return draw_schedule(seed or 0, faults=faults, kinds=chosen)  # type: ignore[arg-type]


def _finish(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(outcome.to_json()))
    else:
        for recovery in outcome.recoveries:
            total, outcome_word = recovery.total_s, recovery.outcome
            took = f"{total:.2f} s" if total is not None else f"not caught up: {outcome_word}"
            typer.echo(f"recovered {recovery.unit} ({recovery.reason}): {took}")
        if outcome.stop.left:
            typer.echo(f"processes left behind: {outcome.stop.left}")
        for name, floor in outcome.trimmed.items():
            typer.echo(f"trimmed {name} up to slice {floor}")
        show_verdict(outcome.verdict)
        typer.echo(f"run directory: {outcome.run_dir}")
    if not outcome.ok:
        raise typer.Exit(1)
