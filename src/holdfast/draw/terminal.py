"""A topology as text: boxes in layers, top to bottom, for a terminal.

Readable up to about 30 operators; beyond that, or where the terminal is too narrow, the layers are
listed instead and the text says so. A plan thickens the upper edge of anchors and the lower edge
of logged output and adds a line with counts and recovery latencies.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.draw.channel import Net, route
from holdfast.draw.layers import Layered, arrange, assign_layers
from holdfast.draw.marks import PlanMarks, plan_marks
from holdfast.draw.place import place
from holdfast.plan import Plan
from holdfast.topology.graph import Topology, iter_links

MOST_OPERATORS = 30
_LONGEST_NAME = 24
_LISTED_LAYERS = 40


def draw_text(topology: Topology, plan: Plan | PlanMarks | None = None, *, width: int = 100) -> str:
    """The drawing, or the listing where a drawing would not be readable."""
    if plan is None:
        marks = PlanMarks()
    else:
        marks = plan if isinstance(plan, PlanMarks) else plan_marks(topology, plan)
    edges = [(u, v) for _, u, v, _ in iter_links(topology)]
    size = len(topology.operators)
    if size > MOST_OPERATORS:
        reason = f"{size} operators are too many to draw here"
        return _listing(topology, marks, edges, reason)
    graph = arrange(size, edges, topology.order)
    texts = [_lines(topology, marks, i) for i in range(size)]
    widths = [
        max(max(map(_cells, lines)) + 4, 2 * len(graph.up[v]) + 3, 7)
        for v, lines in enumerate(texts)
    ]
    widths += [1] * (len(graph.layer) - size)
    for gap in (3.0, 1.0):
        left = _columns(graph, widths, gap)
        total = max(at + own for at, own in zip(left, widths, strict=True))
        if total <= width:
            break
    if total > width:
        return _listing(topology, marks, edges, f"the drawing needs {total} columns")
    frame = _Frame(graph=graph, widths=widths, left=left, total=total)
    return _render(frame, marks, texts)


def _lines(topology: Topology, marks: PlanMarks, i: int) -> list[str]:
    operator = topology.operators[i]
    name = operator.name
    if len(name) > _LONGEST_NAME:
        name = name[: _LONGEST_NAME - 1] + "…"
    first = name + (f" ×{operator.parallelism}" if operator.parallelism > 1 else "")
    lines = [first + (" ⋈" if operator.input == "correlated" else "")]
    if operator.paths:
        lines.append(" | ".join(operator.paths))
    said = []
    for mark, counts in (
        ("anchor", marks.anchors),
        (marks.output_logged, marks.logged),
        ("hot", marks.replicas),
    ):
        if i in counts:
            partial = counts[i] != operator.parallelism
            said.append(f"{mark} {counts[i]}/{operator.parallelism}" if partial else mark)
    if i in marks.latency:
        said.append(f"≤{marks.latency[i][1]:.3g} {topology.unit.time}")
    if said:
        lines.append(" ".join(said))
    return lines


def _cells(text: str) -> int:
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def _columns(graph: Layered, widths: Sequence[int], gap: float) -> list[int]:
    """First column of every node: rounded places, pushed apart where rounding made them touch."""
    centres = place(graph, [float(w) for w in widths], gap, (gap + 1) / 2)
    left = [round(x - w / 2) for x, w in zip(centres, widths, strict=True)]
    for row in graph.order:
        end = -1
        for v in row:
            left[v] = max(left[v], end + 1)
            end = left[v] + widths[v]
    return left


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """Where everything goes, in columns."""

    graph: Layered
    widths: Sequence[int]
    left: Sequence[int]
    total: int


def _render(frame: _Frame, marks: PlanMarks, texts: Sequence[Sequence[str]]) -> str:
    graph, left = frame.graph, frame.left
    out: list[str] = []
    for level, row in enumerate(graph.order):
        if level:
            out += _between(frame, graph.order[level - 1], row)
        height = max((len(texts[v]) for v in row if v < graph.size), default=1)
        lines = [[" "] * frame.total for _ in range(height + 2)]
        for v in row:
            if v >= graph.size:
                for line in lines:
                    line[left[v]] = "│"
            else:
                cells = _box(
                    texts[v],
                    frame.widths[v],
                    len(lines),
                    anchor=v in marks.anchors,
                    logged=v in marks.logged,
                )
                for line, own in zip(lines, cells, strict=True):
                    line[left[v] : left[v] + len(own)] = own
        out += ["".join(line) for line in lines]
    return "\n".join(line.rstrip() for line in out) + "\n"


def _box(
    text: Sequence[str], width: int, height: int, *, anchor: bool, logged: bool
) -> list[list[str]]:
    """A box as cells, line by line; a wide character is followed by an empty cell."""
    top = "┏" + "━" * (width - 2) + "┓" if anchor else "┌" + "─" * (width - 2) + "┐"
    bottom = "┗" + "━" * (width - 2) + "┛" if logged else "└" + "─" * (width - 2) + "┘"
    out = [list(top)]
    for words in [*text, *[""] * (height - 2 - len(text))]:
        free = width - 2 - _cells(words)
        cells: list[str] = []
        for char in "│" + " " * (free // 2) + words + " " * (free - free // 2) + "│":
            if unicodedata.combining(char):
                cells[-1] += char
            else:
                cells += [char, ""] if unicodedata.east_asian_width(char) in "WF" else [char]
        out.append(cells)
    return [*out, list(bottom)]


def _between(frame: _Frame, upper: Sequence[int], lower: Sequence[int]) -> list[str]:
    graph, left, widths = frame.graph, frame.left, frame.widths
    leaving = {u: left[u] + widths[u] // 2 for u in upper if graph.down[u]}
    targets: dict[int, list[int]] = {u: [] for u in leaving}
    heads: list[int] = []
    for v in lower:
        producers = sorted(graph.up[v], key=leaving.__getitem__)
        ports = _ports(left[v], widths[v], [leaving[u] for u in producers], set(leaving.values()))
        for u, port in zip(producers, ports, strict=True):
            targets[u].append(port)
        if v < graph.size:
            heads += ports
    nets = [Net(source=leaving[u], targets=tuple(targets[u])) for u in leaving]
    return route(nets, frame.total, heads)


def _ports(left: int, width: int, sources: Sequence[int], busy: set[int]) -> list[int]:
    """Arrival columns on a box, in the order of the sources; in line with the source if alone."""
    middle = left + width // 2
    if width == 1:
        return [left] * len(sources)
    inside = range(left + 1, left + width - 1)
    if len(sources) == 1 and sources[0] in inside:
        return [sources[0]]
    first = middle - (len(sources) - 1)
    ports: list[int] = []
    for k, source in enumerate(sources):
        port = first + 2 * k
        # A column in which another operator's edge leaves invites running over it.
        for near in (port, port + 1, port - 1):
            taken = near in busy and near != source
            if not taken and near in inside and (not ports or near > ports[-1]):
                port = near
                break
        ports.append(max(port, ports[-1] + 1) if ports else port)
    return ports


def _listing(
    topology: Topology, marks: PlanMarks, edges: Sequence[tuple[int, int]], reason: str
) -> str:
    layer = assign_layers(len(topology.operators), edges, topology.order)
    rows: dict[int, list[str]] = {}
    for i, level in enumerate(layer):
        rows.setdefault(level, []).append(" ".join(_lines(topology, marks, i)))
    out = [f"{reason}; layers from sources to sinks (draw with --svg FILE):"]
    for level in sorted(rows)[:_LISTED_LAYERS]:
        names = rows[level]
        more = f", and {len(names) - 8} more" if len(names) > 8 else ""
        out.append(f"  {level + 1:>4}  {', '.join(names[:8])}{more}")
    if len(rows) > _LISTED_LAYERS:
        out.append(f"  and {len(rows) - _LISTED_LAYERS} more layers")
    return "\n".join(out) + "\n"
