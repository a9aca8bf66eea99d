"""FastRecover: where to save inputs and how often to checkpoint."""

from holdfast.planners.fastrecover.planner import PLANNER
from holdfast.planners.fastrecover.result import FastRecoverPlan, PlannedSegment

__all__ = ["PLANNER", "FastRecoverPlan", "PlannedSegment"]
