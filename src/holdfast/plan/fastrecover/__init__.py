"""FastRecover: where to save inputs and how often to checkpoint."""

from holdfast.plan.fastrecover.planner import PLANNER
from holdfast.plan.fastrecover.result import FastRecoverPlan, PlannedSegment

__all__ = ["PLANNER", "FastRecoverPlan", "PlannedSegment"]
