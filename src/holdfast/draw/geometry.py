"""Boxes, curves and labels of a drawing, before any of it becomes SVG.

Layers run left to right or top to bottom, whichever fits a page better. All that is said about an
operator stands inside its box, so that nothing overlaps once boxes do not. Edges cross a layer in
a straight line through their dummy and bend only in the gaps between layers, where there are no
boxes; labels sit on the bends, where they are free of boxes and of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from holdfast.draw.layers import Layered, arrange
from holdfast.draw.place import place

Direction = Literal["right", "down"]

_PAGE = (1150.0, 900.0)
"""A page that drawings are fitted to when the direction is free."""
_PORT_SPACE = 9.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rect:
    """An upright rectangle."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    def overlaps(self, other: Rect, margin: float = 0.0) -> bool:
        return (
            self.x < other.right + margin
            and other.x < self.right + margin
            and self.y < other.bottom + margin
            and other.y < self.bottom + margin
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """An edge: cubic stretches between points, alternating gap and layer."""

    points: tuple[tuple[float, float], ...]
    """Start, then pairs: where a bend ends, where the straight stretch after it ends."""
    label: Rect | None = None

    def path(self, direction: Direction, *, short: float = 0.0) -> str:
        """SVG path data; the last `short` units are left out for the arrow head."""
        x, y = self.points[0]
        parts = [f"M{x:.1f} {y:.1f}"]
        end_x, end_y = self.points[-1]
        tip = (end_x - short, end_y) if direction == "right" else (end_x, end_y - short)
        for (x0, y0), (x1, y1) in pairwise((*self.points[:-1], tip)):
            if (direction == "right" and y0 == y1) or (direction == "down" and x0 == x1):
                parts.append(f"L{x1:.1f} {y1:.1f}")
            elif direction == "right":
                xm = (x0 + x1) / 2
                parts.append(f"C{xm:.1f} {y0:.1f} {xm:.1f} {y1:.1f} {x1:.1f} {y1:.1f}")
            else:
                ym = (y0 + y1) / 2
                parts.append(f"C{x0:.1f} {ym:.1f} {x1:.1f} {ym:.1f} {x1:.1f} {y1:.1f}")
        return "".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Everything placed; coordinates from (0, 0)."""

    direction: Direction
    width: float
    height: float
    boxes: tuple[Rect, ...]
    curves: tuple[Curve, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spacing:
    """Distances between things."""

    layer_gap: float
    node_gap: float
    dummy_gap: float


def fit(
    sizes: Sequence[tuple[float, float]],
    edges: Sequence[tuple[int, int]],
    topological: Sequence[int],
    *,
    labels: Sequence[tuple[float, float]],
    spacings: dict[Direction, Spacing],
    direction: Direction | None = None,
) -> Geometry:
    """Place everything; `labels` are sizes per edge, (0, 0) where there is none."""
    graph = arrange(len(sizes), edges, topological)
    ways: tuple[Direction, ...] = (direction,) if direction else ("right", "down")
    tried = [_lay_out(graph, sizes, way, spacings[way]) for way in ways]
    # Reading order first: left to right where that fits a page.
    best = min(tried, key=lambda made: max(made.width / _PAGE[0], made.height / _PAGE[1], 1.0))
    return _label(best, labels)


def _lay_out(
    graph: Layered, sizes: Sequence[tuple[float, float]], direction: Direction, spacing: Spacing
) -> Geometry:
    right = direction == "right"
    outer = [*sizes, *[(2.0, 2.0)] * (len(graph.layer) - graph.size)]
    across = place(
        graph, [h if right else w for w, h in outer], spacing.node_gap, spacing.dummy_gap
    )
    starts: list[float] = []
    depths: list[float] = []
    at = 0.0
    for row in graph.order:
        starts.append(at)
        depths.append(max((outer[v][0 if right else 1] for v in row if v < graph.size), default=0))
        at += depths[-1] + spacing.layer_gap
    boxes = _boxes(graph, sizes, across, starts, depths, right=right)
    spans = list(zip(starts, depths, strict=True))
    curves = _curves(graph, boxes, across, spans, right=right)
    along, wide = (
        at - spacing.layer_gap,
        max(
            (x + (h if right else w) / 2 for x, (w, h) in zip(across, outer, strict=True)),
            default=0.0,
        ),
    )
    return Geometry(
        direction=direction,
        width=along if right else wide,
        height=wide if right else along,
        boxes=tuple(boxes),
        curves=tuple(curves),
    )


def _boxes(
    graph: Layered,
    sizes: Sequence[tuple[float, float]],
    across: Sequence[float],
    starts: Sequence[float],
    depths: Sequence[float],
    *,
    right: bool,
) -> list[Rect]:
    boxes: list[Rect] = []
    for v, (width, height) in enumerate(sizes):
        start, depth = starts[graph.layer[v]], depths[graph.layer[v]]
        if right:
            # Boxes of one column share its width: columns read as columns.
            boxes.append(Rect(x=start, y=across[v] - height / 2, width=depth, height=height))
        else:
            top = start + (depth - height) / 2
            boxes.append(Rect(x=across[v] - width / 2, y=top, width=width, height=height))
    return boxes


def _curves(
    graph: Layered,
    boxes: Sequence[Rect],
    across: Sequence[float],
    spans: Sequence[tuple[float, float]],
    *,
    right: bool,
) -> list[Curve]:
    leaving = _ports(graph, boxes, across, right=right, outgoing=True)
    arriving = _ports(graph, boxes, across, right=right, outgoing=False)
    curves = []
    for e, route in enumerate(graph.routes):
        u, v = route[0], route[-1]
        start, depth = spans[graph.layer[u]]
        end = boxes[u].right if right else boxes[u].bottom
        # Leave the layer straight before bending: a box may be narrower than its layer.
        flat = [(end, leaving[e]), (start + depth, leaving[e])]
        for node in route[1:-1]:
            start, depth = spans[graph.layer[node]]
            flat += [(start, across[node]), (start + depth, across[node])]
        start, _ = spans[graph.layer[v]]
        flat += [(start, arriving[e]), (boxes[v].x if right else boxes[v].y, arriving[e])]
        points = [flat[0]]
        points += [p for p in flat[1:] if p != points[-1]]
        curves.append(Curve(points=tuple(points if right else [(y, x) for x, y in points])))
    return curves


def _ports(
    graph: Layered, boxes: Sequence[Rect], across: Sequence[float], *, right: bool, outgoing: bool
) -> dict[int, float]:
    """Where edges touch their box: spread along its side in the order of where they come from."""
    groups: dict[int, list[tuple[float, int]]] = {}
    for e, route in enumerate(graph.routes):
        node, near = (route[0], route[1]) if outgoing else (route[-1], route[-2])
        groups.setdefault(node, []).append((across[near], e))
    ports: dict[int, float] = {}
    for node, ends in groups.items():
        box = boxes[node]
        low, size = (box.y, box.height) if right else (box.x, box.width)
        step = min(_PORT_SPACE, (size - 16) / max(len(ends) - 1, 1))
        first = low + size / 2 - step * (len(ends) - 1) / 2
        for k, (_, e) in enumerate(sorted(ends)):
            ports[e] = first + k * step
    return ports


def _label(geometry: Geometry, labels: Sequence[tuple[float, float]]) -> Geometry:
    """Put each label on its edge where it meets neither boxes nor other labels, or leave it out."""
    taken: list[Rect] = list(geometry.boxes)
    curves: list[Curve] = []
    for curve, (width, height) in zip(geometry.curves, labels, strict=True):
        found = None
        if width:
            for x, y in _spots(curve, geometry.direction):
                rect = Rect(x=x - width / 2, y=y - height / 2, width=width, height=height)
                if not any(rect.overlaps(other, 2.0) for other in taken):
                    found = rect
                    taken.append(rect)
                    break
        curves.append(Curve(points=curve.points, label=found))
    return Geometry(
        direction=geometry.direction,
        width=geometry.width,
        height=geometry.height,
        boxes=geometry.boxes,
        curves=tuple(curves),
    )


def _spots(curve: Curve, direction: Direction) -> list[tuple[float, float]]:
    """Points on the bends of an edge, the middle of the first first."""
    spots: list[tuple[float, float]] = []
    for share in (0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78):
        for (x0, y0), (x1, y1) in pairwise(curve.points):
            # A cubic with level tangents: t along, 3t^2 - 2t^3 across.
            along = 1.5 * share * (1 - share) ** 2 + 1.5 * share**2 * (1 - share) + share**3
            bend = 3 * share**2 - 2 * share**3
            if direction == "right":
                spots.append((x0 + (x1 - x0) * along, y0 + (y1 - y0) * bend))
            else:
                spots.append((x0 + (x1 - x0) * bend, y0 + (y1 - y0) * along))
    return spots
