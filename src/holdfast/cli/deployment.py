"""From options to a deployment: what `run` and `chaos` say about cuts, shards and paces."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.control.shell.application import absolute_app
from holdfast.errors import BadInputError
from holdfast.quantities import parse_time

if TYPE_CHECKING:
    from holdfast.model.deployment import Deployment
    from holdfast.pipeline import Pipeline

__all__ = [
    "Batch",
    "Cut",
    "Shards",
    "Snapshot",
    "absolute_app",
    "make_deployment",
    "parse_batches",
    "parse_shards",
    "plan_spares",
    "read_plan",
]

Cut = Annotated[
    list[str] | None,
    typer.Option("--cut", help="Operator to cut after; may be repeated; or all."),
]
Shards = Annotated[list[str] | None, typer.Option("--shards", help="OPERATOR=N; may be repeated.")]
Batch = Annotated[
    list[str] | None,
    typer.Option(
        "--batch",
        help="Batch interval, whole epochs: TIME for all, OPERATOR=TIME for one's segment.",
    ),
]
Snapshot = Annotated[
    int | None, typer.Option("--snapshot", min=1, help="Batches between state snapshots.")
]

DEFAULT_SNAPSHOT = 10
"""Batches between snapshots, if nobody says."""


def read_plan(path: Path) -> dict[str, Any]:
    """A plan as `holdfast plan --json` prints it."""
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInputError(f"cannot be read as JSON: {error}", where=str(path)) from None
    if not isinstance(plan, dict):
        raise BadInputError("is not a plan", where=str(path), hint="write one with `plan --json`")
    return plan


def make_deployment(
    pipeline: Pipeline,
    *,
    plan: Mapping[str, Any] | None = None,
    cut: Iterable[str] = (),
    shards: Iterable[str] = (),
    batch: Iterable[str] = (),
    snapshot: int | None = None,
) -> Deployment:
    """The deployment that a plan, or the options by hand, ask for."""
    from holdfast.pipeline import deploy
    from holdfast.planners.joint.result import deploy_options

    cut, batch = list(cut), list(batch)
    counts = parse_shards(shards)
    if plan is not None and cut:
        raise BadInputError("--plan and --cut exclude each other")
    if plan is not None and plan.get("method") == "joint":
        if batch or snapshot is not None:
            raise BadInputError("a joint plan says the batch and snapshot intervals itself")
        return deploy(pipeline, shards=counts, **deploy_options(plan))
    cuts: Any = plan if plan is not None else "all" if cut == ["all"] else cut or "none"
    common, single = parse_batches(batch, pipeline.epoch_s)
    paced = dict(single)
    if common is not None:
        # A segment with a pace of its own keeps it; the common one would undercut it.
        for segment in deploy(pipeline, cuts=cuts, shards=counts).segments:
            if segment.kind != "exporter" and not set(segment.operators) & set(single):
                paced.update(dict.fromkeys(segment.operators, common))
    return deploy(
        pipeline,
        cuts=cuts,
        shards=counts,
        batch_epochs=paced,
        snapshot_batches=snapshot or DEFAULT_SNAPSHOT,
    )


def plan_spares(plan: Mapping[str, Any] | None, spares: int | None) -> int:
    """Warm spares: as asked for, as planned, or one."""
    if spares is not None:
        return spares
    planned = plan.get("spares") if plan is not None else None
    return 1 if planned is None else int(planned)


def parse_shards(items: Iterable[str]) -> dict[str, int]:
    """OPERATOR=N, repeated."""
    shards = {}
    for item in items:
        name, _, number = item.partition("=")
        if not name or not number.isdigit():
            raise BadInputError(f"{item!r} is not OPERATOR=N", where="--shards")
        shards[name] = int(number)
    return shards


def parse_batches(items: Iterable[str], epoch_s: float) -> tuple[int | None, dict[str, int]]:
    """TIME or OPERATOR=TIME, repeated: epochs for all (None: not said) and by operator."""
    common: int | None = None
    single: dict[str, int] = {}
    for item in items:
        name, equals, text = item.rpartition("=")
        where = f"--batch {item}"
        seconds = parse_time(text, where=where)
        epochs = round(seconds / epoch_s)
        if epochs < 1 or abs(epochs * epoch_s - seconds) > 1e-6 * epoch_s:
            raise BadInputError(
                f"is not a whole number of epochs of {epoch_s:g} s",
                where=where,
                hint=f"such as {max(1, epochs) * epoch_s:g}s",
            )
        if not equals:
            common = epochs
        elif name:
            single[name] = epochs
        else:
            raise BadInputError("names no operator", where=where, hint="OPERATOR=TIME")
    return common, single
