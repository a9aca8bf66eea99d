"""`plan --max-growth`: state kept so that a run can grow without laying it out anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.pipeline import Pipeline
    from holdfast.plan import Plan
    from holdfast.planners.interface import PlanRequest
    from holdfast.topology.graph import Topology

MakePlan = Callable[["Topology", "PlanRequest"], "Plan"]


def check_growth(growth: float | None, method: str, *, is_app: bool) -> None:
    """Raise if room to grow is asked for where it cannot be planned."""
    from holdfast.errors import BadInputError

    if growth is None:
        return
    if method != "joint":
        raise BadInputError(
            f"the method {method} does not plan it", where="--max-growth", hint="--method joint"
        )
    if not is_app:
        raise BadInputError(
            "a topology file does not say what is kept by a key",
            where="--max-growth",
            hint="plan the pipeline itself: holdfast plan APP",
        )


def plan_growth(
    pipeline: Pipeline, request: PlanRequest, growth: float, make: MakePlan
) -> tuple[Topology, PlanRequest, Plan]:
    """A plan whose operators have the partitions to grow; gives what it was made of, too.

    Batch intervals decide how much a shard can do, so it is planned twice: first without, then with
    the boundaries that operators which may scale have before them, and with what their stores cost.
    """
    from holdfast.pipeline.growth import fixed_shards, with_max_shards
    from holdfast.plan import JointPlan
    from holdfast.planners.joint.growth import choose_shards, with_stores
    from holdfast.predict.statistics import Statistics

    topology = pipeline.topology()
    result = make(topology, request)
    if not isinstance(result, JointPlan) or not result.feasible:
        return topology, request, result
    statistics = request.statistics or Statistics()
    chosen = choose_shards(topology, statistics, result, growth, fixed_shards(pipeline))
    bigger = with_max_shards(pipeline, chosen.max_shards)
    if bigger is not pipeline:
        topology = bigger.topology()
        request = replace(request, statistics=with_stores(topology, statistics, chosen))
        result = make(topology, request)
    if isinstance(result, JointPlan):
        result = replace(
            result,
            max_growth=growth,
            max_shards=chosen.max_shards if result.feasible else {},
            max_shards_why=chosen.why if result.feasible else {},
        )
    return topology, request, result


def say_growth(plan: Plan | None) -> str:
    """Which operators a plan keeps partitions for, in one line; empty: for none."""
    from holdfast.pipeline.growth import DECLARED
    from holdfast.plan import JointPlan

    if not isinstance(plan, JointPlan):
        return ""
    kept = [
        f"{name} in {number} partitions"
        for name, number in plan.max_shards.items()
        if number > 1 and plan.max_shards_why.get(name) != DECLARED
    ]
    times = f" to {plan.max_growth:g} times the load" if plan.max_growth is not None else ""
    return f"the plan keeps state to grow{times}: {', '.join(kept)}" if kept else ""


def growth_lines(plan: Plan) -> list[str]:
    """What was chosen for every operator, and why."""
    from holdfast.plan import JointPlan

    if not isinstance(plan, JointPlan):
        return []
    return [
        f"{name}: max_shards {number}: {plan.max_shards_why.get(name, 'chosen by hand')}"
        for name, number in plan.max_shards.items()
    ]
