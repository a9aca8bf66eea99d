"""`holdfast reproduce`: the papers' figures made again, beside the papers' own numbers."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.errors import BadInputError, CheckFailedError

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.clock import Clock
    from holdfast.reproduce import Effort, Figure, Reproduction
    from holdfast.testing.adaptations import Adapted
    from holdfast.testing.trials import Measured, Trial
    from holdfast.topology.graph import Topology

_OUT = Path("out/reproduce")


def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(
            autocompletion=lambda: ["ftc", "fastrecover", "ppa", "pathfinder", "spate"],
            help="ftc, fastrecover, ppa, pathfinder or spate.",
            show_default=False,
        ),
    ] = None,
    figure: Annotated[
        str | None,
        typer.Argument(help="A figure or table: 3, 4.1, III. Left out: all of the paper."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List what can be made.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Make all that are not measured on Spark.")
    ] = False,
    full: Annotated[
        bool,
        typer.Option("--full", help="As many topologies as the paper; minutes to hours."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for pages, plots and numbers.", show_default=str(_OUT)),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object; write files only with --out.")
    ] = False,
) -> None:
    """Make figures and tables of the papers again.

    Some run pipelines on Spark and break them, which takes minutes each: made when they are named.
    """
    from holdfast.reproduce import FIGURES, Effort, find

    if list_:
        _list(as_json)
        return
    if paper is None and not everything:
        raise BadInputError(
            "says neither which paper nor --all", where="reproduce", hint="see --list"
        )
    if paper is not None and everything:
        raise BadInputError("goes without a paper", where="--all", hint="leave one of them out")
    chosen = FIGURES if paper is None else find(paper, figure)
    left: tuple[Figure, ...] = ()
    if figure is None:
        left = tuple(item for item in chosen if item.measured)
        chosen = tuple(item for item in chosen if not item.measured)
    if not chosen:
        raise BadInputError(
            "has only figures that are measured on Spark, minutes each",
            where=f"reproduce {paper}",
            hint=f"name one: {', '.join(item.figure for item in left)}",
        )
    folder = out if out is not None or as_json else _OUT
    effort = Effort(
        full=full, clock=_cpu_clock(), topology=_shipped, lab=_lab, paths_lab=_paths_lab
    )
    made = _make(chosen, effort, folder, quiet=as_json)
    if as_json:
        typer.echo(json.dumps({"figures": [item.to_json() for item in made]}))
    elif folder is not None and len(made) > 1:
        typer.echo(f"all of them: {folder / 'index.md'}")
    if left:
        typer.echo(_left_out(left), err=as_json)


def _make(
    chosen: tuple[Figure, ...], effort: Effort, folder: Path | None, *, quiet: bool
) -> list[Reproduction]:
    """One after the other, each written and shown as soon as it is there."""
    from rich.console import Console

    from holdfast.reproduce.model import said
    from holdfast.reproduce.page import index

    console = Console(highlight=False)
    if folder is not None:
        _make_folder(folder)
    made = []
    for item in chosen:
        # Minutes, for some of them: whoever waits is told for what.
        typer.echo(f"making {item.paper} {said(item.figure)}: {item.title}", err=True)
        made.append(item.make(effort))
        files = [] if folder is None else _write(made[-1], folder)
        if not quiet:
            _show(made[-1], console)
            typer.echo(f"written: {', '.join(map(str, files))}\n")
    if folder is not None and len(made) > 1:
        (folder / "index.md").write_text(index(made), encoding="utf-8")
    return made


def _left_out(left: tuple[Figure, ...]) -> str:
    """What was not made, and how to have it made."""
    named = ", ".join(f"{item.paper} {item.figure}" for item in left)
    return f"not made, because measured on Spark, minutes each: {named}; name one to make it"


def _list(as_json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from holdfast.reproduce import FIGURES, PAPERS

    if as_json:
        rows = [
            {"paper": f.paper, "figure": f.figure, "title": f.title, "measured": f.measured}
            for f in FIGURES
        ]
        typer.echo(json.dumps({"figures": rows}))
        return
    console = Console(highlight=False)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("paper", "figure", ""):
        table.add_column(name)
    for item in FIGURES:
        table.add_row(item.paper, item.figure, f"{item.title}{' (Spark)' if item.measured else ''}")
    console.print(table)
    console.print()
    for key in dict.fromkeys(item.paper for item in FIGURES):
        paper = PAPERS[key]
        line = f"{key}: {paper.authors}, {paper.title}, {paper.where}, {paper.year}"
        console.print(line, soft_wrap=True)


def _show(made: Reproduction, console: Console) -> None:
    from rich.table import Table

    from holdfast.reproduce.model import said
    from holdfast.reproduce.page import shown

    console.print(f"[bold]{made.paper} {said(made.figure)}[/]: {made.title}", soft_wrap=True)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in made.columns:
        table.add_column(name, overflow="fold")
    for row in made.rows:
        table.add_row(*map(shown, row))
    console.print(table)
    colors = {"holds": "green", "partly": "yellow", "differs": "red", "not comparable": "dim"}
    for claim in made.claims:
        verdict = f"[{colors[claim.verdict]}]{claim.verdict}[/]"
        console.print(f"- {verdict}: the paper: {claim.paper} ({claim.source})", soft_wrap=True)
        console.print(f"  here: {claim.ours}", soft_wrap=True, markup=False)
        if claim.why:
            console.print(f"  why: {claim.why}", soft_wrap=True, markup=False)
    if made.assumed:
        console.print(f"assumed: {'; '.join(made.assumed)}", soft_wrap=True, markup=False)


def _make_folder(folder: Path) -> None:
    """Making a figure takes long: that it cannot be kept is said before."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        refused = "" if os.access(folder, os.W_OK) else "Permission denied"
    except OSError as error:
        refused = error.strerror or type(error).__name__
    if refused:
        raise BadInputError(f"cannot be written: {refused}", where=f"--out {folder}")


