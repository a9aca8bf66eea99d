"""FastRecover: where to save inputs and how often to checkpoint."""

from holdfast.planners.fastrecover.planner import PLANNER

__all__ = ["PLANNER"]
