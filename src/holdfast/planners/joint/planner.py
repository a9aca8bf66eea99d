"""The door to joint planning; what solves is imported only when it is asked to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.plan import JointPlan, Plan
from holdfast.planners.interface import PlanRequest, Solve, Sweep
from holdfast.planners.joint.algorithms import ALGORITHMS
from holdfast.topology.graph import Topology

USES = (
    "max_recovery",
    "max_overhead",
    "max_latency",
    "max_outage",
    "nodes",
    "required",
    "forbidden",
    "statistics",
    "intervals",
    "snapshots",
    "max_replicas",
)


@dataclass(frozen=True, slots=True)
class JointPlanner:
    """Boundaries, batch and snapshot intervals and spares under real bounds, least cost first."""

    @property
    def method(self) -> str:
        return "joint"

    @property
    def algorithms(self) -> Mapping[str, str]:
        return ALGORITHMS

    @property
    def uses(self) -> frozenset[str]:
        return frozenset(USES)

    def plan(self, topology: Topology, request: PlanRequest, solve: Solve) -> Plan:
        """The cheapest plan within the bounds, or the nearest bounds that can be kept."""
        from holdfast.planners.joint.run import make_plan  # noqa: PLC0415 - solvers load slowly

        return make_plan(topology, request, solve)

    def sweep(self, topology: Topology, request: PlanRequest, solve: Solve) -> Sweep | None:
        """Cost against the recovery bound, the other bounds as asked for."""
        from holdfast.planners.joint.run import make_sweep  # noqa: PLC0415 - solvers load slowly

        return make_sweep(topology, request, solve)

    def explain(self, topology: Topology, request: PlanRequest, result: Plan) -> Sequence[str]:
        """Why each boundary is where it is."""
        from holdfast.planners.joint.words import explain  # noqa: PLC0415 - solvers load slowly

        if not isinstance(result, JointPlan):
            raise TypeError("not a joint plan")
        return explain(topology, request, result)
