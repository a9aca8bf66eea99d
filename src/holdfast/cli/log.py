"""`holdfast log`: what the records of a run say, as tables or as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.runs import Json, Run, RunDir, find_run

if TYPE_CHECKING:
    from rich.table import Table


def log(
    run: Run = None,
    run_dir: RunDir = None,
    tables: Annotated[
        bool, typer.Option("--tables", help="Input and Output Slice Tables of every unit.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show who carries which stream since when, and what is kept for whom."""
    from holdfast.rundir.spec import read_spec
    from holdfast.runtime.log.slicelog import SliceLog
    from holdfast.runtime.log.survey import Survey

    directory = find_run(run, run_dir, live=False)
    spec = read_spec(directory)
    kept = bool(spec.options.get("keep_input"))
    levels = int(spec.options.get("ack_levels", 1))
    survey = Survey(SliceLog(directory), spec.deployment, keep_input=kept, levels=levels)
    found = survey.to_json()
    if tables:
        found["tables"] = [survey.tables(unit["unit"]) for unit in found["units"]]
    if as_json:
        print(json.dumps({"run_dir": str(directory), **found}))  # noqa: T201
    else:
        _print(found)
    if found["damaged"]:
        raise typer.Exit(1)


def _print(found: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console()
    console.print(_streams(found["streams"]))
    console.print(_units(found["units"]))
    if found["forks"]:
        console.print(_forks(found["forks"]))
    if found["restarts"]:
        console.print(_restarts(found["restarts"]))
    for item in found.get("tables", ()):
        for what, title in (("input", "input slices"), ("output", "output slices")):
            if item[what]:
                console.print(_rows(f"{item['unit']}: {title}", item[what]))
    for damage in found["damaged"]:
        console.print(f"damaged: {damage['path']}: {damage['what']}", style="red", markup=False)
    for line in found["trouble"]:
        console.print(f"not told: {line}", style="yellow", markup=False)


def _streams(streams: list[dict[str, Any]]) -> Table:
    table = _table("streams", "stream", "carried by", "since", "last end", "pinned by", "after")
    for item in streams:
        carriers, pins = item["carriers"], item["pins"][:3]
        for index in range(max(1, len(carriers), len(pins))):
            carrier = carriers[index] if index < len(carriers) else None
            pin = pins[index] if index < len(pins) else None
            table.add_row(
                "" if index else item["stream"],
                carrier["unit"] if carrier else "",
                _epoch(carrier["since"]) if carrier else "",
                "" if index else _said(item["last_end"]),
                pin["by"] if pin else "",
                _said(pin["after"]) if pin else "",
            )
    return table


def _units(units: list[dict[str, Any]]) -> Table:
    names = ("unit", "born", "batch", "epoch", "slices kept", "trimmed to", "turn", "seal")
    table = _table("units", *names)
    for item in units:
        turn, seal = item["turn"], item["seal"]
        table.add_row(
            item["unit"],
            _epoch(item["born"]),
            _said(item["batch"]),
            _said(item["epoch"]),
            _said(item["slices"]),
            _said(item["trimmed_epoch"]),
            "" if turn is None else f"change {turn['change']} at {_said(turn['end'])}",
            "" if seal is None else f"{seal['how']} {seal['change']} at {_said(seal['end'])}",
        )
    return table


def _restarts(restarts: list[dict[str, Any]]) -> Table:
    table = _table("restarts", "restart", "stream", "what", "carried out")
    for item in restarts:
        done = {True: "yes", False: "when the run next starts"}.get(item["carried_out"], "-")
        for index, told in enumerate(item["streams"]):
            first = ("", "") if index else (str(item["number"]), done)
            table.add_row(first[0], told["stream"], _restarted(told), first[1])
    return table


def _restarted(told: dict[str, Any]) -> str:
    if told["since"] is None:
        return f"begins {_epoch(told['start'])}"
    if not told["children"]:
        return "is no stream any more"
    state = f" with the state of {', '.join(told['state_of'])}" if told["state_of"] else ""
    return f"other cuts: goes on {_epoch(told['since'])}{state}"


def _forks(forks: list[dict[str, Any]]) -> Table:
    names = ("fork", "because", "unit", "since", "epoch", "leaves out", "ended")
    table = _table("forks", *names)
    for item in forks:
        for index, unit in enumerate(item["units"]):
            table.add_row(
                "" if index else str(item["fork"]),
                "" if index else item["reason"],
                unit["unit"],
                _epoch(unit["after"]),
                _said(unit["epoch"]),
                ", ".join(unit["left_out"]),
                "" if index else _said(item["ended"]),
            )
    return table


def _rows(title: str, rows: list[dict[str, Any]]) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = _table(title, *names)
    for row in rows:
        table.add_row(*(_said(row.get(name)) for name in names))
    return table


def _table(title: str, *columns: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _epoch(value: Any) -> str:
    """Where a unit begins: after an epoch, or why not."""
    if value == -1:
        return "the beginning"
    return f"after {value}" if isinstance(value, int) else _said(value)


def _said(value: Any) -> str:
    return "-" if value is None else str(value)
