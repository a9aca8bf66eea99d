"""`holdfast prove`: break a planned pipeline on purpose and hold it to what the plan promised."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.deployment import (
    absolute_app,
    make_deployment,
    make_places,
    planned_order,
    require_apart,
)
from holdfast.cli.tentative import NEVER, tentative
from holdfast.errors import BadInputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from holdfast.pipeline import Pipeline
    from holdfast.plan import Plan
    from holdfast.prove.judge import Comparison, Recovered
    from holdfast.prove.result import Audience, Proof, Struck
    from holdfast.prove.run import Proving
    from holdfast.topology.graph import Topology

_WIDTH = 56
"""Columns of a plot in the terminal."""


def prove(
    app: Annotated[str, typer.Argument(help="Application: FILE.py, FILE.py:NAME or MODULE:NAME.")],
    plan: Annotated[Path, typer.Option("--plan", "-p", help="Plan as JSON, as `plan` writes it.")],
    faults: Annotated[int, typer.Option("--faults", "-f", min=1, help="Faults to inject.")] = 20,
    max_recovery: Annotated[
        str | None, typer.Option(help="Bound, if the plan has none; default: its predicted p95.")
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option("--nodes", "-n", min=1, help="Node processes; default: the plan's, or 2."),
    ] = None,
    spares: Annotated[
        int | None,
        typer.Option("--spares", "-s", min=0, help="Warm spare nodes; default: the plan's, or 1."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of when faults strike.")] = 0,
    tentative_after: Annotated[
        str | None,
        typer.Option(
            help="Let results go on without an input that is gone for so long, and measure them; "
            "as for run, but by default never."
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML page with plots.")] = None,
    run_dir: Annotated[
        Path | None, typer.Option("--run-dir", "-d", help="A new one; default: a temporary one.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run a plan, kill nodes, and compare each recovery with the prediction.

    Faults are spread over all units and over the phases of a batch, one at a time. Exit code 1 when
    the bound was broken more often than planned (one in twenty, beyond bad luck) or a row was lost.
    """
    import tempfile

    from rich.console import Console

    from holdfast.cli.check import note, sound_pipeline
    from holdfast.plan.document import load_plan
    from holdfast.prove.run import prove as run_proof

    app = absolute_app(app)
    planned = load_plan(plan)
    pipeline = sound_pipeline(app, note)
    proving = made_proving(
        app,
        pipeline,
        planned,
        faults=faults,
        nodes=nodes,
        spares=spares,
        seed=seed,
        max_recovery=max_recovery,
        tentative_after=tentative_after,
    )
    where = run_dir or Path(tempfile.mkdtemp(prefix=f"holdfast-prove-{pipeline.name}-"))
    check_new(where)
    if report is not None and not report.parent.is_dir():
        raise BadInputError("no such directory", where=str(report.parent))
    with interruptible():
        proof = run_proof(proving, where, _audience(Console(stderr=True, highlight=False)))
    topology = pipeline.topology()
    if report is not None:
        write_report(proof, topology, report, command=_command(proving.app, plan, proof))
    if as_json:
        typer.echo(json.dumps(proof.to_json()))
    else:
        console = Console(highlight=False)
        show_proof(console, proof)
        if report is not None:
            console.print(f"report: {report}", soft_wrap=True)
        console.print(f"run directory: {proof.run_dir}", soft_wrap=True)
    if not proof.ok:
        raise typer.Exit(1)


def made_proving(
    app: str,
    pipeline: Pipeline,
    plan: Plan,
    *,
    faults: int,
    nodes: int | None,
    spares: int | None,
    seed: int,
    max_recovery: str | None = None,
    tentative_after: str | None = None,
) -> Proving:
    """What is to be proved, with the plan's own nodes and spares where none are asked for."""
    from holdfast.prove.run import Proving
    from holdfast.quantities import parse_time

    deployment = make_deployment(pipeline, plan=plan)
    places = make_places(plan, nodes=nodes, spares=spares, otherwise=2)
    proving = Proving(
        app=app,
        pipeline=pipeline,
        deployment=deployment,
        plan=plan,
        faults=faults,
        nodes=places.nodes,
        together=places.together(deployment),
        spares=places.spares,
        seed=seed,
        max_recovery=None
        if max_recovery is None
        else parse_time(max_recovery, where="--max-recovery"),
        tentative=tentative(tentative_after or NEVER, pipeline, deployment, plan),
        recovery_order=planned_order(pipeline, deployment, "inc"),
    )
    require_apart(deployment, nodes=places.nodes, domains=proving.domains)
    return proving


def check_new(run_dir: Path) -> None:
    """A proof begins from nothing."""
    if run_dir.exists() and (not run_dir.is_dir() or any(run_dir.iterdir())):
        raise BadInputError("is not empty", where=str(run_dir), hint="name a new run directory")


def write_report(
    proof: Proof, topology: Topology, path: Path, *, command: Sequence[str] = ()
) -> None:
    """The HTML page of a proof."""
    from holdfast.prove.report import report_html

    try:
        path.write_text(report_html(proof, topology, command=command), encoding="utf-8")
    except OSError as error:
        raise BadInputError(
            f"cannot be written: {error.strerror}", where=f"--report {path}"
        ) from None


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C and a polite kill both end a proof early, with what it has measured."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    # A shell that started this in the background may have set Ctrl-C to be ignored.
    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _command(app: str, plan: Path, proof: Proof) -> list[str]:
    return [
        *("holdfast", "prove", app, "--plan", str(plan.resolve())),
        *("--faults", str(proof.asked), "--nodes", str(proof.nodes)),
        *("--spares", str(proof.spares), "--seed", str(proof.seed)),
    ]


