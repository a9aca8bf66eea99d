"""A topology, with or without a plan, as an SVG drawing for documents.

Boxes are operators, green ones sources, violet ones the sinks that queries read. Edge styles and
icons tell partitionings apart. A plan adds a bar on the output side of backups and on the input
side of anchors, a second outline behind operators with replicas, and a soft hull around segments.
Output is deterministic: the same topology and plan give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from holdfast.draw.geometry import Curve, Direction, Geometry, Rect, Spacing, fit
from holdfast.draw.legend import PILL, Item, draw_legend, legend_items, pill
from holdfast.draw.marks import PlanMarks, plan_marks
from holdfast.draw.measure import shorten, text_width
from holdfast.draw.style import SEGMENT_COLOURS, style_sheet
from holdfast.plan import Plan
from holdfast.topology.graph import Topology, iter_links
from holdfast.topology.links import Partitioning

_MARGIN = 26.0
_HEADER = 58.0
_LINE = 15.0
_NAME_SIZE = 13.0
_TEXT_SIZE = 11.5
_WIDEST_NAME = 190.0
_HULL = 10.0
_BAR = 6.0
_TWIN = 5.0
_ICONS = 80
"""Operators up to which edges carry icons; beyond, line styles alone tell partitionings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    text: str
    style: str
    size: float = _TEXT_SIZE
    bold: bool = False


def draw_svg(
    topology: Topology,
    plan: Plan | PlanMarks | None = None,
    *,
    direction: Direction | None = None,
) -> str:
    """The drawing as SVG text; `plan` may be given as its marks."""
    if plan is None:
        marks = PlanMarks()
    else:
        marks = plan if isinstance(plan, PlanMarks) else plan_marks(topology, plan)
    links = [
        (u, v, kind if _parallel(topology, u, v) else None)
        for _, u, v, kind in iter_links(topology)
    ]
    contents = [_contents(topology, marks, i) for i in range(len(topology.operators))]
    labels = [_label_size(topology, kind) for _, _, kind in links]
    busy = 6.0 * math.sqrt(max(len(links) / len(contents) - 1.5, 0))
    gap = 58.0 + 4 * busy
    across = 24.0 if not marks.segments else 34.0
    geometry = fit(
        [_box_size(lines) for lines in contents],
        [(u, v) for u, v, _ in links],
        topology.order,
        labels=labels,
        spacings={
            "right": Spacing(layer_gap=gap, node_gap=across, dummy_gap=14.0),
            "down": Spacing(layer_gap=gap - 6, node_gap=across, dummy_gap=14.0),
        },
        direction=direction,
    )
    kinds = [kind for _, _, kind in links]
    legend = legend_items(topology, marks, {kind for kind in kinds if kind}, geometry.direction)
    body = [
        *_hulls(geometry, marks, links),
        *_edges(geometry, kinds),
        *_boxes(topology, marks, geometry, contents),
        *_labels(geometry, kinds),
    ]
    return _frame(topology, marks, geometry, body, legend)


def _parallel(topology: Topology, u: int, v: int) -> bool:
    """Between two single tasks there is nothing to partition."""
    return topology.operators[u].parallelism > 1 or topology.operators[v].parallelism > 1


def _number(value: float) -> str:
    return f"{value:.3g}"


