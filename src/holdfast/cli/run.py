"""`holdfast run` and the commands that talk to a run: status, nodes, logs, kill, retry, stop."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from holdfast.control.client import ControlClient
    from holdfast.control.shell.rundir import RunSpec
    from holdfast.runtime.launch.run import LocalRun, StopReport

RunDir = Annotated[
    Path | None, typer.Option("--run-dir", "-d", help="Run directory; default: the live one.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def run(
    app: Annotated[str, typer.Argument(help="Application: FILE.py, FILE.py:NAME or MODULE:NAME.")],
    plan: Annotated[
        Path | None, typer.Option("--plan", "-p", help="Plan as JSON: where to cut.")
    ] = None,
    cut: Annotated[
        list[str] | None,
        typer.Option("--cut", help="Operator to cut after; may be repeated; or all."),
    ] = None,
    nodes: Annotated[int, typer.Option("--nodes", "-n", min=1, help="Node processes.")] = 1,
    spares: Annotated[int, typer.Option("--spares", "-s", min=0, help="Warm spare nodes.")] = 1,
    domains: Annotated[int, typer.Option(min=1, help="Failure domains nodes are dealt to.")] = 2,
    max_units: Annotated[
        int, typer.Option("--max-units-per-node", min=1, help="Room of a node.")
    ] = 16,
    duration: Annotated[
        str | None, typer.Option("--for", help="Stop after this long, such as 60s.")
    ] = None,
    run_dir: Annotated[
        Path | None, typer.Option("--run-dir", "-d", help="Default: runs/PIPELINE.")
    ] = None,
    reset: Annotated[
        list[str] | None, typer.Option("--reset", help="Operator whose state is dropped.")
    ] = None,
    keep_input: Annotated[
        bool, typer.Option("--keep-input", help="Never trim sources, so that verify can check.")
    ] = False,
    memory_mb: Annotated[int, typer.Option(min=256, help="Java heap of a node, MB.")] = 512,
    host: Annotated[str, typer.Option(help="What runs units.", hidden=True)] = "spark",
    as_json: Json = False,
) -> None:
    """Run a pipeline on this machine and keep it running."""
    from holdfast.cli.resume import check_resume, reset_operators
    from holdfast.runtime.launch.local import LaunchSettings
    from holdfast.runtime.launch.run import LocalRun
    from holdfast.units import parse_time

    limit_s = None if duration is None else parse_time(duration, where="--for")
    options: dict[str, Any] = {}
    if host == "spark":
        options = {"memory_mb": memory_mb, "keep_input": keep_input}
    spec = _spec(app, plan, cut or [], host, options, nodes=nodes, max_units=max_units)
    directory = run_dir or Path("runs") / spec.deployment.pipeline
    resumed = check_resume(directory, spec, reset or [])
    local = LocalRun(directory, spec, LaunchSettings(nodes=nodes, spares=spares, domains=domains))
    local.require_free()
    if reset:
        dropped = reset_operators(directory, spec.deployment, reset)
        _note(f"reset {', '.join(dropped)}")
    _note(f"{'resuming' if resumed else 'starting'} in {directory}; Ctrl-C stops")
    if host == "spark":
        from holdfast.runtime.spark.prepare import prepare

        prepare(_note)
    view: dict[str, Any] = {}
    with _interruptible():
        try:
            local.start()
            view = _watch(local, limit_s, quiet=as_json)
        except KeyboardInterrupt:
            _note("stopping")
        finally:
            with contextlib.suppress(Exception):
                view = local.status()
            report = _stop(local)
    _finish(directory, view, report, as_json=as_json)


def status(run_dir: RunDir = None, as_json: Json = False) -> None:
    """Show units, nodes and recoveries of a running pipeline."""
    from rich.console import Console

    from holdfast.cli.live import live_view
    from holdfast.control.shell.rundir import read_spec

    directory = find_run(run_dir)
    with _client(directory) as client:
        view = client.status()
    if as_json:
        print(json.dumps(view))  # noqa: T201
        return
    Console().print(live_view(view, epoch_s=read_spec(directory).deployment.epoch_s))


def nodes(run_dir: RunDir = None, as_json: Json = False) -> None:
    """Show the nodes of a running pipeline."""
    from rich.console import Console

    from holdfast.cli.live import nodes_table

    with _client(find_run(run_dir)) as client:
        view = client.status()
    if as_json:
        print(json.dumps({"nodes": view["nodes"]}))  # noqa: T201
        return
    Console().print(nodes_table(view))


def logs(
    name: Annotated[str, typer.Argument(help="Unit such as count#0 (or count), or a node.")],
    run_dir: RunDir = None,
    lines: Annotated[int, typer.Option("--lines", "-l", min=1, help="At most so many.")] = 200,
    as_json: Json = False,
) -> None:
    """Show what nodes logged about a unit, or all that a node logged."""
    from holdfast.errors import BadInputError

    directory = find_run(run_dir, live=False)
    found = sorted(find_lines(directory, name))[-lines:]
    if not found:
        raise BadInputError("nothing logged", where=name, hint="see `holdfast status` for names")
    if as_json:
        print(json.dumps({"name": name, "lines": found}))  # noqa: T201
        return
    for line in found:
        print(line)  # noqa: T201


def kill(
    node: Annotated[str, typer.Argument(help="Node to kill, as in `holdfast nodes`.")],
    run_dir: RunDir = None,
    as_json: Json = False,
) -> None:
    """Kill a node's processes (SIGKILL); its units recover elsewhere."""
    with _client(find_run(run_dir)) as client:
        client.kill(node)
    _say(as_json, f"killed {node}", killed=node)


