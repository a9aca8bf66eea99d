"""`plan --max-growth`: state kept so that a run can grow without laying it out anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.pipeline import Pipeline
    from holdfast.plan import JointPlan, Plan
    from holdfast.planners.interface import PlanRequest
    from holdfast.topology.graph import Topology

MakePlan = Callable[["Topology", "PlanRequest"], "Plan"]


def check_growth(growth: float | None, method: str, *, is_app: bool, sweep: bool) -> None:
    """Raise if room to grow is asked for where it cannot be planned."""
    from holdfast.errors import BadInputError

    if growth is None:
        return
    if sweep:
        raise BadInputError(
            "a sweep does not plan it", where="--max-growth", hint="leave --sweep out"
        )
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


def as_it_runs(pipeline: Pipeline, run_dir: Path | None) -> Pipeline:
    """The pipeline with its state in as many partitions as the plan of a run has it in.

    What the pipeline declares by now counts, as does that an operator has no key any more.
    """
    from holdfast.cli.learning import run_plan
    from holdfast.pipeline.growth import fixed_shards, with_max_shards

    plan = None if run_dir is None else run_plan(run_dir)
    if plan is None:
        return pipeline
    fixed = fixed_shards(pipeline)
    free = {one.name for one in pipeline.operators if one.name not in fixed}
    kept = {name: number for name, number in plan.max_shards.items() if name in free}
    return with_max_shards(pipeline, kept)


def kept_growth(result: Plan, pipeline: Pipeline, before: JointPlan) -> Plan:
    """A plan made of a pipeline as it runs, saying so: to go over to it repartitions nothing."""
    from holdfast.plan import JointPlan

    if not isinstance(result, JointPlan) or not result.feasible or not before.max_shards:
        return result
    found = {one.name: one.max_shards or 1 for one in pipeline.operators if one.kind != "sink"}
    why = {
        name: before.max_shards_why[name]
        for name, number in found.items()
        if before.max_shards.get(name) == number and name in before.max_shards_why
    }
    return replace(result, max_growth=before.max_growth, max_shards=found, max_shards_why=why)


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
