"""FTC: the fewest backups that keep every recovery within a bound."""

from holdfast.planners.ftc.planner import PLANNER

__all__ = ["PLANNER"]
