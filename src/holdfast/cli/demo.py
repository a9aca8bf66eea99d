"""`holdfast demo`: the whole product in under three minutes, told as it happens.

Profile the word count, plan it for a bound, run it, kill its node in front of everybody, compare
the recovery with what was promised, and check that every row is there exactly once.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.shipped import shipped
from holdfast.errors import BadInputError

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.control.status import RunView
    from holdfast.pipeline import Pipeline
    from holdfast.plan import JointPlan
    from holdfast.predict.statistics import Statistics
    from holdfast.prove.judge import Normal, Recovered
    from holdfast.prove.result import Audience, Proof, Struck
    from holdfast.topology.graph import Topology

PROFILE_S = 12.0
"""How long the pipeline runs to be profiled; the rest of a quick profile takes as long again."""
CALM_SLICES = 5
"""Fewer than in a real proof: one kill needs no fine percentiles."""
INTERRUPTED = 130


def demo(
    out: Annotated[Path, typer.Option(help="Where drawings, plans and the report go.")] = Path(
        "out/demo"
    ),
    max_recovery: Annotated[str, typer.Option(help="Bound on recovery.")] = "5s",
    max_latency: Annotated[str, typer.Option(help="Bound on end-to-end latency.")] = "4s",
    faults: Annotated[int, typer.Option(min=1, help="Nodes to kill, one after another.")] = 1,
    planners: Annotated[
        bool,
        typer.Option("--planners", help="Only plan the shipped topologies with every method."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Profile, plan, run, break and check the word count, with a report at the end.

    Takes under three minutes on two cores, and a minute more the first time.
    """
    if planners:
        from holdfast.cli.demo_planners import plan_everything

        plan_everything(out, as_json=as_json)
        return
    from rich.console import Console

    from holdfast.cli.prove import interruptible
    from holdfast.quantities import parse_time

    bounds = {
        "max_recovery": parse_time(max_recovery, where="--max-recovery"),
        "max_latency": parse_time(max_latency, where="--max-latency"),
    }
    teller = _Teller(Console(stderr=as_json, highlight=False))
    try:
        with interruptible():
            proof = _tell(teller, out, bounds, faults)
    except KeyboardInterrupt:
        teller.line("interrupted; nothing is left running")
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        typer.echo(json.dumps(proof.to_json()))
    if proof.note and not proof.gave_way:
        raise typer.Exit(INTERRUPTED)
    if not proof.ok:
        raise typer.Exit(1)


