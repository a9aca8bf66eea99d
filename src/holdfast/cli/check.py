"""`holdfast check`: all mistakes of an application at once; and the same check before a start."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.errors import BadInputsError

if TYPE_CHECKING:
    from holdfast.pipeline import Pipeline


def check(
    app: Annotated[str, typer.Argument(help="Application: FILE.py, FILE.py:NAME or MODULE:NAME.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say everything that is wrong with a pipeline, a line each, without running it.

    Exit code 2 when something is. `run`, `profile`, `chaos` and `prove` begin with the same check.
    """
    from holdfast.rundir.application import absolute_app
    from holdfast.runtime.checking import check_app

    found = check_app(absolute_app(app), say=_quiet, again=True)
    if as_json:
        problems = [
            {"what": one.what, "where": one.where, "hint": one.hint} for one in found.problems
        ]
        answer = {"ok": not problems, "problems": problems, "warnings": list(found.warnings)}
        typer.echo(json.dumps({**answer, "columns_checked": found.on_spark}))
        if problems:
            raise typer.Exit(2)
        return
    for warning in found.warnings:
        typer.echo(f"note: {warning}")
    if not found.on_spark:
        typer.echo("note: columns were not looked at: pip install 'holdfast[spark]'")
    if found.problems:
        raise BadInputsError(found.problems)
    if found.pipeline is not None:
        names = [operator.name for operator in found.pipeline.operators]
        typer.echo(f"{found.pipeline.name}: nothing is wrong with {', '.join(names)}")


def is_app_name(file: str) -> bool:
    """Whether it names a pipeline: a Python file, or module:attribute that is no file."""
    target, colon, _ = file.partition(":")
    return target.endswith(".py") or (bool(colon) and not Path(file).exists())


def inspected(app: str) -> Pipeline:
    """A pipeline whose structure is sound; Spark is not asked."""
    from holdfast.pipeline import inspect_pipeline

    pipeline, problems = inspect_pipeline(app)
    if pipeline is None or problems:
        raise BadInputsError(problems)
    return pipeline


def made_pipeline(app: str, say: Callable[[str], None]) -> Pipeline:
    """The pipeline as its author has made it; if a rule is broken, everything that is wrong."""
    from holdfast.pipeline import inspect_pipeline

    pipeline, problems = inspect_pipeline(app)
    if pipeline is None or problems:
        return sound_pipeline(app, say)
    return pipeline


def sound_pipeline(
    app: str, say: Callable[[str], None], *, made: Pipeline | None = None
) -> Pipeline:
    """The pipeline of an application, or everything that is wrong with it (exit code 2)."""
    from holdfast.errors import BadInputError, CheckFailedError
    from holdfast.pipeline import load_pipeline
    from holdfast.rundir.application import absolute_app
    from holdfast.runtime.checking import check_app

    try:
        found = check_app(absolute_app(app), say=say, made=made)
    except CheckFailedError as error:
        # Nodes look at their pipeline themselves; what keeps Spark from starting, they tell better.
        say(f"not checked before the start: {error}")
        return load_pipeline(app) if made is None else made
    if found.problems:
        raise BadInputsError(found.problems)
    if not found.on_spark:
        raise BadInputError("running needs Spark", where=app, hint="pip install 'holdfast[spark]'")
    if found.pipeline is None:
        raise AssertionError("an application without a pipeline has a problem")
    return found.pipeline


def note(text: str) -> None:
    """A line for whoever waits, apart from the answer."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def _quiet(_text: str) -> None:
    return
