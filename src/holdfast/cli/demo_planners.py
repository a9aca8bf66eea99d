"""`holdfast demo --planners`: the shipped topologies planned with every method, and drawn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from holdfast.cli.shipped import shipped
from holdfast.plan import FastRecoverPlan, FtcPlan, Plan, ReplicationPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    """One method asked of one shipped topology, with bounds that show a trade-off."""

    topology: str
    method: str
    options: dict[str, Any]
    said: str
    """The bound, in words."""


def _asks() -> Iterator[_Ask]:
    bounds: dict[str, tuple[float | None, float | None, int | None]] = {
        # file: (max recovery for ftc, max overhead for fastrecover, replicas for ppa)
        "trending": (6.0, 0.6, 9),
        "sentiment": (3.0, 5.0, 40),
        "signalguru": (16.0, 1.5, 20),
        "fastrecover-chain": (3.0, 0.4, None),
        "q1-top100": (None, None, 20),
        "q2-incidents": (None, None, 12),
    }
    for name, (recovery, overhead, replicas) in bounds.items():
        if recovery is not None:
            options = {"max_recovery": recovery}
            yield _Ask(
                topology=name, method="ftc", options=options, said=f"recovery <= {recovery:g}"
            )
        if overhead is not None:
            options = {"max_overhead": overhead}
            yield _Ask(
                topology=name,
                method="fastrecover",
                options=options,
                said=f"overhead <= {overhead:g}",
            )
        if replicas is not None:
            options = {"replicas": float(replicas)}
            yield _Ask(topology=name, method="ppa", options=options, said=f"{replicas} replicas")


def plan_everything(out: Path, *, as_json: bool) -> None:
    """Plan the shipped topologies with every method, side by side, and draw the plans."""
    from holdfast.clock import SystemClock
    from holdfast.draw import draw_svg
    from holdfast.planners.interface import PlanRequest
    from holdfast.planners.planning import make_plan, make_solve
    from holdfast.planners.registry import planner as find_planner
    from holdfast.topology.files import load_topology

    home = shipped("topologies")
    out.mkdir(parents=True, exist_ok=True)
    clock = SystemClock()
    rows: list[dict[str, Any]] = []
    for ask in _asks():
        topology = load_topology(home / f"{ask.topology}.yaml")
        plan = make_plan(
            find_planner(ask.method),
            topology,
            PlanRequest(**ask.options),
            make_solve(clock, time_limit_s=10.0),
            clock,
        )
        drawing = out / f"{ask.topology}-{ask.method}.svg"
        drawing.write_text(draw_svg(topology, plan))
        drawing.with_suffix(".json").write_text(json.dumps(plan.to_json(), indent=1) + "\n")
        rows.append(
            {
                "topology": ask.topology,
                "method": ask.method,
                "asked": ask.said,
                "answer": _answer(plan, topology.unit.time),
                "proved": _proved(plan),
                "ms": plan.solve_ms,
                "drawing": str(drawing),
            }
        )
    if as_json:
        typer.echo(json.dumps({"plans": rows}))
        return
    _print(rows, out)


def _answer(plan: Plan, unit: str) -> str:
    match plan:
        case Plan(feasible=False):
            return f"infeasible: {plan.note}"
        case FtcPlan():
            return f"{plan.count} backups, all back in {plan.overall:g} {unit}"
        case FastRecoverPlan():
            expected = f"{plan.expected_recovery_time:.3g} {unit}"
            return f"{len(plan.segments)} segments, expected {expected}"
        case ReplicationPlan():
            return f"{len(plan.replicas)} replicas, fidelity {plan.fidelity:.3f}"
    return plan.note


def _proved(plan: Plan) -> str:
    if plan.optimal:
        return "optimal"
    if not plan.feasible or plan.objective is None or not plan.bound:
        return "-"
    return f"within {abs(plan.objective - plan.bound) / abs(plan.bound):.1%}"


def _print(rows: list[dict[str, Any]], out: Path) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table("method", "asked", "answer", "proved", "ms", box=box.SIMPLE_HEAD)
    previous = ""
    for row in rows:
        if row["topology"] != previous:
            if previous:
                table.add_section()
            table.add_row(f"[bold]{row['topology']}[/]")
            previous = row["topology"]
        cells = (row["method"], row["asked"], row["answer"], row["proved"], f"{row['ms']:.0f}")
        table.add_row(f"  {cells[0]}", *cells[1:])
    console = Console(highlight=False)
    console.print(table)
    console.print(f"drawings and plans: {out}/", soft_wrap=True)
