"""`holdfast verify`: are the results of a run right?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.errors import BadInputError

if TYPE_CHECKING:
    from holdfast.verify.check import Verdict


def verify(
    run: Annotated[
        Path | None, typer.Argument(help="A run directory whose input was kept.")
    ] = None,
    run_dir: Annotated[
        Path | None, typer.Option("--run-dir", "-d", help="The same as an option.")
    ] = None,
    app: Annotated[str, typer.Option(help="The application, if the run does not say.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare the results of a run with an independent computation over its kept input.

    Exit code 1 when a row is missing, doubled or altered.
    """
    from holdfast.cli.runs import find_run
    from holdfast.pipeline import load_pipeline
    from holdfast.pipeline.claims import claims
    from holdfast.verify.check import verify as check

    if run is None or run_dir is not None:
        run = find_run(run, run_dir, live=False)
    if not run.is_dir():
        raise BadInputError("is not a run directory", where=str(run))
    verdict = check(run, claims(load_pipeline(app or _app_of(run))))
    if as_json:
        typer.echo(json.dumps(verdict.to_json()))
    else:
        show_verdict(verdict)
    if not verdict.ok:
        raise typer.Exit(1)


def show_verdict(verdict: Verdict) -> None:
    """One line per source and sink, and one for all of them."""
    for finding in verdict.findings:
        mark = "ok" if finding.ok else "WRONG"
        line = f"{mark:5}  {finding.kind} {finding.name}: {finding.difference}"
        typer.echo(f"{line}; {finding.note}" if finding.note else line)
        for example in finding.difference.examples:
            typer.echo(f"         {example}")
    if verdict.ok:
        typer.echo(f"{verdict.pipeline}: right, {verdict.compared} rows compared")
    else:
        typer.echo(f"{verdict.pipeline}: not proved right")


def _app_of(run: Path) -> str:
    from holdfast.rundir.contents import spec_path

    path = spec_path(run)
    try:
        app = json.loads(path.read_text(encoding="utf-8")).get("app")
    except FileNotFoundError:
        raise BadInputError("is not a run directory", where=str(run)) from None
    except (OSError, ValueError) as error:
        raise BadInputError(
            "does not say which application it ran", where=str(run), hint="give --app"
        ) from error
    if not app:
        raise BadInputError("names no application", where=str(path), hint="give --app")
    return str(app)
