"""What a reproduction is: a table, the plots of it, and the paper's own words beside ours.

A number of a paper is data with its source. The drawings of the papers are not part of the texts
we have, so only what their text, tables and captions print is compared; nothing is read off a plot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from holdfast.clock import Clock
from holdfast.errors import BadInputError
from holdfast.plan.base import plain
from holdfast.testing.adaptations import Adapted, AdaptLab
from holdfast.testing.trials import Lab, Measured, Trial
from holdfast.topology.graph import Topology

Verdict = Literal["holds", "partly", "differs", "not comparable"]
Cell = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One thing a paper says about a figure, and what came out here."""

    paper: str
    """What the paper prints or says, in short."""
    source: str
    """Where it stands there."""
    ours: str
    verdict: Verdict
    why: str = ""
    """What differs and why; empty when nothing does."""

    def __post_init__(self) -> None:
        if self.verdict != "holds" and not self.why:
            raise ValueError(f"a claim that does not hold needs a reason: {self.paper}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One curve: points whose y is missing are gaps."""

    label: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"{self.label}: {len(self.x)} x and {len(self.y)} y")


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One box of a box plot: quartiles, whiskers of 1.5 times their distance, extremes."""

    label: str
    group: str
    quartiles: tuple[float, float, float]
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One phase in a Gantt chart."""

    label: str
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...] = ()
    boxes: tuple[Box, ...] = ()
    bars: tuple[Bar, ...] = ()
    """A row a label, the first on top."""
    log_x: bool = False
    log_y: bool = False
    ticks: tuple[str, ...] = ()
    """Words for x = 0, 1, 2...; empty: x is a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """A figure or table of a paper, made again."""

    paper: str
    figure: str
    title: str
    stated: tuple[str, ...]
    """The settings that the paper states."""
    assumed: tuple[str, ...]
    """What it does not state and is assumed here."""
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    panels: tuple[Panel, ...]
    claims: tuple[Claim, ...]
    full: bool
    drawings: tuple[tuple[str, str], ...] = ()
    """Title and SVG of topologies with their plans."""

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.columns)]
        if wrong:
            raise ValueError(f"{len(self.columns)} columns, but a row is {wrong[0]}")

    @property
    def name(self) -> str:
        """For files: `fastrecover-4.1`."""
        return f"{self.paper}-{self.figure}"

    def column(self, name: str) -> tuple[Cell, ...]:
        """All values of one column."""
        at = self.columns.index(name)
        return tuple(row[at] for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """All but the drawings, which are files of their own."""
        names = (field.name for field in fields(self) if field.name != "drawings")
        return {name: plain(getattr(self, name)) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much of it to make, and what time is."""

    full: bool
    clock: Clock
    topology: Callable[[str], Topology]
    """A shipped topology by its name."""
    lab: Lab | None = None
    """Where figures are measured that planning alone cannot make; None: nowhere."""

    paths_lab: AdaptLab | None = None
    """The same for paths that fail."""

    def measure(self, trial: Trial) -> Measured:
        """Carry a trial out."""
        if self.lab is None:
            raise BadInputError("it is measured on Spark, and nothing is to be run here")
        return self.lab(trial)

    def adapt(self, kinds: Sequence[str]) -> tuple[Adapted, ...]:
        """Break a path by each of these faults."""
        if self.paths_lab is None:
            raise BadInputError("it is measured on Spark, and nothing is to be run here")
        return self.paths_lab(kinds)

    def pick(self, quick: int, full: int) -> int:
        """A sample size."""
        return full if self.full else quick


def said(figure: str) -> str:
    """A figure or table as the paper names it."""
    return f"table {figure}" if figure.isalpha() else f"figure {figure}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """An entry of the list: what can be made, and how."""

    paper: str
    figure: str
    title: str
    make: Callable[[Effort], Reproduction]
    measured: bool = False
    """It runs pipelines on Spark, which takes minutes: made only if it is named."""

    @property
    def said(self) -> str:
        return said(self.figure)
