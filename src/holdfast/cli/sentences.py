"""A plan in one sentence: what to do, and what that keeps."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.plan import (
    FastRecoverPlan,
    FtcPlan,
    JointPlan,
    Plan,
    RecoveryPlan,
    ReplicationPlan,
)
from holdfast.topology.graph import Topology

_MOST = 6


def sentence(topology: Topology, plan: Plan) -> str:
    """What a plan says, as one would tell it to a colleague."""
    name, unit = topology.name, topology.unit.time
    if not plan.feasible:
        return f"No plan for {name}: {plan.note or 'none keeps the bounds'}."
    match plan:
        case JointPlan():
            return _joint(name, unit, plan)
        case FtcPlan():
            kept = f"every recovery of {name} then takes at most {plan.overall:g} {unit}"
            if not plan.backups:
                return f"Log nothing more: {kept}."
            return f"Log the output of {_list(plan.backups)}: {kept}."
        case FastRecoverPlan():
            return (
                f"Save the input of {_list(plan.anchors)}: a recovery of {name} then takes "
                f"{plan.expected_recovery_time:.3g} {unit} on average, and checkpoints take "
                f"{plan.checkpoint_overhead:.3g} of its time."
            )
        case ReplicationPlan() if plan.replicas:
            count = len(plan.replicas)
            return (
                f"Keep {'a replica' if count == 1 else f'{count} replicas'} of "
                f"{_list(plan.replicas)}: the results of {name} then reflect "
                f"{plan.fidelity or 0.0:.0%} of its input while the failed tasks are away."
            )
        case ReplicationPlan():
            return f"Keep no replica of {name}: {plan.note or 'none fits the budget'}."
        case RecoveryPlan() if plan.order:
            return f"Bring back {_list(plan.order)}, in this order."
    return f"{name}: {plan.method} has a plan."


def _joint(name: str, unit: str, plan: JointPlan) -> str:
    worst = max((one.p95 for one in plan.recovery_latency.values()), default=0.0)
    chosen = [one for one in plan.boundaries if one not in plan.forced]
    cut = f"Cut {name} after {_list(chosen)}" if chosen else f"Do not cut {name} any further"
    intervals = sorted({segment.batch_interval for segment in plan.segments})
    pace = " to ".join(f"{value:g}" for value in {intervals[0]: 0, intervals[-1]: 0})
    spares = plan.spares or 0
    warm = {0: "no spare", 1: "1 spare warm"}.get(spares, f"{spares} spares warm")
    if plan.replicas:
        warm += f" and {'a hot follower' if len(plan.replicas) == 1 else 'hot followers'} of "
        warm += _list(plan.replicas)
    spread = f", spread it over {len(plan.nodes)} nodes" if len(plan.nodes) > 1 else ""
    return (
        f"{cut}{spread}, run a batch every {pace} {unit} and keep {warm}: 19 failures in 20 are "
        f"then recovered within {worst:.3g} {unit}, and results come within "
        f"{plan.end_to_end_latency:.3g} {unit}, for {plan.cpu:.2g} cores."
    )


def _list(names: Sequence[str]) -> str:
    shown = list(names[:_MOST])
    if len(names) > _MOST:
        return f"{', '.join(shown)} and {len(names) - _MOST} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
