"""`run --tentative-after`: when results go on without an input that is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.deployment import Deployment
    from holdfast.health.policy import Tentative
    from holdfast.pipeline import Pipeline
    from holdfast.plan import Plan

NEVER = "never"
PLAN = "plan"
After = Annotated[
    str | None,
    typer.Option(
        "--tentative-after",
        help="How long an input may be gone before results go on without it, marked tentative: a "
        "time such as 5s; plan: what its bound on recoveries allows; or never. Default: plan if "
        "the plan has such a bound, else never.",
    ),
]


def tentative(
    after: str | None, pipeline: Pipeline, deployment: Deployment, plan: Plan | None
) -> Tentative:
    """When to go on without an input, and what share of the input results then reflect."""
    from holdfast.errors import BadInputError
    from holdfast.health.policy import Tentative
    from holdfast.plan import JointPlan
    from holdfast.quantities import parse_time

    at_once: tuple[str, ...] = ()
    bounded = isinstance(plan, JointPlan) and plan.max_recovery is not None
    if after == NEVER or (after is None and not bounded):
        return Tentative()
    if after is None or after == PLAN:
        if not isinstance(plan, JointPlan) or plan.max_recovery is None:
            raise BadInputError(
                "there is no plan with a bound on recoveries",
                where="--tentative-after",
                hint="write a time such as 5s, or plan with --max-recovery",
            )
        # Nobody waits for a bound that is known to be missed.
        after_s = plan.max_recovery
        late = {name for name, one in plan.recovery_latency.items() if one.p95 > after_s}
        at_once = tuple(
            segment.name for segment in deployment.segments if late & set(segment.operators)
        )
    else:
        after_s = parse_time(after, where="--tentative-after")
    return Tentative(
        after_s=after_s,
        at_once=at_once,
        fidelity=_shares(pipeline, deployment),
        priorities={sink.name: sink.priority for sink in pipeline.sinks},
    )


def tell_default(after: str | None, chosen: Tentative, note: Callable[[str], None]) -> None:
    """Tell someone who has not said when results become tentative, and whose plan has."""
    if after is None and chosen.after_s is not None:
        note(
            f"results go on without an input that is gone for longer than {chosen.after_s:g} s, "
            "the plan's bound, marked tentative until it is back; --tentative-after never: they "
            "wait"
        )


def _shares(pipeline: Pipeline, deployment: Deployment) -> dict[str, dict[str, float]]:
    """Segment to the share that its output reflects, by the names of the missing units."""
    from holdfast.cli.deployment import planned_units
    from holdfast.planners.ppa.without import shares_without

    units, names = planned_units(pipeline, deployment)
    return {
        operator: {
            " ".join(sorted(names[task] for task in missing)): share
            for missing, share in shares.items()
        }
        for operator, shares in shares_without(units).items()
    }
