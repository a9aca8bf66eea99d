"""PPA: replicate the part that matters, and bring the rest back in the order that helps most."""

from __future__ import annotations

from holdfast.planners.ppa.planner import PpaPlanner

PLANNER = PpaPlanner()

__all__ = ["PLANNER"]
