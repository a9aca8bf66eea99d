"""`holdfast run` and the commands that talk to a run: status, nodes, logs, kill, retry, stop."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from holdfast.cli import tentative as tentative_results
from holdfast.cli.breakers import Breaker, own_nodes, with_paths
from holdfast.cli.deployment import (
    Batch,
    Cut,
    Replicate,
    Shards,
    Snapshot,
    absolute_app,
    make_deployment,
    plan_nodes,
    plan_spares,
    plan_together,
    planned_order,
    require_apart,
)

if TYPE_CHECKING:
    from holdfast.control.client import ControlClient
    from holdfast.control.status import RunView
    from holdfast.deployment import Deployment
    from holdfast.health.policy import Policy
    from holdfast.runtime.launch.run import LocalRun, StopReport

RunDir = Annotated[
    Path | None, typer.Option("--run-dir", "-d", help="Run directory; default: the live one.")
]
Run = Annotated[Path | None, typer.Argument(help="Run directory; default: the live one.")]
STAMP = len("2026-01-31 23:59:59,999")
_STARTING = ("gathering", "starting")
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def run(
    app: Annotated[str, typer.Argument(help="Application: FILE.py, FILE.py:NAME or MODULE:NAME.")],
    plan: Annotated[
        Path | None, typer.Option("--plan", "-p", help="Plan as JSON: where to cut.")
    ] = None,
    replan: Annotated[
        bool, typer.Option("--replan", help="Resume with the plan made again from what was seen.")
    ] = False,
    cut: Cut = None,
    shards: Shards = None,
    batch: Batch = None,
    snapshot: Snapshot = None,
    replicate: Replicate = None,
    nodes: Annotated[
        int | None,
        typer.Option("--nodes", "-n", min=1, help="Node processes; default: the plan's, or 1."),
    ] = None,
    spares: Annotated[
        int | None,
        typer.Option("--spares", "-s", min=0, help="Warm spare nodes; default: the plan's, or 1."),
    ] = None,
    coordinators: Annotated[
        int, typer.Option(min=1, help="Coordinators: one leads, the others take over if it fails.")
    ] = 1,
    domains: Annotated[int, typer.Option(min=1, help="Failure domains nodes are dealt to.")] = 2,
    max_units: Annotated[
        int, typer.Option("--max-units-per-node", min=1, help="Maximum units per node.")
    ] = 16,
    breaker: Breaker = None,
    recovery_order: Annotated[
        Literal["inc", "topological"],
        typer.Option(help="Who comes back first when places are too few for all that failed."),
    ] = "inc",
    tentative_after: tentative_results.After = None,
    duration: Annotated[
        str | None,
        typer.Option("--for", help="Stop when everything has run for this long, such as 60s."),
    ] = None,
    run_dir: Annotated[
        Path | None, typer.Option("--run-dir", "-d", help="Default: runs/PIPELINE.")
    ] = None,
    reset: Annotated[
        list[str] | None, typer.Option("--reset", help="Operator whose state is dropped.")
    ] = None,
    begin: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            help="Where reset operators and added sinks begin: EPOCH, now or earliest, or "
            "OPERATOR=... for one; default: 0.",
        ),
    ] = None,
    recut: Annotated[bool, typer.Option(help="Let other cuts take a run over.")] = True,
    keep_input: Annotated[
        bool, typer.Option("--keep-input", help="Never trim sources, so that verify can check.")
    ] = False,
    ack_levels: Annotated[
        int,
        typer.Option(
            min=1,
            help="Boundaries further down at which results must be durable before input is "
            "trimmed: slices lost on up to N-1 boundaries in a row are made again.",
        ),
    ] = 1,
    autoscale: Annotated[
        int | None,
        typer.Option(min=1, help="Rescale by load, up to so many shards of scalable operators."),
    ] = None,
    memory_mb: Annotated[
        int, typer.Option(min=480, help="Java heap of a node, MB; Spark needs 480.")
    ] = 512,
    host: Annotated[str, typer.Option(help="What runs units.", hidden=True)] = "spark",
    as_json: Json = False,
) -> None:
    """Run a pipeline on this machine and keep it running."""
    from holdfast.cli.autoscale import autoscaled
    from holdfast.cli.check import made_pipeline, sound_pipeline
    from holdfast.cli.learning import keep_plan, replan_run
    from holdfast.cli.resume import Starts, announced, check_resume, reset_operators
    from holdfast.plan.document import load_plan
    from holdfast.quantities import parse_time
    from holdfast.rundir.spec import RunSpec
    from holdfast.runtime.launch.local import LaunchSettings
    from holdfast.runtime.launch.run import LocalRun
    from holdfast.runtime.units.places import check_sinks

    limit_s = None if duration is None else parse_time(duration, where="--for")
    options: dict[str, Any] = {}
    if host == "spark":
        options = {"memory_mb": memory_mb, "keep_input": keep_input, "ack_levels": ack_levels}
    app = absolute_app(app)
    planned = None if plan is None else load_plan(plan)
    pipeline = made_pipeline(app, _note)
    if replan:
        planned = replan_run(app, pipeline, run_dir or Path("runs") / pipeline.name, plan, _note)
    deployment = make_deployment(
        pipeline,
        plan=planned,
        cut=cut or (),
        shards=shards or (),
        batch=batch or (),
        snapshot=snapshot,
        replicate=replicate or (),
    )
    count = plan_nodes(planned, nodes)
    require_apart(deployment, nodes=count, domains=domains)

    def spec_of(deployment: Deployment) -> RunSpec:
        together = plan_together(planned, deployment, count)
        order = planned_order(pipeline, deployment, recovery_order)
        policy = replace(
            _policy(deployment, count, max_units, together, order),
            tentative=tentative_results.tentative(tentative_after, pipeline, deployment, planned),
        )
        policy = with_paths(policy, deployment, breaker or ())
        return RunSpec(app=app, host=host, deployment=deployment, policy=policy, options=options)

    spec = spec_of(deployment)
    directory = run_dir or Path("runs") / spec.deployment.pipeline
    operators = pipeline.operators if recut else ()
    resumed = check_resume(directory, spec, reset or [], Starts.parse(begin or []), operators)
    spec = spec_of(resumed.spec.deployment) if resumed else spec
    fresh = resumed.fresh if resumed else {}
    check_sinks(pipeline, directory, fresh)
    if host == "spark":
        sound_pipeline(app, _note, made=pipeline)
    launch = LaunchSettings(
        nodes=count + own_nodes(deployment),
        spares=plan_spares(planned, spares),
        domains=domains,
        coordinators=coordinators,
    )
    local = LocalRun(directory, spec, launch)
    if resumed and (fresh or resumed.recut):
        resumed = reset_operators(directory, resumed)
        local = LocalRun(directory, spec_of(resumed.spec.deployment), launch)
        _note(announced(resumed))
    _note(f"{'resuming' if resumed else 'starting'} in {directory}; Ctrl-C stops")
    if host == "spark":
        from holdfast.runtime.spark.start.prepare import prepare

        prepare(_note)
    view: RunView | None = None
    with _interruptible():
        try:
            local.start()
            keep_plan(directory, planned)
            with autoscaled(local, autoscale, _note):
                view = _watch(local, limit_s, quiet=as_json)
        except KeyboardInterrupt:
            _note("stopping")
        finally:
            with contextlib.suppress(Exception):
                view = local.status()
            report = _stop(local)
    _finish(directory, view, report, as_json=as_json)


def status(run: Run = None, run_dir: RunDir = None, as_json: Json = False) -> None:
    """Show units, nodes and recoveries of a running pipeline."""
    from rich.console import Console

    from holdfast.cli.learning import warnings
    from holdfast.cli.live import live_view, tracebacks
    from holdfast.rundir.spec import read_spec

    directory = find_run(run, run_dir)
    with _client(directory) as client:
        view = client.status()
    if as_json:
        print(json.dumps(view.to_json()))  # noqa: T201
        return
    spec = read_spec(directory)
    console = Console()
    console.print(live_view(view, epoch_s=spec.deployment.epoch_s))
    for line in warnings(directory, spec.app):
        console.print(line, style="yellow", highlight=False)
    for text in tracebacks(view):
        print(f"\n{text}")  # noqa: T201


def nodes(run: Run = None, run_dir: RunDir = None, as_json: Json = False) -> None:
    """Show the nodes of a running pipeline."""
    from rich.console import Console

    from holdfast.cli.live import nodes_table, warning

    with _client(find_run(run, run_dir)) as client:
        view = client.status()
    if as_json:
        shown = view.to_json()
        print(json.dumps({"nodes": shown["nodes"], "trouble": shown["trouble"]}))  # noqa: T201
        return
    console = Console()
    for part in (nodes_table(view), *warning(view.trouble)):
        console.print(part)


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


def kill(
    node: Annotated[str, typer.Argument(help="Node to kill, as in `holdfast nodes`.")],
    run: Run = None,
    run_dir: RunDir = None,
    as_json: Json = False,
) -> None:
    """Kill a node's processes (SIGKILL); its units recover elsewhere."""
    with _client(find_run(run, run_dir)) as client:
        client.kill(node)
    _say(as_json, f"killed {node}", killed=node)


