"""FTC: the fewest backups that keep every recovery within a bound."""

from holdfast.plan.ftc.planner import PLANNER
from holdfast.plan.ftc.result import FtcPlan

__all__ = ["PLANNER", "FtcPlan"]