class _Teller:
    """Short headed sections, and a line that moves while there is nothing to tell."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._began = time.monotonic()
        self._status: Any = None

    def head(self, title: str) -> None:
        self.quiet()
        passed = time.monotonic() - self._began
        self.console.print()
        self.console.rule(
            f"[bold]{title}[/] [dim]{passed:.0f} s[/]", align="left", style="dim cyan"
        )

    def line(self, text: str = "") -> None:
        self.console.print(text, soft_wrap=True)

    def wait(self, text: str) -> None:
        """What is going on now, in a line that is gone when it is over."""
        if not self.console.is_terminal:
            self.console.print(f"[dim]{text} ...[/]")
        elif self._status is None:
            self._status = self.console.status(f"[dim]{text}[/]")
            self._status.start()
        else:
            self._status.update(f"[dim]{text}[/]")

    def quiet(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def _tell(teller: _Teller, out: Path, bounds: Mapping[str, float], faults: int) -> Proof:
    from holdfast.cli.deployment import absolute_app
    from holdfast.cli.prove import show_proof, write_report
    from holdfast.pipeline import load_pipeline
    from holdfast.runtime.spark.start.prepare import prepare

    app = absolute_app(str(shipped("word_count.py")))
    pipeline = load_pipeline(app)
    topology = pipeline.topology()
    run_dir = _fresh(out)
    try:
        teller.line(
            "[bold]Holdfast[/] plans how a streaming pipeline is cut, logged and kept on standby, "
            "runs it on Spark,\nand proves by breaking it that failures recover as planned."
        )
        prepare(teller.wait)
        teller.head("1  Measure")
        statistics = _profile(teller, app)
        teller.head("2  Plan")
        plan = _plan(teller, topology, statistics, bounds)
        _save(out / "plan.json", json.dumps(plan.to_json(), indent=1) + "\n")
        teller.head("3  Run and break")
        proof = _break(teller, app, pipeline, plan, run_dir, faults)
        teller.head("4  Promised and measured")
        teller.quiet()
        show_proof(teller.console, proof)
    finally:
        teller.quiet()
    page = out / "report.html"
    command = [
        *("holdfast", "prove", _near(app), "--plan", _near(out / "plan.json")),
        *("--nodes", "1", "--faults", "20"),
    ]
    write_report(proof, topology, page, command=command)
    teller.line()
    teller.line(f"The report with all plots: [bold]{page}[/]")
    teller.line(f"[dim]Few faults prove little. A longer proof: {' '.join(command)}[/]")
    return proof


def _fresh(out: Path) -> Path:
    """An empty place for the run; that of an earlier demo is removed."""
    from holdfast.rundir.contents import is_run
    from holdfast.runtime.launch.children import ProcessList

    run_dir = out / "run"
    if run_dir.exists():
        if not is_run(run_dir) and any(run_dir.iterdir()):
            raise BadInputError("is not a run of an earlier demo", where=str(run_dir))
        if ProcessList(run_dir).leftovers():
            raise BadInputError("is in use", where=str(run_dir), hint="stop that demo first")
        shutil.rmtree(run_dir)
    try:
        run_dir.mkdir(parents=True)
    except OSError as error:
        raise BadInputError(f"cannot be made: {error.strerror}", where=str(run_dir)) from None
    return run_dir


def _near(path: str | Path) -> str:
    """A path as one would type it here."""
    whole = Path(path).resolve()
    return str(whole.relative_to(Path.cwd()) if whole.is_relative_to(Path.cwd()) else whole)


def _save(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


# -- measure --------------------------------------------------------------------------------------


def _profile(teller: _Teller, app: str) -> Statistics:
    """What the pipeline and the machine do, measured for a few seconds."""
    from holdfast.profile import profile

    teller.wait("running the word count cut at every operator, to see what each one does")
    statistics = profile(app, PROFILE_S, quick=True, say=teller.wait)
    teller.quiet()
    teller.console.print(_operators_table(statistics))
    return statistics


def _operators_table(statistics: Statistics) -> Any:
    table = _table("operator", "rows/s in", "out per row", "cost per row", "bytes per row", "state")
    for name, found in statistics.operators.items():
        table.add_row(
            name,
            _value(found.input_rate, "{:,.0f}"),
            _value(found.selectivity, "{:.2f}"),
            _value(found.cost, "{:,.1f} us", 1e6),
            _value(found.tuple_size, "{:,.0f}"),
            _value(found.state_size, "{:,.1f} KB", 1e-3),
        )
    return table


def _value(measure: Any, form: str, scale: float = 1.0) -> str:
    return "-" if measure is None else form.format(measure.value * scale)


# -- plan -----------------------------------------------------------------------------------------


def _plan(
    teller: _Teller, topology: Topology, statistics: Statistics, bounds: Mapping[str, float]
) -> JointPlan:
    """The cheapest plan within the bounds, or within the nearest that can be kept."""
    from holdfast.clock import SystemClock
    from holdfast.draw import draw_text
    from holdfast.plan import JointPlan
    from holdfast.planners.interface import PlanRequest
    from holdfast.planners.planning import plan_topology

    clock = SystemClock()

    def ask(asked: Mapping[str, float]) -> JointPlan:
        # It runs on one node, where a follower would have no place of its own.
        request = PlanRequest(statistics=statistics, max_replicas=0, **asked)  # type: ignore[arg-type]
        found = plan_topology(topology, request, clock=clock, method="joint", time_limit_s=10.0)
        if not isinstance(found, JointPlan):
            raise TypeError("not a joint plan")
        return found

    plan = ask(bounds)
    teller.line(f"Asked for: {_bound_words(bounds)}.")
    if not plan.feasible:
        nearest = {**bounds, **_nearest(plan)}
        teller.line(
            f"That cannot be promised here; the nearest bounds can: {_bound_words(nearest)}."
        )
        plan = ask(nearest)
    if not plan.feasible:
        raise BadInputError(
            plan.note or "no plan keeps the bounds", where="demo", hint="allow more"
        )
    teller.line()
    teller.line(draw_text(topology, plan, width=teller.console.width).rstrip())
    teller.line()
    teller.console.print(_segments_table(plan))
    proved = "proved cheapest" if plan.optimal else "the best found"
    teller.line(
        f"[dim]{plan.cpu:.2f} cores, {plan.overhead:.0%} more than uncut; results within "
        f"{plan.end_to_end_latency:.1f} s; warm spares: {plan.spares}; {proved} in "
        f"{plan.solve_ms:.0f} ms[/]"
    )
    return plan


def _nearest(plan: JointPlan) -> dict[str, float]:
    """Bounds that a plan achieves, a little loosened so that rounding does not matter."""
    alone = {name: value for name, value in plan.nearest.items() if value is not None}
    chosen = dict([min(alone.items())]) if alone else plan.nearest_together
    return {name: round(value * 1.01 + 0.05, 2) for name, value in chosen.items()}


def _bound_words(bounds: Mapping[str, float]) -> str:
    names = {"max_recovery": "recovery", "max_latency": "results"}
    return ", ".join(f"{names[name]} within {value:g} s" for name, value in bounds.items())


def _segments_table(plan: JointPlan) -> Any:
    table = _table("segment", "operators", "batch every", "recovery", "p95")
    for segment in plan.segments:
        latency = plan.recovery_latency[segment.name]
        table.add_row(
            segment.name,
            ", ".join(segment.operators),
            f"{segment.batch_interval:g} s",
            f"{latency.median:.2f} s",
            f"{latency.p95:.2f} s",
        )
    return table


# -- run and break --------------------------------------------------------------------------------


def _break(
    teller: _Teller,
    app: str,
    pipeline: Pipeline,
    plan: JointPlan,
    run_dir: Path,
    faults: int,
) -> Proof:
    from holdfast.cli.deployment import make_deployment
    from holdfast.prove.run import Proving, prove

    proving = Proving(
        app=app,
        pipeline=pipeline,
        deployment=make_deployment(pipeline, plan=plan),
        plan=plan,
        faults=faults,
        nodes=1,
        # Whoever watches should not have to wait for a cold start.
        spares=max(1, plan.spares or 0),
        calm_slices=CALM_SLICES,
    )
    return prove(proving, run_dir, _audience(teller))


@dataclass(slots=True)
class _Seen:
    """What was told of the present fault already."""

    detected: set[str]
    restored: set[str]


def _audience(teller: _Teller) -> Audience:
    """Tells what happens, each thing once."""
    from holdfast.cli.prove import recovery_words
    from holdfast.prove.result import Audience

    class Story(Audience):
        def __init__(self) -> None:
            self._seen = _Seen(detected=set(), restored=set())

        def say(self, line: str) -> None:
            teller.wait(line)

        def steady(self, normal: Mapping[str, Normal]) -> None:
            teller.quiet()
            lags = ", ".join(f"{unit} {lag.median:.2f} s" for unit, lag in normal.items())
            teller.line(f"Running. Slices come so long after they are due: {lags}.")

        def struck(self, fault: Struck, view: RunView) -> None:
            teller.quiet()
            self._seen = _Seen(detected=set(), restored=set())
            node = next(item for item in view.nodes if item.node == fault.node)
            number = max(0, (node.processes or 1) - 1)
            children = "child" if number == 1 else f"{number} children"
            teller.line()
            teller.line(
                f"[bold red]kill -9[/] node {fault.node} (process {node.pid} and its {children}), "
                f"home of {', '.join(node.units)}"
            )

        def watched(self, fault: Struck, view: RunView) -> None:
            for item in view.recoveries:
                if item.detected_at < fault.killed_at:
                    continue
                at = item.detected_at - fault.killed_at
                if not self._seen.detected:
                    self._tell(at, "failure detected")
                self._seen.detected.add(item.unit)
                if item.restored_at is not None and item.unit not in self._seen.restored:
                    self._seen.restored.add(item.unit)
                    after = item.restored_at - fault.killed_at
                    self._tell(after, f"{item.unit} runs on {item.to_node}")

        def recovered(self, fault: Struck, recoveries: Sequence[Recovered]) -> None:
            del fault
            teller.quiet()
            teller.line(f"[green]Nothing is missing any more:[/] {recovery_words(recoveries)}.")

        def _tell(self, after: float, text: str) -> None:
            teller.quiet()
            teller.line(f"  [cyan]{after:5.2f} s[/]  {text}")

    return Story()


def _table(*columns: str) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for index, column in enumerate(columns):
        text = index == 0 or column == "operators"
        table.add_column(column, justify="left" if text else "right", no_wrap=True)
    return table