def _contents(topology: Topology, marks: PlanMarks, i: int) -> list[_Line]:
    """The lines inside a box, from the top."""
    operator = topology.operators[i]
    count = operator.parallelism
    name = shorten(operator.name, _NAME_SIZE, _WIDEST_NAME, bold=True)
    tasks = "1 task" if count == 1 else f"{count} tasks"
    lines = [
        _Line(text=name, style="name", size=_NAME_SIZE, bold=True),
        _Line(text=f"{tasks} · join" if operator.input == "correlated" else tasks, style="muted"),
    ]
    if operator.paths:
        said = " | ".join(operator.paths)
        lines.append(_Line(text=shorten(said, _TEXT_SIZE, _WIDEST_NAME), style="muted"))
    for query in topology.queries:
        if query.sink == operator.name:
            said = f"query {query.name}"
            if len(topology.queries) > 1:
                said += f" · priority {_number(query.priority)}"
            lines.append(_Line(text=shorten(said, _TEXT_SIZE, _WIDEST_NAME), style="sink"))
    for mark, counts in (
        ("backup", marks.logged),
        ("anchor", marks.anchors),
        ("replica", marks.replicas),
    ):
        if i in counts:
            whole = count == 1 or (mark != "replica" and counts[i] == count)
            share = "" if whole else f" {counts[i]}/{count}"
            said = {"replica": "hot replica", "backup": marks.output_logged}.get(mark, mark)
            lines.append(_Line(text=said + share, style=f"strong {mark}", bold=True))
    for segment in marks.segments:
        if i in segment.heads and segment.frequency is not None:
            every = f"{_number(segment.frequency)} checkpoints/{topology.unit.time}"
            lines.append(_Line(text=every, style="muted"))
    if i in marks.latency:
        low, high = marks.latency[i]
        span = _number(high) if low == high else f"{_number(low)}–{_number(high)}"
        lines.append(_Line(text=f"recovers in {span} {topology.unit.time}", style="muted"))
    return lines


def _box_size(lines: Sequence[_Line]) -> tuple[float, float]:
    width = max(text_width(line.text, line.size, bold=line.bold) for line in lines)
    return max(math.ceil(width) + 30.0, 84.0), 14.0 + _LINE * len(lines) + 3.0


def _label_size(topology: Topology, kind: Partitioning | None) -> tuple[float, float]:
    if kind is None or len(topology.operators) > _ICONS:
        return 0.0, 0.0
    return PILL, PILL


def _hulls(
    geometry: Geometry,
    marks: PlanMarks,
    links: Sequence[tuple[int, int, Partitioning | None]],
) -> list[str]:
    """Segments: grown boxes and the edges between them as broad strokes, flattened into one."""
    out = []
    for number, segment in enumerate(marks.segments):
        inside = set(segment.operators)
        shapes = []
        for i in segment.operators:
            box = geometry.boxes[i]
            shapes.append(_rect(_grow(box, _HULL), 16))
        for (u, v, _), curve in zip(links, geometry.curves, strict=True):
            # An edge into an anchor is cut even where both ends share a segment.
            if u in inside and v in inside and v not in marks.anchors and u not in marks.logged:
                shapes.append(f'<path d="{curve.path(geometry.direction)}"/>')
        out.append(f'<g class="hull s{number % len(SEGMENT_COLOURS)}">{"".join(shapes)}</g>')
    return out


def _edges(geometry: Geometry, kinds: Sequence[Partitioning | None]) -> list[str]:
    out = []
    for curve, kind in zip(geometry.curves, kinds, strict=True):
        style = f"edge {kind}" if kind else "edge"
        path = curve.path(geometry.direction, short=6.0)
        out.append(f'<path class="{style}" d="{path}"/>{_head(curve, geometry.direction)}')
    return out


def _head(curve: Curve, direction: Direction) -> str:
    x, y = curve.points[-1]
    shape = "l-8 -4v8z" if direction == "right" else "l-4 -8h8z"
    return f'<path class="head" d="M{x:.1f} {y:.1f}{shape}"/>'


def _boxes(
    topology: Topology,
    marks: PlanMarks,
    geometry: Geometry,
    contents: Sequence[Sequence[_Line]],
) -> list[str]:
    sources = set(topology.sources)
    read = {query.sink for query in topology.effective_queries}
    out = []
    for i, (operator, box) in enumerate(zip(topology.operators, geometry.boxes, strict=True)):
        style = "box query" if operator.name in read else "box"
        style = "box source" if i in sources else style
        parts = [f"<title>{escape(operator.name)}</title>"]
        if i in marks.replicas:
            parts.append(_rect(_shift(box, _TWIN), 8, style="twin"))
        parts.append(_rect(box, 8, style=style))
        if i in marks.anchors:
            share = marks.anchors[i] / operator.parallelism
            parts.append(_bar(box, geometry.direction, "anchor", share))
        if i in marks.logged:
            share = marks.logged[i] / operator.parallelism
            parts.append(_bar(box, geometry.direction, "backup", share))
        y = box.y + (box.height - _LINE * len(contents[i])) / 2 + 11.5
        for line in contents[i]:
            parts.append(
                f'<text class="mid {line.style}" x="{box.x + box.width / 2:.1f}" y="{y:.1f}">'
                f"{escape(line.text)}</text>"
            )
            y += _LINE
        out.append(f'<g class="op" data-name={quoteattr(operator.name)}>{"".join(parts)}</g>')
    return out


