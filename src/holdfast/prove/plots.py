"""The plots of a proof, drawn by matplotlib without a display and given as SVG text."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from holdfast.prove.judge import PHASE_NAMES, PHASES, Comparison
from holdfast.prove.result import Proof

INK, MUTED, GRID = "#1c2733", "#5b6b7b", "#e3e8ed"
MEASURED, PROMISED, BROKEN = "#1f6f8b", "#c2410c", "#b3261e"
SERIES = ("#1f6f8b", "#e0a030", "#54a24b", "#b279a2", "#9d755d", "#7970c8")
PHASE_COLOURS = {
    "detection": "#9db4c0",
    "restore": "#1f6f8b",
    "replay": "#e0a030",
    "catch_up": "#b279a2",
}
_STYLE: Mapping[str, Any] = {
    # Text stays text: smaller, sharp, and it can be searched.
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["system-ui", "Helvetica", "Arial", "DejaVu Sans"],
    "font.size": 10.5,
    "axes.edgecolor": "#8a99a8",
    "axes.labelcolor": MUTED,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": INK,
}
_WIDTH = 7.6


def recovery_plot(proof: Proof) -> str:
    """Every recovery as a point, by segment, with what was promised."""
    parts = [item for item in proof.comparisons if item.recoveries]

    def draw(axes: Any) -> None:
        rng = np.random.default_rng(0)  # only scatters points that would hide each other
        for y, item in enumerate(parts):
            _strip(axes, y, item, rng, first=y == 0)
        bounds = {item.promise.bound for item in parts}
        if len(bounds) == 1:
            axes.axvline(
                bounds.pop(), color=BROKEN, linestyle=(0, (4, 3)), linewidth=1.2, label="bound"
            )
        _rows(axes, [_label(item) for item in parts])
        axes.set_xlim(left=0)
        axes.set_xlabel("seconds from the kill until nothing is missing")
        axes.legend(**_legend(5))

    return _svg(draw, height=1.25 + 0.72 * len(parts), salt="recovery")


def _strip(axes: Any, y: int, item: Comparison, rng: np.random.Generator, *, first: bool) -> None:
    seconds = np.array(item.seconds)
    bound, promise = item.promise.bound, item.promise

    def named(text: str) -> str:
        return text if first else "_"

    if promise.p95 is not None and promise.median is not None:
        axes.plot(
            [promise.median, promise.p95], [y, y], color=PROMISED, linewidth=7, alpha=0.22,
            solid_capstyle="butt", label=named("predicted median to p95"),
        )  # fmt: skip
        axes.plot([promise.median] * 2, [y - 0.3, y + 0.3], color=PROMISED, linewidth=2)
        axes.plot([promise.p95] * 2, [y - 0.3, y + 0.3], color=PROMISED, linewidth=2)
    if len(seconds):
        at = y + (rng.random(len(seconds)) - 0.5) * 0.34
        colours = [BROKEN if value > bound else MEASURED for value in seconds]
        axes.scatter(seconds, at, s=22, c=colours, alpha=0.75, linewidths=0, zorder=3)
        if first:
            axes.scatter([], [], s=22, c=MEASURED, label="one recovery")
        axes.plot(
            [item.median], [y], marker="D", markersize=7, color=INK, markerfacecolor="white",
            markeredgewidth=1.6, linestyle="", zorder=4, label=named("measured median"),
        )  # fmt: skip


def phases_plot(proof: Proof) -> str:
    """What recoveries are spent on: predicted above measured."""
    parts = [item for item in proof.comparisons if item.phases is not None]
    bars: list[tuple[str, Mapping[str, float]]] = []
    for item in parts:
        if item.promise.phases is not None:
            bars.append((f"{_label(item)}\npredicted", item.promise.phases))
        if item.phases is not None:
            bars.append((f"{_label(item)}\nmeasured", item.phases))

    def draw(axes: Any) -> None:
        left = np.zeros(len(bars))
        for name in PHASES:
            widths = np.array([phases[name] for _, phases in bars])
            axes.barh(
                range(len(bars)), widths, left=left, height=0.56, color=PHASE_COLOURS[name],
                label=PHASE_NAMES[name],
            )  # fmt: skip
            left += widths
        for y, total in enumerate(left):
            axes.annotate(
                f"{total:.2f} s", (total, y), xytext=(5, 0), textcoords="offset points",
                va="center", color=MUTED, fontsize=9.5,
            )  # fmt: skip
        _rows(axes, [label for label, _ in bars])
        axes.set_xlim(0, max([*left.tolist(), 0.1]) * 1.14)
        axes.set_xlabel("seconds, medians")
        axes.legend(**_legend(4))

    return _svg(draw, height=1.25 + 0.52 * len(bars), salt="phases")


def timeline_plot(proof: Proof) -> str:
    """Every recovery over the time of the run; each column is a fault."""

    def draw(axes: Any) -> None:
        top = 0.0
        for fault in proof.struck:
            at = fault.killed_at - proof.started_at
            axes.axvline(at, color=GRID, linewidth=1.2, zorder=1)
        for i, item in enumerate(proof.comparisons):
            done = [one for one in item.recoveries if one.seconds is not None]
            lost = [one for one in item.recoveries if one.seconds is None]
            top = max([top, item.promise.bound, *item.seconds])
            for some, mark in ((done, "o"), (lost, "x")):
                axes.plot(
                    [one.killed_at - proof.started_at for one in some],
                    [item.promise.bound if one.seconds is None else one.seconds for one in some],
                    marker=mark, markersize=5, linestyle="", alpha=0.85, zorder=3,
                    color=SERIES[i % len(SERIES)], label=_label(item) if some is done else "_",
                )  # fmt: skip
        for bound in {item.promise.bound for item in proof.comparisons}:
            axes.axhline(bound, color=BROKEN, linestyle=(0, (4, 3)), linewidth=1.2)
        axes.grid(axis="y", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.set_ylim(0, top * 1.12)
        axes.set_xlim(left=0)
        axes.set_ylabel("recovery, seconds")
        axes.set_xlabel("seconds since the start of the run; each line is a kill -9")
        axes.legend(**_legend(4))

    return _svg(draw, height=2.9, salt="timeline")


def _label(item: Comparison) -> str:
    names = item.promise.operators
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} … {names[-1]} ({len(names)})"


def _rows(axes: Any, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _legend(columns: int) -> dict[str, Any]:
    return {
        "frameon": False,
        "ncols": columns,
        "loc": "lower left",
        "bbox_to_anchor": (0.0, 1.0),
        "borderaxespad": 0.2,
        "fontsize": 9.5,
        "handletextpad": 0.5,
        "columnspacing": 1.2,
    }


def _svg(draw: Callable[[Any], None], *, height: float, salt: str) -> str:
    """Draw and give the SVG element alone; ids differ between plots of one page."""
    import matplotlib as mpl  # noqa: PLC0415 - loads slowly, and only a report needs it
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    style: Any = {**_STYLE, "svg.hashsalt": salt, "svg.id": salt}
    with mpl.rc_context(style):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.add_subplot())
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # Groups are named alike in every plot, and nothing refers to them.
    return re.sub(r'<g id="[^"]*"', "<g", text)
