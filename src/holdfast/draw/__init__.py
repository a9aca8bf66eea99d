"""Drawings of topologies and plans: SVG for documents, box characters for terminals."""

from __future__ import annotations

from holdfast.draw.marks import PlanMarks, plan_marks
from holdfast.draw.svg import draw_svg
from holdfast.draw.terminal import draw_text

__all__ = ["PlanMarks", "draw_svg", "draw_text", "plan_marks"]