def _bar(box: Rect, direction: Direction, mark: str, share: float) -> str:
    """A bold bar: on the side where tuples come in (anchor) or go out (backup).

    Where only a share of the tasks is chosen, that share of the bar is solid.
    """
    out = mark == "backup"
    bars = []
    for part, style in ((1.0, "bar faint"), (share, "bar")):
        if direction == "right":
            x = box.right - _BAR / 2 if out else box.x - _BAR / 2
            rect = Rect(x=x, y=box.y - 3, width=_BAR, height=(box.height + 6) * part)
        else:
            y = box.bottom - _BAR / 2 if out else box.y - _BAR / 2
            rect = Rect(x=box.x - 3, y=y, width=(box.width + 6) * part, height=_BAR)
        bars.append(_rect(rect, _BAR / 2, style=f"{style} {mark}"))
    return "".join(bars[1:] if share >= 1 else bars)


def _labels(geometry: Geometry, kinds: Sequence[Partitioning | None]) -> list[str]:
    out = []
    for curve, kind in zip(geometry.curves, kinds, strict=True):
        if curve.label is not None and kind is not None:
            out.append(pill(kind, curve.label.x, curve.label.y, geometry.direction))
    return out


def _frame(
    topology: Topology,
    marks: PlanMarks,
    geometry: Geometry,
    body: Sequence[str],
    legend: Sequence[Item],
) -> str:
    tasks = topology.task_count
    said = f"{len(topology.operators)} operators · {tasks} tasks · {len(topology.edges)} streams"
    caption_width = text_width(marks.caption, _TEXT_SIZE, bold=True)
    room = max(geometry.width, text_width(said, _TEXT_SIZE), caption_width, 380.0)
    keys, keys_height = draw_legend(legend, room)
    header = _HEADER + (18.0 if marks.caption else 0.0) + (_HULL if marks.segments else 0.0)
    width = room + 2 * _MARGIN
    height = header + geometry.height + keys_height + 2 * _MARGIN + 12
    title = shorten(topology.name, 17, room, bold=True)
    left = _MARGIN + (room - geometry.width) / 2
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="hf" viewBox="0 0 {width:.0f} '
        f'{height:.0f}" width="{width:.0f}" height="{height:.0f}" role="img" '
        f"aria-label={quoteattr(f'Topology {topology.name}')}>",
        f"<style>{style_sheet(len(marks.segments))}</style>",
        f'<rect class="bg" width="{width:.0f}" height="{height:.0f}"/>',
        f'<text class="title" x="{_MARGIN}" y="{_MARGIN + 12}">{escape(title)}</text>',
        f'<text class="muted" x="{_MARGIN}" y="{_MARGIN + 32}">{escape(said)}</text>',
    ]
    if marks.caption:
        lines.append(
            f'<text class="strong" x="{_MARGIN}" y="{_MARGIN + 51}">{escape(marks.caption)}</text>'
        )
    top = header + _MARGIN - 8
    lines += [f'<g transform="translate({left:.1f} {top:.1f})">', *body, "</g>"]
    below = top + geometry.height + 30
    lines += [f'<g class="legend" transform="translate({_MARGIN} {below:.1f})">', *keys, "</g>"]
    return "\n".join([*lines, "</svg>", ""])


def _rect(rect: Rect, radius: float, *, style: str = "") -> str:
    named = f' class="{style}"' if style else ""
    return (
        f'<rect{named} x="{rect.x:.1f}" y="{rect.y:.1f}" width="{rect.width:.1f}" '
        f'height="{rect.height:.1f}" rx="{radius:g}"/>'
    )


def _grow(rect: Rect, by: float) -> Rect:
    return Rect(
        x=rect.x - by, y=rect.y - by, width=rect.width + 2 * by, height=rect.height + 2 * by
    )


def _shift(rect: Rect, by: float) -> Rect:
    return Rect(x=rect.x + by, y=rect.y + by, width=rect.width, height=rect.height)
