"""`holdfast plan`: one topology, one method, one plan; also its trade-off curve and its reasons."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from holdfast.clock import Clock
    from holdfast.pipeline import Pipeline
    from holdfast.plan import Plan
    from holdfast.planners.interface import Planner, PlanRequest, Progress, Solve, Sweep
    from holdfast.topology.graph import Topology

DEFAULT_TIME_LIMIT = "30s"
Objective = Literal["cheapest", "fastest-recovery", "least-latency"]
CHOICE = "What to plan"
BOUNDS = "What to keep"
FTC = "Method ftc"
FAST = "Method fastrecover"
JOINT = "Method joint"
PPA = "Method ppa"
OUTPUT = "The answer"
SOLVE = "How to solve"


def plan(
    file: Annotated[
        str,
        typer.Argument(help="Topology file (YAML or JSON; - reads stdin), or a pipeline (.py)."),
    ],
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            "-m",
            autocompletion=lambda: ["ftc", "fastrecover", "ppa", "joint"],
            help="ftc, fastrecover, ppa or joint; default: joint for a pipeline, ftc for a file.",
            rich_help_panel=CHOICE,
        ),
    ] = None,
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm",
            "-a",
            help="Algorithm of the method; see --algorithms.",
            rich_help_panel=CHOICE,
        ),
    ] = "auto",
    max_recovery: Annotated[
        str | None,
        typer.Option(
            help="Bound on recovery: a number in the file's unit, or 5s, 200ms.",
            rich_help_panel=BOUNDS,
        ),
    ] = None,
    max_overhead: Annotated[
        str | None,
        typer.Option(
            help="Bound on total checkpoint overhead: 0.4 or 40%.", rich_help_panel=BOUNDS
        ),
    ] = None,
    max_latency: Annotated[
        str | None, typer.Option(help="Bound on end-to-end latency.", rich_help_panel=BOUNDS)
    ] = None,
    max_outage: Annotated[
        str | None,
        typer.Option(help="Bound on how long results are missing (joint).", rich_help_panel=BOUNDS),
    ] = None,
    max_replicas: Annotated[
        int | None,
        typer.Option(
            help="Bound on hot followers (joint); default: as many as a bound on recovery needs.",
            min=0,
            rich_help_panel=BOUNDS,
        ),
    ] = None,
    max_growth: Annotated[
        float | None,
        typer.Option(
            help="Keep state so that it can be scaled to so many times the load (joint).",
            min=1,
            max=128,
            rich_help_panel=BOUNDS,
        ),
    ] = None,
    objective: Annotated[
        Objective,
        typer.Option(help="What to make best within the bounds (joint).", rich_help_panel=BOUNDS),
    ] = "cheapest",
    replicas: Annotated[
        float | None, typer.Option(help="Replica budget.", rich_help_panel=PPA)
    ] = None,
    failed: Annotated[
        list[str] | None,
        typer.Option(help="Tasks or operators that fail; several allowed.", rich_help_panel=PPA),
    ] = None,
    failed_domain: Annotated[
        list[str] | None, typer.Option(help="Failure domains that are lost.", rich_help_panel=PPA)
    ] = None,
    required: Annotated[
        list[str] | None,
        typer.Option(help="Tasks or operators that must be chosen.", rich_help_panel=CHOICE),
    ] = None,
    forbidden: Annotated[
        list[str] | None,
        typer.Option(help="Tasks or operators that must not be chosen.", rich_help_panel=CHOICE),
    ] = None,
    sources: Annotated[
        Literal["replayed", "durable"],
        typer.Option(help="Whether sources' outputs are durable for free.", rich_help_panel=FTC),
    ] = "replayed",
    cost: Annotated[
        Literal["auto", "count", "bytes"],
        typer.Option(help="What a backup costs.", rich_help_panel=FTC),
    ] = "auto",
    expected: Annotated[
        bool,
        typer.Option(
            "--expected", help="Half an interval's replay, not a bound.", rich_help_panel=FTC
        ),
    ] = False,
    grid_overhead: Annotated[
        int | None,
        typer.Option("--grid-overhead", "-Z", help="Overhead grid Z.", rich_help_panel=FAST),
    ] = None,
    grid_frequency: Annotated[
        int | None,
        typer.Option("--grid-frequency", "-F", help="Frequency grid F.", rich_help_panel=FAST),
    ] = None,
    frequencies: Annotated[
        str | None, typer.Option(help="Allowed frequencies, comma-separated.", rich_help_panel=FAST)
    ] = None,
    powers_of_two: Annotated[
        bool,
        typer.Option("--powers-of-two", help="Frequencies in powers of two.", rich_help_panel=FAST),
    ] = False,
    stats: Annotated[
        Path | None,
        typer.Option(
            help="What `profile` measured of the pipeline and machine.", rich_help_panel=JOINT
        ),
    ] = None,
    learn_from: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Run directory whose batches and recoveries count.",
            rich_help_panel=JOINT,
        ),
    ] = None,
    intervals: Annotated[
        str | None,
        typer.Option(
            help="Batch intervals to choose from, comma-separated.", rich_help_panel=JOINT
        ),
    ] = None,
    snapshots: Annotated[
        str | None,
        typer.Option(help="Batches between snapshots to choose from.", rich_help_panel=JOINT),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            help="Nodes to spread units over, default 1; auto: as many as the bounds need.",
            rich_help_panel=JOINT,
        ),
    ] = None,
    recover: Annotated[
        bool,
        typer.Option(
            "--recover", help="Order in which failed tasks come back.", rich_help_panel=PPA
        ),
    ] = False,
    slots: Annotated[
        int | None, typer.Option(help="How many tasks can come back.", rich_help_panel=PPA)
    ] = None,
    arrivals: Annotated[
        str | None,
        typer.Option(help="Times at which slots arrive, comma-separated.", rich_help_panel=PPA),
    ] = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="The whole trade-off curve.", rich_help_panel=OUTPUT)
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="With --sweep: draw it to this .svg, .png or .pdf.", rich_help_panel=OUTPUT
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say why, in words.", rich_help_panel=OUTPUT)
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel=OUTPUT)
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write the JSON here.", rich_help_panel=OUTPUT),
    ] = None,
    time_limit: Annotated[
        str,
        typer.Option(
            help="Stop solving after this and give the best plan; 0 is no limit.",
            rich_help_panel=SOLVE,
        ),
    ] = DEFAULT_TIME_LIMIT,
    seed: Annotated[
        int, typer.Option(help="Seed of everything random.", rich_help_panel=SOLVE)
    ] = 0,
    algorithms: Annotated[
        bool,
        typer.Option(
            "--algorithms", help="List the method's algorithms and stop.", rich_help_panel=CHOICE
        ),
    ] = False,
) -> None:
    """Plan a pipeline or topology: what to log, how often to checkpoint, what to keep hot."""
    from holdfast.cli.check import inspected, is_app_name
    from holdfast.cli.deployment import parse_nodes
    from holdfast.cli.growth import as_it_runs, check_growth, kept_growth
    from holdfast.cli.learning import relearned
    from holdfast.cli.profiles import grounds, refuse_unknown
    from holdfast.errors import BadInputError
    from holdfast.planners.interface import PlanRequest
    from holdfast.planners.planning import as_measured, as_units
    from holdfast.planners.registry import planner as find_planner
    from holdfast.predict.statistics import load_statistics
    from holdfast.quantities import parse_share, parse_time

    is_app, again = is_app_name(file), None
    planner = find_planner(method or ("joint" if is_app else "ftc"))
    if algorithms:
        for name, text in planner.algorithms.items():
            typer.echo(f"{name:18} {text}")
        return
    check_growth(max_growth, planner.method, is_app=is_app, sweep=sweep)
    if is_app:
        pipeline = as_it_runs(inspected(file), learn_from if max_growth is None else None)
        topology = pipeline.topology()
        found = grounds(file, pipeline, stats, planner.method)
        refuse_unknown(found, max_overhead=max_overhead)
        if learn_from is not None:
            again = relearned(found, topology, learn_from)
            found = again.grounds
        statistics, said = found.statistics, found.said
        topology, statistics = as_units(planner, topology, statistics)
    else:
        topology = _load(file)
        if learn_from is not None:
            raise BadInputError("teaches nothing to a topology file", where="--from")
        statistics, said = None if stats is None else load_statistics(stats), ""
    unit = topology.unit.time

    def as_time(text: str | None, where: str) -> float | None:
        return None if text is None else parse_time(text, unit=unit, where=where)

    request = PlanRequest(
        algorithm=algorithm,
        max_recovery=as_time(max_recovery, "--max-recovery"),
        max_overhead=None
        if max_overhead is None
        else parse_share(max_overhead, where="--max-overhead"),
        max_latency=as_time(max_latency, "--max-latency"),
        max_outage=as_time(max_outage, "--max-outage"),
        nodes=parse_nodes(nodes),
        max_replicas=max_replicas,
        required=_names(required),
        forbidden=_names(forbidden),
        sources=sources,
        cost=cost,
        expected=expected,
        grid_overhead=grid_overhead,
        grid_frequency=grid_frequency,
        frequencies=_floats(frequencies, "--frequencies"),
        powers_of_two=powers_of_two,
        statistics=statistics,
        intervals=_floats(intervals, "--intervals"),
        snapshots=tuple(int(x) for x in _floats(snapshots, "--snapshots")),
        replicas=_budget(replicas),
        failed=_names(failed),
        failed_domains=_names(failed_domain),
        recover=recover,
        slots=slots,
        arrivals=_floats(arrivals, "--arrivals"),
    )
    topology, request = as_measured(planner, topology, request)
    limit = parse_time(time_limit, where="--time-limit")
    job = _Job(
        planner=planner,
        topology=topology,
        request=request,
        limit_s=limit or None,
        seed=seed,
        quiet=as_json,
        objective=objective,
        grounds=said,
    )
    if sweep:
        _show_sweep(job, plot=plot, as_json=as_json, out=out)
        return
    job, result = (job, job.plan()) if max_growth is None else _grown(job, pipeline, max_growth)
    if again is not None and max_growth is None:
        result = kept_growth(result, pipeline, again.plan)
    _show_plan(job, result, explain=explain, as_json=as_json, out=out)
    if again is not None and result.feasible:
        again.tell(result, lambda line: typer.echo(line, err=True))
    if not result.feasible:
        raise typer.Exit(1)


def _load(file: str) -> Topology:
    """The topology of a file."""
    import gc

    from holdfast.topology.files import load_topology

    topology = load_topology(file)
    # It stays to the end: nothing in it is ever garbage, so the collector need not look again.
    gc.freeze()
    return topology


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One planning call with everything it needs."""

    planner: Planner
    topology: Topology
    request: PlanRequest
    limit_s: float | None
    seed: int
    quiet: bool
    objective: Objective
    grounds: str
    """What a pipeline's numbers rest on; empty for a file, which says them itself."""

    def plan(self) -> Plan:
        from holdfast.planners.planning import make_best_plan

        with self._solving() as (solve, clock):
            return make_best_plan(
                self.planner, self.topology, self.request, solve, clock, objective=self.objective
            )

    def sweep(self) -> Sweep:
        from holdfast.planners.planning import make_sweep

        with self._solving() as (solve, _):
            return make_sweep(self.planner, self.topology, self.request, solve)

    @contextmanager
    def _solving(self) -> Iterator[tuple[Solve, Clock]]:
        """The world around the planner; Ctrl-C asks it for the best so far."""
        from holdfast.clock import SystemClock
        from holdfast.planners.planning import make_solve

        clock = SystemClock()
        with _interruptible() as stop, _progress(self.quiet, self.planner.method) as report:
            solve = make_solve(
                clock,
                time_limit_s=self.limit_s,
                interrupted=lambda: stop.pressed,
                report=report,
                seed=self.seed,
            )
            yield solve, clock


