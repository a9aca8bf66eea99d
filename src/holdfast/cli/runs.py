"""Which run a command means, and how to reach it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from holdfast.control.client import ControlClient

RunDir = Annotated[
    Path | None, typer.Option("--run-dir", "-d", help="Run directory; default: the live one.")
]
Run = Annotated[Path | None, typer.Argument(help="Run directory; default: the live one.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def find_run(run: Path | None, run_dir: Path | None = None, *, live: bool = True) -> Path:
    """The run directory meant: the one given either way, or the only live one below runs/."""
    from holdfast.errors import BadInputError
    from holdfast.rundir.contents import ENDPOINT, SPEC, is_run

    if run is not None and run_dir is not None and run != run_dir:
        raise BadInputError(f"{run} and --run-dir {run_dir} are two", hint="name one")
    run_dir = run_dir or run
    if run_dir is not None:
        if not is_run(run_dir):
            raise BadInputError("is not a run directory", where=str(run_dir))
        return run_dir
    found = sorted(path.parent for path in Path("runs").glob(f"*/{ENDPOINT if live else SPEC}"))
    if len(found) != 1:
        names = ", ".join(map(str, found))
        what = f"several runs: {names}" if found else "nothing runs below runs/"
        raise BadInputError(what, hint="name its run directory")
    return found[0]


@contextlib.contextmanager
def client_of(directory: Path) -> Iterator[ControlClient]:
    """The run's coordinator; one that cannot be reached is bad input."""
    from holdfast.control.client import ControlClient
    from holdfast.control.shell.wire import ConnectionLostError
    from holdfast.errors import BadInputError

    try:
        with ControlClient(directory) as client:
            yield client
    except ConnectionLostError as error:
        raise BadInputError(str(error), where=str(directory), hint="does it run?") from None
