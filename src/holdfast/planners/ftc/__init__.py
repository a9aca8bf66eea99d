"""FTC: the fewest backups that keep every recovery within a bound."""

from holdfast.planners.ftc.planner import PLANNER
from holdfast.planners.ftc.result import FtcPlan

__all__ = ["PLANNER", "FtcPlan"]