def _grown(job: _Job, pipeline: Pipeline, growth: float) -> tuple[_Job, Plan]:
    """The plan with room to grow, and the job that made it."""
    from holdfast.cli.growth import plan_growth

    def make(topology: Topology, request: PlanRequest) -> Plan:
        return replace(job, topology=topology, request=request).plan()

    topology, request, result = plan_growth(pipeline, job.request, growth, make)
    return replace(job, topology=topology, request=request), result


def _show_plan(job: _Job, result: Plan, *, explain: bool, as_json: bool, out: Path | None) -> None:
    if explain:
        reasons = tuple(job.planner.explain(job.topology, job.request, result))
        result = replace(result, explanation=reasons)
    if job.grounds and not result.note:
        result = replace(result, note=job.grounds)
    _emit(result.to_json(), as_json=as_json, out=out)
    if as_json:
        return
    from holdfast.cli.render import render_plan

    render_plan(job.topology, result, grounds=job.grounds)


def _show_sweep(job: _Job, *, plot: Path | None, as_json: bool, out: Path | None) -> None:
    sweep = job.sweep()
    data = {"method": job.planner.method, "algorithm": job.request.algorithm, **sweep.to_json()}
    _emit(data, as_json=as_json, out=out)
    if plot is not None:
        from holdfast.cli.plots import plot_sweep

        plot_sweep(sweep, plot)
    if as_json:
        return
    from holdfast.cli.render import render_sweep

    render_sweep(sweep, plot)


