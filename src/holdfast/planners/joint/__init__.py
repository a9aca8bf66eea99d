"""Joint planning: boundaries, batch and snapshot intervals and spares, chosen together."""

from __future__ import annotations

from holdfast.planners.joint.planner import JointPlanner

PLANNER = JointPlanner()

__all__ = ["PLANNER"]