def retry(
    unit: Annotated[str, typer.Argument(help="Held unit, such as count.0#0.")],
    run: Run = None,
    run_dir: RunDir = None,
    as_json: Json = False,
) -> None:
    """Try a held unit again with a fresh budget."""
    with _client(find_run(run, run_dir)) as client:
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
    with _client(directory) as client:
        client.stop()
    processes = ProcessList(directory)
    while left := processes.leftovers():
        if time.monotonic() > end:
            raise CheckFailedError(f"still alive: {', '.join(map(str, left))}")
        time.sleep(0.1)
    _say(as_json, f"stopped {directory}", stopped=str(directory))


def find_run(run: Path | None, run_dir: Path | None = None, *, live: bool = True) -> Path:
    """The run directory meant: the one given either way, or the only live one below runs/."""
    from holdfast.errors import BadInputError
    from holdfast.rundir.paths import ENDPOINT, SPEC, is_run

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


def find_lines(run_dir: Path, name: str) -> list[str]:
    """Log lines about a unit (or all shards of a segment) by time, or all a node has said."""
    from holdfast.rundir.paths import node_output_path, nodes_folder

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


def _policy(
    deployment: Deployment,
    nodes: int,
    max_units: int,
    together: tuple[tuple[str, ...], ...],
    order: tuple[str, ...],
) -> Policy:
    from holdfast.errors import BadInputError
    from holdfast.health.policy import Policy

    most = max([len(group) for group in together], default=0)
    units = len(deployment.replicas()) - own_nodes(deployment)
    if units > nodes * max_units or most > max_units:
        raise BadInputError(
            f"{units} units do not fit on {nodes} nodes of {max_units} each",
            hint="more --nodes, or a larger --max-units-per-node",
        )
    return Policy(
        workers=nodes, max_units_per_node=max_units, together=together, recovery_order=order
    )