def _emit(data: dict[str, Any], *, as_json: bool, out: Path | None) -> None:
    import json

    if out is not None:
        from holdfast.errors import BadInputError

        try:
            out.write_text(json.dumps(data, indent=1) + "\n")
        except OSError as error:
            raise BadInputError(
                f"cannot be written: {error.strerror}", where=f"--out {out}"
            ) from None
    if as_json:
        typer.echo(json.dumps(data))


class _Stop:
    """Whether Ctrl-C was pressed once; a second press ends the command."""

    def __init__(self) -> None:
        self.pressed = False


@contextmanager
def _interruptible() -> Iterator[_Stop]:
    stop = _Stop()

    def on_signal(_number: int, _frame: object) -> None:
        if stop.pressed:
            raise KeyboardInterrupt
        stop.pressed = True
        print("\nstopping: the best plan so far follows", file=sys.stderr)  # noqa: T201

    previous = signal.signal(signal.SIGINT, on_signal)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous)


@contextmanager
def _progress(quiet: bool, method: str) -> Iterator[Any]:
    """A line on stderr that tells how far a long solve is; nothing when nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield lambda _progress: None
        return
    from rich.console import Console

    console = Console(stderr=True)
    with console.status(f"planning with {method} (Ctrl-C: take the best so far)") as status:

        def report(progress: Progress) -> None:
            numbers = [
                f"{name} {value:.6g}"
                for name, value in (("best", progress.objective), ("bound", progress.bound))
                if value is not None
            ]
            status.update(f"{method}: {progress.message} {', '.join(numbers)} (Ctrl-C: take it)")

        yield report


def _names(values: list[str] | None) -> tuple[str, ...]:
    return tuple(name for value in values or () for name in value.split(",") if name)


def _floats(text: str | None, where: str) -> tuple[float, ...]:
    from holdfast.errors import BadInputError

    try:
        return tuple(float(part) for part in (text or "").split(",") if part.strip())
    except ValueError:
        raise BadInputError(
            f"{text!r} is no list of numbers", where=where, hint="write 1,2,4"
        ) from None


def _budget(value: float | None) -> float | None:
    from holdfast.errors import BadInputError

    if value is not None and not 0 <= value < float("inf"):
        raise BadInputError(f"is {value:g}", where="--replicas", hint="write a number of 0 or more")
    return value
