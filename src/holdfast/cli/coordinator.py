"""Commands that talk to a run's coordinator: status, nodes, kill, retry, stop."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.runs import Json, Run, RunDir, client_of, find_run

if TYPE_CHECKING:
    from holdfast.control.status import RunView


def status(run: Run = None, run_dir: RunDir = None, as_json: Json = False) -> None:
    """Show units, nodes and recoveries of a running pipeline."""
    from holdfast.rundir.promise import warnings

    directory = find_run(run, run_dir)
    with client_of(directory) as client:
        view = client.status()
    view = replace(view, warnings=warnings(directory))
    if as_json:
        print(json.dumps(view.to_json()))  # noqa: T201
    else:
        _show(directory, view)


def nodes(run: Run = None, run_dir: RunDir = None, as_json: Json = False) -> None:
    """Show the nodes of a running pipeline."""
    from rich.console import Console

    from holdfast.cli.live import nodes_table, warning

    with client_of(find_run(run, run_dir)) as client:
        view = client.status()
    if as_json:
        shown = view.to_json()
        print(json.dumps({"nodes": shown["nodes"], "trouble": shown["trouble"]}))  # noqa: T201
        return
    console = Console()
    for part in (nodes_table(view), *warning(view.trouble)):
        console.print(part)


def kill(
    node: Annotated[str, typer.Argument(help="Node to kill, as in `holdfast nodes`.")],
    run: Run = None,
    run_dir: RunDir = None,
    as_json: Json = False,
) -> None:
    """Kill a node's processes (SIGKILL); its units recover elsewhere."""
    with client_of(find_run(run, run_dir)) as client:
        client.kill(node)
    _say(as_json, f"killed {node}", killed=node)


def retry(
    unit: Annotated[str, typer.Argument(help="Held unit, such as count.0#0.")],
    run: Run = None,
    run_dir: RunDir = None,
    as_json: Json = False,
) -> None:
    """Try a held unit again with a fresh budget."""
    with client_of(find_run(run, run_dir)) as client:
        client.retry(unit)
    _say(as_json, f"retrying {unit}", retried=unit)


def stop(
    run: Run = None,
    run_dir: RunDir = None,
    timeout: Annotated[str, typer.Option(help="How long to wait for the end.")] = "60s",
    as_json: Json = False,
) -> None:
    """Stop a running pipeline and wait until nothing of it is left."""
    from holdfast.errors import CheckFailedError
    from holdfast.quantities import parse_time
    from holdfast.runtime.launch.children import ProcessList

    directory = find_run(run, run_dir)
    end = time.monotonic() + parse_time(timeout, where="--timeout")
    with client_of(directory) as client:
        client.stop()
    processes = ProcessList(directory)
    while left := processes.leftovers():
        if time.monotonic() > end:
            raise CheckFailedError(f"still alive: {', '.join(map(str, left))}")
        time.sleep(0.1)
    _say(as_json, f"stopped {directory}", stopped=str(directory))


def _say(as_json: bool, text: str, **result: Any) -> None:
    print(json.dumps(result) if as_json else text)  # noqa: T201


def _show(directory: Path, view: RunView) -> None:
    from rich.console import Console

    from holdfast.cli.live import live_view, tracebacks
    from holdfast.rundir.spec import read_spec

    spec = read_spec(directory)
    console = Console()
    console.print(live_view(view, epoch_s=spec.deployment.epoch_s))
    for line in view.warnings:
        console.print(line, style="yellow", highlight=False)
    for text in tracebacks(view):
        print(f"\n{text}")  # noqa: T201