def _watch(local: LocalRun, limit_s: float | None, *, quiet: bool) -> RunView | None:
    """Show progress until the time is over or the run ends; gives the last view.

    The time counts from when everything runs: how long a start takes depends on the machine, and
    a run that was only started has no rows to show.
    """
    from rich.console import Console
    from rich.live import Live

    from holdfast.cli.learning import Keeper
    from holdfast.cli.live import failures, headline, live_view, retries
    from holdfast.control.shell.wire import ConnectionLostError

    console = Console(stderr=True)
    drawn = console.is_terminal and not quiet
    end: float | None = None
    epoch_s = local.spec.deployment.epoch_s
    view: RunView | None = None
    said = ""
    warned: str | None = None
    shown = Live(console=console, auto_refresh=False) if drawn else contextlib.nullcontext()
    with Keeper(local.run_dir, _note) as keeper, shown as live:
        while end is None or time.monotonic() < end:
            with contextlib.suppress(ConnectionLostError):
                view = local.status()
                keeper.look(view)
                if limit_s is not None and end is None and view.status not in _STARTING:
                    end = time.monotonic() + limit_s
                line = headline(view).plain.split("  ")[1]
                trouble = local.launcher.trouble
                if live is not None:
                    live.update(live_view(view, epoch_s=epoch_s, trouble=trouble), refresh=True)
                elif line != said:
                    said = line
                    for text in (headline(view).plain, *retries(view), *failures(view)):
                        _note(text)
            if live is None and (trouble := local.launcher.trouble) not in (None, warned):
                warned = trouble
                _note(f"warning: {trouble}")
            pause = 0.5 if end is None else max(0.0, min(0.5, end - time.monotonic()))
            if local.launcher.finished.wait(pause):
                break
    return view


def _stop(local: LocalRun) -> StopReport:
    """Stop, whatever else is pressed meanwhile."""
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return local.stop()


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """A polite kill is like Ctrl-C; afterwards both mean again what they meant before."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's, which is somebody else's here
        return
    before = signal.getsignal(signal.SIGINT)
    terminate = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, terminate)


def _finish(directory: Path, view: RunView | None, report: StopReport, *, as_json: bool) -> None:
    from holdfast.cli.live import failures, tracebacks

    failed = failures(view) if view else []
    if report.given_up:
        _note(f"given up: {report.given_up}")
        for line in report.last_words:
            _note(f"  {line}")
    if as_json:
        shown = view.to_json() if view else {}
        result = {
            "run_dir": str(directory),
            "status": "failed" if failed or report.given_up else "stopped",
            "given_up": report.given_up,
            "last_words": list(report.last_words),
            "clean": report.clean,
            "killed": list(report.killed),
            "left": list(report.left),
            "units": shown.get("units", []),
            "recoveries": shown.get("recoveries", []),
        }
        print(json.dumps(result))  # noqa: T201
    else:
        _note(f"stopped; killed {', '.join(report.killed)}" if report.killed else "stopped")
        for line in failed:
            _note(line)
        for text in tracebacks(view) if view else ():
            _note(f"\n{text}")
    if failed or report.left or report.given_up:
        raise typer.Exit(1)


@contextlib.contextmanager
def _client(directory: Path) -> Iterator[ControlClient]:
    from holdfast.control.client import ControlClient
    from holdfast.control.shell.wire import ConnectionLostError
    from holdfast.errors import BadInputError

    try:
        with ControlClient(directory) as client:
            yield client
    except ConnectionLostError as error:
        raise BadInputError(str(error), where=str(directory), hint="does it run?") from None


def _say(as_json: bool, text: str, **result: Any) -> None:
    print(json.dumps(result) if as_json else text)  # noqa: T201


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201
