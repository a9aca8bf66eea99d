"""Routing of edges between two rows of boxes on a character grid.

All edges out of one operator form a net: down from its port, along one track, down to each target.
Nets take tracks by the left-edge rule; where a net leaves in the column in which another arrives,
the leaving one gets the higher track, so that their verticals never run over each other. (Ports
are chosen so that cycles of this rule are rare; a cycle is broken at its first net.) Where nets
cross, the vertical one is drawn through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_UP, _DOWN, _RIGHT, _LEFT = 1, 2, 4, 8
_GLYPHS = {
    _UP: "│",
    _DOWN: "│",
    _UP | _DOWN: "│",
    _LEFT | _RIGHT: "─",
    _UP | _RIGHT: "└",
    _UP | _LEFT: "┘",
    _DOWN | _RIGHT: "┌",
    _DOWN | _LEFT: "┐",
    _UP | _DOWN | _RIGHT: "├",
    _UP | _DOWN | _LEFT: "┤",
    _DOWN | _LEFT | _RIGHT: "┬",
    _UP | _LEFT | _RIGHT: "┴",
    _UP | _DOWN | _LEFT | _RIGHT: "┼",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Net:
    """Edges from one column above to columns below."""

    source: int
    targets: tuple[int, ...]

    @property
    def span(self) -> tuple[int, int]:
        columns = (self.source, *self.targets)
        return min(columns), max(columns)

    @property
    def straight(self) -> bool:
        return all(target == self.source for target in self.targets)


def assign_tracks(nets: Sequence[Net]) -> dict[int, int]:
    """Per bent net (by position) its track, from 0."""
    bent = [i for i, net in enumerate(nets) if not net.straight]
    waiting = sorted(bent, key=lambda i: nets[i].span)
    leaves = {nets[i].source: i for i in waiting}
    above = {
        i: {leaves[t] for t in nets[i].targets if t in leaves and leaves[t] != i} for i in waiting
    }
    tracks: dict[int, int] = {}
    track = 0
    while waiting:
        ready = [i for i in waiting if not above[i] - tracks.keys()] or waiting[:1]
        end = -2
        placed = []
        for i in ready:
            low, high = nets[i].span
            if low > end + 1:
                placed.append(i)
                end = high
        tracks |= dict.fromkeys(placed, track)
        waiting = [i for i in waiting if i not in tracks]
        track += 1
    return tracks


def route(nets: Sequence[Net], width: int, heads: Sequence[int]) -> list[str]:
    """The lines between two rows; `heads` are the columns that end in an arrow."""
    tracks = assign_tracks(nets)
    height = max(tracks.values(), default=-1) + 2
    cells: list[dict[int, dict[int, int]]] = [{} for _ in range(height)]

    def mark(row: int, column: int, net: int, mask: int) -> None:
        own = cells[row].setdefault(column, {})
        own[net] = own.get(net, 0) | mask

    for i, net in enumerate(nets):
        if net.straight:
            for row in range(height):
                mark(row, net.source, i, _UP | _DOWN)
            continue
        track = tracks[i]
        low, high = net.span
        for column in range(low, high + 1):
            sides = (_LEFT if column > low else 0) | (_RIGHT if column < high else 0)
            mark(track, column, i, sides)
        for row in range(track):
            mark(row, net.source, i, _UP | _DOWN)
        mark(track, net.source, i, _UP)
        for target in net.targets:
            mark(track, target, i, _DOWN)
            for row in range(track + 1, height):
                mark(row, target, i, _UP | _DOWN)
    lines = [[" "] * width for _ in range(height)]
    for row, columns in enumerate(cells):
        for column, masks in columns.items():
            lines[row][column] = _glyph(list(masks.values()))
    for column in heads:
        lines[-1][column] = "▼"
    return ["".join(line) for line in lines]


def _glyph(masks: Sequence[int]) -> str:
    if len(masks) > 1:
        return "│"
    return _GLYPHS.get(masks[0], "─")
