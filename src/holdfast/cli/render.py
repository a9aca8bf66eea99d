"""Plans and curves as people read them in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.planners.interface import PlanResult, Sweep
from holdfast.quantities import format_time
from holdfast.topology.graph import Topology

MAX_ROWS = 40
"""Longer lists are cut on the screen; --json has them whole."""


def render_plan(topology: Topology, result: PlanResult, reasons: Sequence[str]) -> None:
    """Print a plan: verdict, what was chosen, what it promises, why."""
    console = Console(highlight=False)
    data = result.to_json()
    console.print(_headline(topology, data))
    if not result.feasible:
        console.print(f"[red]infeasible[/]: {result.note or 'no plan keeps the bounds'}")
    elif result.note:
        console.print(f"[yellow]{result.note}[/]")
    if result.feasible:
        unit = topology.unit.time
        for show in (_backups, _segments, _replicas, _recovery):
            table = show(data, unit)
            if table is not None:
                console.print(table)
        for line in _figures(data, unit):
            console.print(line)
    for reason in reasons[:MAX_ROWS]:
        console.print(f"- {reason}", soft_wrap=True)
    if len(reasons) > MAX_ROWS:
        console.print(f"... and {len(reasons) - MAX_ROWS} more (--json has all)")


def _headline(topology: Topology, data: dict[str, Any]) -> Text:
    text = Text(f"{topology.name}: {data['method']}/{data['algorithm']}", style="bold")
    if data["feasible"]:
        if data["optimal"]:
            text.append("  optimal", style="green")
        elif data["bound"] is not None:
            text.append(f"  within {_gap(data['objective'], data['bound'])} of optimal", "yellow")
        else:
            text.append("  heuristic", style="yellow")
    text.append(f"  {format_time(data['solve_ms'] / 1000)}", style="dim")
    return text


def _gap(objective: float, bound: float) -> str:
    return f"{abs(objective - bound) / max(abs(bound), 1e-12):.1%}"


def _backups(data: dict[str, Any], unit: str) -> Table | None:
    latency = data.get("recovery_latency")
    if not isinstance(latency, dict) or "backups" not in data:
        return None
    chosen = set(data["backups"])
    table = Table("task", "backup", f"recovery ({unit})")
    slowest = sorted(latency, key=lambda task: -latency[task])[:MAX_ROWS]
    shown = set(slowest) if len(latency) > MAX_ROWS else set(latency)
    for task, value in latency.items():
        if task in shown:
            table.add_row(task, "[bold]yes[/]" if task in chosen else "", f"{value:g}")
    if len(latency) > MAX_ROWS:
        table.caption = f"the {MAX_ROWS} slowest of {len(latency)} tasks"
    return table


def _segments(data: dict[str, Any], unit: str) -> Table | None:
    if "segments" not in data:
        return None
    if data["method"] == "joint":
        return _joint_segments(data, unit)
    table = Table("head", "operators", f"checkpoints per {unit}", f"interval ({unit})")
    for segment in data["segments"][:MAX_ROWS]:
        frequency = segment["frequency"]
        table.add_row(
            segment["head"],
            _shorten(segment["operators"]),
            f"{frequency:.4g}" if frequency is not None else "-",
            f"{1 / frequency:.4g}" if frequency else "-",
        )
    if len(data["segments"]) > MAX_ROWS:
        table.caption = f"{MAX_ROWS} of {len(data['segments'])} segments"
    return table


def _joint_segments(data: dict[str, Any], unit: str) -> Table:
    table = Table("segment", "operators", f"batch every ({unit})", f"snapshot every ({unit})")
    table.add_column(f"recovery, median / 95% ({unit})")
    for segment in data["segments"][:MAX_ROWS]:
        recovery = data["recovery_latency"][segment["name"]]
        table.add_row(
            segment["name"],
            _shorten(segment["operators"]),
            f"{segment['batch_interval']:g}",
            "-" if segment["snapshot_interval"] is None else f"{segment['snapshot_interval']:g}",
            f"{recovery['median']:.3g} / {recovery['p95']:.3g}",
        )
    if len(data["segments"]) > MAX_ROWS:
        table.caption = f"{MAX_ROWS} of {len(data['segments'])} segments"
    return table


def _replicas(data: dict[str, Any], _unit: str) -> Table | None:
    if "replicas" not in data:
        return None
    table = Table("query", "fidelity")
    for query, fidelity in data.get("fidelity_per_query", {}).items():
        table.add_row(query, f"{fidelity:.4f}")
    return table


def _recovery(data: dict[str, Any], unit: str) -> Table | None:
    if not data.get("order"):
        return None
    table = Table("#", "task", f"back at ({unit})", "fidelity then")
    curve = data["fidelity_curve"]
    offset = len(curve) - len(data["order"])
    rows = list(zip(data["order"], data["times"], curve[offset:], strict=False))
    for i, (task, time, fidelity) in enumerate(rows[:MAX_ROWS], 1):
        table.add_row(str(i), task, f"{time:g}", f"{fidelity:.4f}")
    return table


def _figures(data: dict[str, Any], unit: str) -> list[str]:
    lines = []
    if "backups" in data:
        lines.append(
            f"{data['count']} backups: {_shorten(data['backups'])}; "
            f"slowest recovery {data['overall']:g} {unit}"
        )
    if "expected_recovery_time" in data:
        lines.append(
            f"expected recovery time {data['expected_recovery_time']:.6g} {unit}, "
            f"checkpoint overhead {data['checkpoint_overhead']:.4g}"
        )
    if data["method"] == "joint":
        lines.append(
            f"end to end {data['end_to_end_latency']:.3g} {unit}, overhead {data['overhead']:.1%} "
            f"({data['cpu']:.3g} cores, uncut {data['uncut_cpu']:.3g}), "
            f"{data['spares']} warm spares"
        )
        back = data["results_recovery"]
        lines.append(
            f"if everything is lost at once, results are complete again after "
            f"{back['median']:.3g} {unit}, 95% {back['p95']:.3g} {unit}"
        )
    if "replicas" in data:
        lines.append(
            f"{len(data['replicas'])} replicas: {_shorten(data['replicas'])}; fidelity "
            f"{data['fidelity']:.4f}, completeness {data['completeness']:.4f}"
        )
    if data.get("average_fidelity") is not None:
        lines.append(f"average fidelity while recovering {data['average_fidelity']:.4f}")
    if data["bound"] is not None and not data["optimal"]:
        lines.append(f"objective {data['objective']:.6g}, proved bound {data['bound']:.6g}")
    return lines


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
