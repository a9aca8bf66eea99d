"""`holdfast init`: a small project to begin with."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from holdfast.errors import BadInputError

NAME = "word-counts"
"""The pipeline of the shipped project."""
FILES = ("app.py", "test_app.py", "produce.py", "README.md")


def init(
    folder: Annotated[Path, typer.Argument(help="Where to; made if it is not there.")],
) -> None:
    """Write a small project: a pipeline over files, its test, and something to feed it.

    Files that are there already are left alone, and none is written then.
    """
    from holdfast.cli.shipped import shipped

    there = [name for name in FILES if (folder / name).exists()]
    if there:
        raise BadInputError(
            f"has {', '.join(there)} already", where=str(folder), hint="name a new folder"
        )
    templates = shipped("project")
    name = _name(folder)
    try:
        (folder / "input").mkdir(parents=True, exist_ok=True)
        for file in FILES:
            text = (templates / file).read_text(encoding="utf-8")
            (folder / file).write_text(text.replace(NAME, name), encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"cannot be written: {error.strerror}", where=str(folder)) from None
    place = shlex.quote(str(folder))
    typer.echo(f"made {folder}; now: cd {place} && holdfast check app.py, then see README.md")


def _name(folder: Path) -> str:
    """The pipeline's name: that of the folder, as far as it can be one."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", folder.resolve().name).strip("-")
    return plain[:64] if re.match(r"[A-Za-z]", plain) else f"p-{plain}"[:64].rstrip("-")
