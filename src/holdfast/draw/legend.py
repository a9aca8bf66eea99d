"""The legend of a drawing: only what the drawing uses is explained."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.draw.marks import PlanMarks
from holdfast.draw.measure import text_width
from holdfast.model.topology import PARTITIONINGS, Partitioning, Topology

ICON = 12.0
_ROW = 22.0
_SWATCH = 26.0

_ICONS: dict[Partitioning, str] = {
    "full": "M0 2.5L12 2.5M0 9.5L12 9.5M0 2.5L12 9.5M0 9.5L12 2.5",
    "one-to-one": "M0 3L12 3M0 9L12 9",
    "split": "M0 6H4L12 2M4 6L12 10",
    "merge": "M12 6H8L0 2M8 6L0 10",
}
_WORDS: dict[Partitioning, str] = {
    "full": "full: every task feeds every task",
    "one-to-one": "one-to-one",
    "split": "split: a task feeds several",
    "merge": "merge: several feed a task",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One entry: a swatch of `_SWATCH` by 16 units and its words."""

    swatch: str
    words: str


def icon(kind: Partitioning, x: float, y: float) -> str:
    """A partitioning as a small picture of its task links."""
    return f'<path class="icon" transform="translate({x:.1f} {y:.1f})" d="{_ICONS[kind]}"/>'


def legend_items(topology: Topology, marks: PlanMarks, kinds: Iterable[Partitioning]) -> list[Item]:
    """Entries for what occurs, always in the same order."""
    used = set(kinds)
    items = [Item(swatch=_box("source"), words="source"), Item(swatch=_box("query"), words="query")]
    items += [
        Item(swatch=f'<path class="edge {kind}" d="M0 13H26"/>{icon(kind, 7, -3)}', words=words)
        for kind in PARTITIONINGS
        if kind in used
        for words in (_WORDS[kind],)
    ]
    if any(operator.input == "correlated" for operator in topology.operators):
        items.append(Item(swatch="", words="join: needs all its inputs"))
    for mark, present, words in (
        ("backup", marks.backups, "backup: output is logged"),
        ("anchor", marks.anchors, "anchor: input is logged"),
    ):
        if present:
            x = 20 if mark == "backup" else 2
            swatch = (
                f'{_box("")}<rect class="bar {mark}" x="{x}" y="-1" width="5" height="16" rx="2"/>'
            )
            items.append(Item(swatch=swatch, words=words))
    if marks.replicas:
        twin = '<rect class="twin" x="6" y="4" width="20" height="12" rx="3"/>'
        items.append(Item(swatch=twin + _box(""), words="hot replica"))
    if marks.segments:
        hull = '<g class="hull s0"><rect x="0" y="-1" width="26" height="16" rx="7"/></g>'
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
    return f'<rect class="{style}" x="2" y="1" width="20" height="12" rx="3"/>'