# -- while it runs --------------------------------------------------------------------------------


def _audience(console: Console) -> Audience:
    """Progress on stderr: a line that changes on a terminal, plain lines elsewhere."""
    from holdfast.prove.result import Audience

    class Progress(Audience):
        def say(self, line: str) -> None:
            console.print(f"[dim]{line}[/]")

        def recovered(self, fault: Struck, recoveries: Sequence[Recovered]) -> None:
            console.print(
                f"fault {fault.number + 1}: killed {fault.node}; {recovery_words(recoveries)}"
            )

    return Progress()


def recovery_words(recoveries: Sequence[Recovered]) -> str:
    """Each unit and how long it took."""
    return ", ".join(
        f"{item.unit} " + ("not recovered" if item.seconds is None else f"{item.seconds:.2f} s")
        for item in recoveries
    )


# -- afterwards -----------------------------------------------------------------------------------


def show_proof(console: Console, proof: Proof) -> None:
    """Predicted against measured, as a table and a plot, and the verdict."""
    from holdfast.prove.judge import as_planned
    from holdfast.prove.report import bound_rule
    from holdfast.prove.tentative import words as fork_words

    if proof.note:
        console.print(f"[{'red' if proof.gave_way else 'yellow'}]{proof.note}[/]")
    console.print()
    console.print(recovery_table(proof))
    console.print()
    console.print(phases_table(proof))
    for line in plot_lines(proof.comparisons):
        console.print(line)
    console.print()
    measured = len(proof.recoveries)
    kept = "[green]kept[/]" if as_planned(proof.comparisons) else "[yellow]not refuted[/]"
    if not proof.kept:
        kept = "[red]broken[/]"
    console.print(f"bound {kept}: {measured - proof.broken} of {measured} recoveries within it")
    console.print(f"[dim]{bound_rule(proof.comparisons)}[/]")
    if proof.failovers is not None:
        console.print(proof.failovers.words())
    if proof.forks:
        console.print(fork_words(proof.forks))
    if proof.verdict is None:
        console.print("results [yellow]not checked[/]: the pipeline has no expected computation")
    elif proof.verdict.ok:
        console.print(f"results [green]exact[/]: {proof.verdict.compared:,} rows, each once")
    else:
        console.print("results [red]wrong[/]")
        for finding in proof.verdict.findings:
            if not finding.ok or finding.note:
                said = f"{finding.difference}; {finding.note}" if finding.note else ""
                console.print(f"  {finding.kind} {finding.name}: {said or finding.difference}")
    if proof.stop.left:
        console.print(f"[red]processes left behind: {proof.stop.left}[/]")


def recovery_table(proof: Proof) -> Table:
    """One line per operator."""
    table = _table("operator", "predicted", "p95", "measured", "p95", "n", "error", "kept", "bound")
    for item in (*proof.comparisons, proof.results):
        n = len(item.recoveries)
        for operator in item.promise.operators:
            table.add_row(
                operator,
                seconds(item.promise.median),
                seconds(item.promise.p95),
                f"[bold]{seconds(item.median)}[/]",
                seconds(item.p95),
                str(n),
                "-" if item.error is None else f"{item.error:+.0%}",
                f"{n - item.broken} of {n}",
                seconds(item.promise.bound),
            )
    return table


def phases_table(proof: Proof) -> Table:
    """What recoveries were spent on, predicted and measured, one line per segment."""
    from holdfast.prove.judge import PHASE_NAMES, PHASES

    table = _table("segment", "", *PHASE_NAMES.values(), "total")

    def row(name: str, said: str, phases: Mapping[str, float]) -> None:
        times = [phases[phase] for phase in PHASES]
        table.add_row(name, said, *map(seconds, times), seconds(sum(times)))

    for item in proof.comparisons:
        if item.phases is None:
            continue
        if item.promise.phases is not None:
            row(item.promise.segment, "predicted", item.promise.phases)
        name = item.promise.segment if item.promise.phases is None else ""
        row(name, "measured", item.phases)
    return table


def plot_lines(comparisons: Sequence[Comparison], width: int = _WIDTH) -> list[str]:
    """Recoveries on a line per segment, with what was promised."""
    drawn = [item for item in comparisons if item.seconds]
    if not drawn:
        return []
    numbers = [value for item in drawn for value in (*item.seconds, item.promise.bound)]
    numbers += [item.promise.p95 for item in drawn if item.promise.p95 is not None]
    longest = max(numbers) * 1.04
    name = max(len(item.promise.segment) for item in drawn)
    lines = ["", f"{'':{name}}  0 s{f'{longest:.1f} s':>{width - 3}}"]
    for item in drawn:
        cells = ["·"] * width

        def put(value: float | None, mark: str, cells: list[str] = cells) -> None:
            if value is not None:
                cells[min(width - 1, int(value / longest * width))] = mark

        put(item.promise.median, "[yellow]│[/]")
        put(item.promise.p95, "[yellow]│[/]")
        put(item.promise.bound, "[red]┃[/]")
        for value in item.seconds:
            put(value, "[cyan]●[/]")
        put(item.median, "[bold]◆[/]")
        lines.append(f"{item.promise.segment:{name}}  {''.join(cells)}")
    lines.append(
        f"{'':{name}}  [dim][cyan]●[/] recovery  ◆ median  [yellow]│[/] predicted median and p95  "
        "[red]┃[/] bound[/]"
    )
    return lines


def seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for index, column in enumerate(columns):
        right = index > 0 and column != ""
        table.add_column(column, justify="right" if right else "left", no_wrap=True)
    return table
