"""Plans and curves as people read them in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.growth import growth_lines
from holdfast.cli.sentences import sentence
from holdfast.plan import (
    FastRecoverPlan,
    FtcPlan,
    JointPlan,
    Latency,
    Plan,
    RecoveryPlan,
    ReplicationPlan,
)
from holdfast.planners.interface import Sweep
from holdfast.quantities import format_time
from holdfast.topology.graph import Topology

MAX_ROWS = 40
"""Longer lists are cut on the screen; --json has them whole."""


def render_plan(topology: Topology, plan: Plan, *, grounds: str = "") -> None:
    """Print a plan: a sentence, what it rests on, what was chosen, what it promises, why."""
    console = Console(highlight=False)
    said = sentence(topology, plan)
    console.print(Text(said), soft_wrap=True)
    if grounds:
        console.print(Text(grounds, style="yellow"), soft_wrap=True)
    console.print(_headline(topology, plan))
    if plan.note and plan.note != grounds and plan.note not in said:
        console.print(Text(plan.note, style="yellow"), soft_wrap=True)
    if plan.feasible:
        unit = topology.unit.time
        table = _table(plan, unit)
        if table is not None:
            console.print(table)
        for line in _figures(plan, unit):
            console.print(line)
        for line in growth_lines(plan)[:MAX_ROWS]:
            console.print(Text(line), soft_wrap=True)
    reasons = plan.explanation or ()
    for reason in reasons[:MAX_ROWS]:
        console.print(f"- {reason}", soft_wrap=True)
    if len(reasons) > MAX_ROWS:
        console.print(f"... and {len(reasons) - MAX_ROWS} more (--json has all)")


def _headline(topology: Topology, plan: Plan) -> Text:
    text = Text(f"{topology.name}: {plan.method}/{plan.algorithm}", style="bold")
    if plan.feasible:
        if plan.optimal:
            text.append("  optimal", style="green")
        elif plan.bound is not None and plan.objective is not None:
            gap = abs(plan.objective - plan.bound) / max(abs(plan.bound), 1e-12)
            text.append(f"  within {gap:.1%} of optimal", "yellow")
        else:
            text.append("  heuristic", style="yellow")
    else:
        text.append("  infeasible", style="red")
    text.append(f"  {format_time(plan.solve_ms / 1000)}", style="dim")
    return text


def _table(plan: Plan, unit: str) -> Table | None:
    match plan:
        case FtcPlan():
            return _backups(plan, unit)
        case FastRecoverPlan():
            return _checkpoints(plan, unit)
        case JointPlan():
            return _segments(plan, unit)
        case ReplicationPlan():
            return _queries(plan)
        case RecoveryPlan(order=order) if order:
            return _order(plan, unit)
    return None


def _backups(plan: FtcPlan, unit: str) -> Table:
    latency, chosen = plan.recovery_latency, set(plan.backups)
    table = Table("task", "backup", f"recovery ({unit})")
    slowest = sorted(latency, key=lambda task: -latency[task])[:MAX_ROWS]
    shown = set(slowest) if len(latency) > MAX_ROWS else set(latency)
    for task, value in latency.items():
        if task in shown:
            table.add_row(task, "[bold]yes[/]" if task in chosen else "", f"{value:g}")
    if len(latency) > MAX_ROWS:
        table.caption = f"the {MAX_ROWS} slowest of {len(latency)} tasks"
    return table


def _checkpoints(plan: FastRecoverPlan, unit: str) -> Table:
    table = Table("head", "operators", f"checkpoints per {unit}", f"interval ({unit})")
    for segment in plan.segments[:MAX_ROWS]:
        frequency = segment.frequency
        table.add_row(
            segment.head,
            _shorten(segment.operators),
            f"{frequency:.4g}" if frequency is not None else "-",
            f"{1 / frequency:.4g}" if frequency else "-",
        )
    return _captioned(table, len(plan.segments))


def _segments(plan: JointPlan, unit: str) -> Table:
    table = Table("segment", "operators", f"batch every ({unit})", f"snapshot every ({unit})")
    table.add_column(f"recovery, median / p95 ({unit})")
    for segment in plan.segments[:MAX_ROWS]:
        recovery = plan.recovery_latency[segment.name]
        table.add_row(
            segment.name,
            _shorten(segment.operators),
            f"{segment.batch_interval:g}",
            "-" if segment.snapshot_interval is None else f"{segment.snapshot_interval:g}",
            f"{recovery.median:.3g} / {recovery.p95:.3g}",
        )
    return _captioned(table, len(plan.segments))


def _captioned(table: Table, segments: int) -> Table:
    if segments > MAX_ROWS:
        table.caption = f"{MAX_ROWS} of {segments} segments"
    return table


def _queries(plan: ReplicationPlan) -> Table:
    table = Table("query", "fidelity")
    for query, fidelity in plan.fidelity_per_query.items():
        table.add_row(query, f"{fidelity:.4f}")
    return table


def _order(plan: RecoveryPlan, unit: str) -> Table:
    table = Table("#", "task", f"back at ({unit})", "fidelity then")
    curve = plan.fidelity_curve[len(plan.fidelity_curve) - len(plan.order) :]
    rows = list(zip(plan.order, plan.times, curve, strict=False))
    for i, (task, time, fidelity) in enumerate(rows[:MAX_ROWS], 1):
        table.add_row(str(i), task, f"{time:g}", f"{fidelity:.4f}")
    return table


def _figures(plan: Plan, unit: str) -> Iterator[str]:
    match plan:
        case FtcPlan():
            yield (
                f"{_count(plan.count, 'backup')}: {_shorten(plan.backups)}; "
                f"slowest recovery {plan.overall:g} {unit}"
            )
        case FastRecoverPlan():
            yield (
                f"expected recovery time {plan.expected_recovery_time:.6g} {unit}, "
                f"checkpoint overhead {plan.checkpoint_overhead:.4g}"
            )
        case JointPlan(results_recovery=Latency() as back):
            yield (
                f"end to end {plan.end_to_end_latency:.3g} {unit}, overhead {plan.overhead:.1%} "
                f"({plan.cpu:.3g} cores, uncut {plan.uncut_cpu:.3g}), "
                f"{_count(plan.spares, 'warm spare')}"
            )
            if plan.replicas:
                yield (
                    f"hot followers of {_shorten(plan.replicas)}: {plan.replica_cpu:.3g} cores, "
                    f"{plan.replica_memory / 1e9:.3g} GB"
                )
            yield from _deaths(plan, back, unit)
        case ReplicationPlan():
            yield (
                f"{_count(len(plan.replicas), 'replica')}: {_shorten(plan.replicas)}; fidelity "
                f"{plan.fidelity:.4f}, completeness {plan.completeness:.4f}"
            )
        case RecoveryPlan() if plan.average_fidelity is not None:
            yield f"average fidelity while recovering {plan.average_fidelity:.4f}"
    if plan.bound is not None and not plan.optimal:
        yield f"objective {plan.objective:.6g}, proved bound {plan.bound:.6g}"


def _deaths(plan: JointPlan, back: Latency, unit: str) -> Iterator[str]:
    """What each node's death would cost."""
    if plan.replicas:
        yield (
            "followers, with those of the sinks they feed, need a node in another failure domain; "
            "a unit that is lost together with its follower recovers as if it had none"
        )
    if len(plan.nodes) <= 1:
        yield (
            f"if a node is lost with all it runs, results are complete again after "
            f"{back.median:.3g} {unit}, p95 {back.p95:.3g} {unit}"
        )
        return
    for number, node in enumerate(plan.nodes, start=1):
        if node.recovery is None or node.results is None:
            yield f"node {number} has nothing to do"
            continue
        yield (
            f"node {number} ({_shorten(node.segments)}): its death costs {node.slowest} "
            f"{node.recovery.median:.3g} {unit}, p95 {node.recovery.p95:.3g} {unit}; all results "
            f"are back after {node.results.median:.3g} {unit}, p95 {node.results.p95:.3g} {unit}"
        )


