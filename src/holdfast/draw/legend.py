"""The legend of a drawing: only what the drawing uses is explained."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.draw.geometry import Direction
from holdfast.draw.marks import PlanMarks
from holdfast.draw.measure import text_width
from holdfast.topology.graph import Topology
from holdfast.topology.links import PARTITIONINGS, Partitioning

PILL = 20.0
"""Side of the square that an edge label takes."""
_ROW = 27.0
_SWATCH = 32.0

_ICONS: dict[Partitioning, str] = {
    "full": "M5 7H15M5 13H15M5 7L15 13M5 13L15 7",
    "one-to-one": "M5 7.5H15M5 12.5H15",
    "split": "M5 10H8.5L15 6M8.5 10L15 14",
    "merge": "M15 10H11.5L5 6M11.5 10L5 14",
}
_WORDS: dict[Partitioning, str] = {
    "full": "full: every task feeds every task",
    "one-to-one": "one-to-one",
    "split": "split: a task feeds several",
    "merge": "merge: several feed a task",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One entry: a swatch of `_SWATCH` by 18 units and its words."""

    swatch: str
    words: str


def pill(kind: Partitioning, x: float, y: float, direction: Direction) -> str:
    """A partitioning as a small picture of its task links, turned to the flow."""
    turn = " rotate(90 10 10)" if direction == "down" else ""
    return (
        f'<g transform="translate({x:.1f} {y:.1f}){turn}"><title>{kind}</title>'
        f'<circle class="pill" cx="10" cy="10" r="9.5"/>'
        f'<path class="icon" d="{_ICONS[kind]}"/></g>'
    )


def legend_items(
    topology: Topology,
    marks: PlanMarks,
    kinds: Iterable[Partitioning],
    direction: Direction,
) -> list[Item]:
    """Entries for what occurs, always in the same order."""
    used = set(kinds)
    items = [Item(swatch=_box("source"), words="source"), Item(swatch=_box("query"), words="query")]
    items += [
        Item(
            swatch=f'<path class="edge {kind}" d="M-2 7H34"/>{pill(kind, 6, -3, "right")}',
            words=_WORDS[kind],
        )
        for kind in PARTITIONINGS
        if kind in used
    ]
    if any(operator.input == "correlated" for operator in topology.operators):
        items.append(Item(swatch="", words="join: needs all its inputs"))
    for mark, present, words in (
        ("backup", marks.logged, f"{marks.output_logged}: output is logged"),
        ("anchor", marks.anchors, "anchor: input is logged"),
    ):
        if present:
            low = mark == "anchor"
            if direction == "right":
                place = f'x="{2 if low else 25}" y="-2" width="5" height="18"'
            else:
                place = f'x="2" y="{-2 if low else 11}" width="28" height="5"'
            swatch = f'{_box("")}<rect class="bar {mark}" {place} rx="2"/>'
            items.append(Item(swatch=swatch, words=words))
    if marks.replicas:
        twin = '<rect class="twin" x="8" y="4" width="24" height="14" rx="4"/>'
        items.append(Item(swatch=twin + _box(""), words="hot replica"))
    if marks.segments:
        hull = '<g class="hull s0"><rect x="0" y="-3" width="32" height="20" rx="9"/></g>'
        items.append(Item(swatch=hull, words="segment: recovers as one"))
    return items


def draw_legend(items: Sequence[Item], room: float) -> tuple[list[str], float]:
    """Entries in rows no wider than `room`, and the height they take."""
    out: list[str] = []
    x, row = 0.0, 0
    for item in items:
        swatch = _SWATCH + 8 if item.swatch else 0.0
        width = swatch + text_width(item.words, 11.5) + 22
        if x and x + width - 22 > room:
            x, row = 0.0, row + 1
        out.append(
            f'<g transform="translate({x:.1f} {row * _ROW:.1f})">{item.swatch}'
            f'<text class="muted" x="{swatch:.1f}" y="11">{item.words}</text></g>'
        )
        x += width
    return out, (row + 1) * _ROW


def _box(kind: str) -> str:
    style = f"box {kind}".strip()
    return f'<rect class="{style}" x="4" y="0" width="24" height="14" rx="4"/>'