def retry(
    unit: Annotated[str, typer.Argument(help="Held unit, such as count#0.")],
    run_dir: RunDir = None,
    as_json: Json = False,
) -> None:
    """Try a held unit again with a fresh budget."""
    with _client(find_run(run_dir)) as client:
        client.retry(unit)
    _say(as_json, f"retrying {unit}", retried=unit)


def stop(
    run_dir: RunDir = None,
    timeout: Annotated[str, typer.Option(help="How long to wait for the end.")] = "60s",
    as_json: Json = False,
) -> None:
    """Stop a running pipeline and wait until nothing of it is left."""
    from holdfast.errors import CheckFailedError
    from holdfast.runtime.launch.children import ProcessList
    from holdfast.units import parse_time

    directory = find_run(run_dir)
    end = time.monotonic() + parse_time(timeout, where="--timeout")
    with _client(directory) as client:
        client.stop()
    processes = ProcessList(directory)
    while left := processes.leftovers():
        if time.monotonic() > end:
            raise CheckFailedError(f"still alive: {', '.join(map(str, left))}")
        time.sleep(0.1)
    _say(as_json, f"stopped {directory}", stopped=str(directory))


def find_run(run_dir: Path | None, *, live: bool = True) -> Path:
    """The run directory meant: the one given, or the only live one below runs/."""
    from holdfast.control.shell.endpoint import FILE
    from holdfast.control.shell.rundir import spec_path
    from holdfast.errors import BadInputError

    if run_dir is not None:
        if not spec_path(run_dir).exists():
            raise BadInputError("is not a run directory", where=str(run_dir))
        return run_dir
    found = sorted(path.parent for path in Path("runs").glob(f"*/{FILE if live else 'run.json'}"))
    if len(found) != 1:
        names = ", ".join(map(str, found))
        what = f"several runs: {names}" if found else "nothing runs below runs/"
        raise BadInputError(what, hint="name one with --run-dir")
    return found[0]


def find_lines(run_dir: Path, name: str) -> Iterator[str]:
    """Log lines about a unit (or all shards of a segment), or all of one node."""
    for path in sorted((run_dir / "nodes").glob("*.log*")):
        whole = path.name.partition(".log")[0] == name
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if whole or f"unit={name} " in line or f"unit={name}#" in line:
                yield line


def _spec(
    app: str,
    plan: Path | None,
    cut: list[str],
    host: str,
    options: dict[str, Any],
    *,
    nodes: int,
    max_units: int,
) -> RunSpec:
    from holdfast.control.policy import Policy
    from holdfast.control.shell.rundir import RunSpec
    from holdfast.errors import BadInputError
    from holdfast.pipeline import deploy, load_pipeline

    if plan is not None and cut:
        raise BadInputError("--plan and --cut exclude each other")
    cuts: Any = "all" if cut == ["all"] else cut or "none"
    if plan is not None:
        try:
            cuts = json.loads(plan.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BadInputError(f"cannot be read as JSON: {error}", where=str(plan)) from None
    target, colon, attribute = app.partition(":")
    if Path(target).is_file():
        # Nodes may start in another directory.
        app = f"{Path(target).resolve()}{colon}{attribute}"
    pipeline = load_pipeline(app)
    if isinstance(cuts, dict) and cuts.get("method") == "joint":
        from holdfast.plan.joint.result import deploy_options

        deployment = deploy(pipeline, **deploy_options(cuts))
    else:
        deployment = deploy(pipeline, cuts=cuts)
    if len(deployment.units()) > nodes * max_units:
        raise BadInputError(
            f"{len(deployment.units())} units do not fit on {nodes} nodes of {max_units} each",
            hint="more --nodes, or a larger --max-units-per-node",
        )
    policy = Policy(workers=nodes, max_units_per_node=max_units)
    return RunSpec(app=app, host=host, deployment=deployment, policy=policy, options=options)


def _watch(local: LocalRun, limit_s: float | None, *, quiet: bool) -> dict[str, Any]:
    """Show progress until the time is over or the run ends; gives the last view."""
    from rich.console import Console
    from rich.live import Live

    from holdfast.cli.live import failures, headline, live_view
    from holdfast.control.shell.wire import ConnectionLostError

    console = Console(stderr=True)
    drawn = console.is_terminal and not quiet
    end = None if limit_s is None else time.monotonic() + limit_s
    epoch_s = local.spec.deployment.epoch_s
    view: dict[str, Any] = {}
    said = ""
    with Live(console=console, auto_refresh=False) if drawn else contextlib.nullcontext() as live:
        while end is None or time.monotonic() < end:
            with contextlib.suppress(ConnectionLostError):
                view = local.status()
                line = headline(view).plain.split("  ")[1]
                if live is not None:
                    live.update(live_view(view, epoch_s=epoch_s), refresh=True)
                elif line != said:
                    said = line
                    for text in (headline(view).plain, *failures(view)):
                        _note(text)
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

    before = signal.getsignal(signal.SIGINT)
    terminate = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, terminate)


def _finish(directory: Path, view: dict[str, Any], report: StopReport, *, as_json: bool) -> None:
    from holdfast.cli.live import failures

    failed = failures(view) if view else []
    if as_json:
        result = {
            "run_dir": str(directory),
            "status": "failed" if failed else "stopped",
            "clean": report.clean,
            "killed": list(report.killed),
            "left": list(report.left),
            "units": view.get("units", []),
            "recoveries": view.get("recoveries", []),
        }
        print(json.dumps(result))  # noqa: T201
    else:
        _note("stopped" if report.clean else f"stopped; killed {', '.join(report.killed)}")
        for line in failed:
            _note(line)
    if report.given_up:
        _note(report.given_up)
    for unit in view.get("units", []):
        if unit["phase"] == "held" and unit["error"] and not as_json:
            _note(unit["error"].rstrip())
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