def _count(number: float | None, what: str) -> str:
    return f"{number:g} {what}" if number == 1 else f"{number or 0:g} {what}s"


def _shorten(names: Sequence[str], most: int = 12) -> str:
    if not names:
        return "none"
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} ... ({len(names)} in all)"


def render_sweep(sweep: Sweep, plot: Path | None) -> None:
    """Print a trade-off curve as a table with bars."""
    console = Console(highlight=False)
    values = [point.y for point in (*sweep.points, *sweep.marks) if point.y is not None]
    top = max(values, default=0.0) or 1.0
    table = Table(sweep.x_label, sweep.y_label, "", title=sweep.title)
    for point in sweep.points[:MAX_ROWS]:
        bar = "" if point.y is None else "█" * round(24 * point.y / top)
        table.add_row(f"{point.x:.6g}", "infeasible" if point.y is None else f"{point.y:.6g}", bar)
    if len(sweep.points) > MAX_ROWS:
        table.caption = f"{MAX_ROWS} of {len(sweep.points)} points; --json has all"
    console.print(table)
    for mark in sweep.marks:
        said = "infeasible" if mark.y is None else f"{mark.x:.6g}, {mark.y:.6g}"
        console.print(f"{mark.label}: {said}")
    if plot is not None:
        console.print(f"drawn to {plot}")