def _write(made: Reproduction, folder: Path) -> list[Path]:
    """The page, its pictures and its numbers."""
    from importlib.util import find_spec

    from holdfast.reproduce.page import markdown
    from holdfast.reproduce.plots import draw

    page, numbers = folder / f"{made.name}.md", folder / f"{made.name}.json"
    pictures: list[Path] = []
    try:
        for k, (_, svg) in enumerate(made.drawings):
            pictures.append(folder / f"{made.name}-{k + 1}.svg")
            pictures[-1].write_text(svg, encoding="utf-8")
        if made.panels and find_spec("matplotlib") is None:
            typer.echo("no plot: matplotlib is not installed", err=True)
        elif made.panels:
            pictures.append(folder / f"{made.name}.svg")
            draw(made, pictures[-1])
        page.write_text(markdown(made, [p.name for p in pictures]), encoding="utf-8")
        numbers.write_text(json.dumps(made.to_json(), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise BadInputError(
            f"cannot be written: {error.strerror}", where=f"--out {folder}"
        ) from None
    return [page, *pictures, numbers]


def _paths_lab(kinds: Sequence[str]) -> tuple[Adapted, ...]:
    """Break a path of the shipped example on this machine, by each kind of fault in turn."""
    import tempfile

    from holdfast.cli.shipped import shipped
    from holdfast.runtime.spark.start.prepare import prepare
    from holdfast.testing.path_trials import adapt

    prepare(lambda line: typer.echo(line, err=True))
    with tempfile.TemporaryDirectory(prefix="holdfast-paths-") as folder:
        found, exact = adapt(shipped("locations.py"), kinds, Path(folder) / "run")
    if not exact:
        raise CheckFailedError("rows were lost or doubled")
    return tuple(found)


def _lab(trial: Trial) -> Measured:
    """Run a trial on this machine, in a folder that goes with it."""
    import tempfile

    from holdfast.runtime.spark.start.prepare import prepare
    from holdfast.testing.trial_runs import run_trial

    prepare(lambda line: typer.echo(line, err=True))
    hot = f", followers of {', '.join(trial.replicate)}" if trial.replicate else ""
    killed = "; ".join("+".join(one) for one in trial.kills) or "nothing"
    typer.echo(f"running {', '.join(trial.watched)}{hot}; killing {killed}", err=True)
    with tempfile.TemporaryDirectory(prefix="holdfast-trial-") as folder:
        return run_trial(trial, Path(folder))


def _cpu_clock() -> Clock:
    """Planning times are this process' own, whatever else the machine does."""
    import time

    from holdfast.clock import SystemClock

    class CpuClock(SystemClock):
        def now(self) -> float:
            return time.process_time()

    return CpuClock()


def _shipped(name: str) -> Topology:
    from holdfast.cli.shipped import shipped
    from holdfast.topology.files import load_topology

    return load_topology(shipped(f"topologies/{name}.yaml"))
