"""`holdfast logs`: what nodes logged about a unit, or a node about itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.runs import Json, Run, RunDir, find_run

STAMP = len("2026-01-31 23:59:59,999")


def logs(
    name: Annotated[str, typer.Argument(help="Unit such as count.0#0 (or count), or a node.")],
    run: Run = None,
    run_dir: RunDir = None,
    lines: Annotated[int, typer.Option("--lines", "-l", min=1, help="At most so many.")] = 200,
    as_json: Json = False,
) -> None:
    """Show what nodes logged about a unit, or all that a node logged."""
    from holdfast.errors import BadInputError

    directory = find_run(run, run_dir, live=False)
    found = find_lines(directory, name)[-lines:]
    if not found:
        raise BadInputError("nothing logged", where=name, hint="see `holdfast status` for names")
    if as_json:
        print(json.dumps({"name": name, "lines": found}))  # noqa: T201
        return
    for line in found:
        print(line)  # noqa: T201


def find_lines(run_dir: Path, name: str) -> list[str]:
    """Log lines about a unit (or all shards of a segment) by time, or all a node has said."""
    from holdfast.rundir.contents import node_output_path, nodes_folder

    found: list[tuple[str, str]] = []
    for path in sorted(nodes_folder(run_dir).glob("*.log*"), reverse=True):  # .log.1 is older
        whole = path.name.partition(".log")[0] == name
        stamp = ""
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            # A line of a traceback belongs to the one before it.
            stamp = line[:STAMP] if line[:4].isdigit() else stamp
            if whole or f"unit={name} " in line or f"unit={name}." in line:
                found.append((stamp, line))
    found.sort(key=lambda item: item[0])
    output = node_output_path(run_dir, name)
    said = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
    return [*(line for _, line in found), *said.splitlines()]
