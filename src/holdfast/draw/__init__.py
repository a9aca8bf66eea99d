"""Drawings of topologies and plans: SVG for documents, box characters for terminals."""

from __future__ import annotations

from holdfast.draw.marks import PlanMarks, read_plan
from holdfast.draw.svg import draw_svg
from holdfast.draw.terminal import draw_text

__all__ = ["PlanMarks", "draw_svg", "draw_text", "read_plan"]
