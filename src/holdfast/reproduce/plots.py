"""The plots of a reproduction, by matplotlib without a display."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from holdfast.reproduce.model import Bar, Box, Panel, Reproduction

COLORS = ("#1f6f8b", "#c1553b", "#6a8d3a", "#8a5aa8", "#c79a2b", "#4b4b4b")
STYLES = ("-", "--", "-.", ":")
MOST_COLUMNS = 3
MOST_DECADES = 1e3
"""A longer logarithmic axis has labels at its powers of ten alone."""


def draw(made: Reproduction, path: Path) -> None:
    """All panels of a reproduction in one SVG."""
    import matplotlib as mpl  # noqa: PLC0415  loads slowly
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    columns = min(MOST_COLUMNS, len(made.panels))
    rows = math.ceil(len(made.panels) / columns)
    with mpl.rc_context({"svg.hashsalt": made.name, "font.size": 9}):
        figure = Figure(figsize=(4.2 * columns, 3.1 * rows), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots(rows, columns, squeeze=False)
        for k, spare in enumerate(axes.flat):
            if k < len(made.panels):
                _panel(spare, made.panels[k])
            else:
                spare.set_visible(False)
        figure.savefig(path, metadata={"Date": None})


def _panel(axes: Any, panel: Panel) -> None:
    for k, line in enumerate(panel.lines):
        known = [(x, y) for x, y in zip(line.x, line.y, strict=True) if y is not None]
        axes.plot(
            [x for x, _ in known],
            [y for _, y in known],
            linestyle=STYLES[(k // 2) % len(STYLES)],
            marker="o",
            markersize=3,
            linewidth=1.4,
            color=COLORS[k % len(COLORS)],
            label=line.label,
        )
    if panel.boxes:
        _boxes(axes, panel.boxes)
    if panel.bars:
        _bars(axes, panel.bars)
    if panel.log_x:
        axes.set_xscale("log")
        _where_measured(axes, panel)
    if panel.log_y:
        axes.set_yscale("log")
        _plain_numbers(axes.yaxis)
    if panel.ticks:
        axes.set_xticks(range(len(panel.ticks)), panel.ticks, rotation=30, ha="right")
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if panel.lines:
        axes.legend(frameon=False, fontsize=8)


def _where_measured(axes: Any, panel: Panel) -> None:
    """Ticks at the values that were tried: those of a logarithmic axis run into each other."""
    tried = sorted({x for line in panel.lines for x in line.x})
    axes.set_xticks(tried, [f"{x:g}" for x in tried])
    axes.minorticks_off()


def _plain_numbers(axis: Any) -> None:
    """1, 2, 5, 10 instead of powers, which say nothing on an axis shorter than a decade."""
    from matplotlib.ticker import (  # noqa: PLC0415  loads slowly
        FuncFormatter,
        LogLocator,
        NullFormatter,
    )

    low, high = axis.get_view_interval()
    short = high / low < MOST_DECADES
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if short else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _boxes(axes: Any, boxes: tuple[Box, ...]) -> None:
    labels = list(dict.fromkeys(box.label for box in boxes))
    groups = list(dict.fromkeys(box.group for box in boxes))
    width = 0.8 / len(labels)
    for k, label in enumerate(labels):
        own = [box for box in boxes if box.label == label]
        drawn = axes.bxp(
            [_box(box) for box in own],
            positions=[
                groups.index(box.group) + (k - (len(labels) - 1) / 2) * width for box in own
            ],
            widths=width * 0.85,
            patch_artist=True,
            showfliers=True,
            flierprops={"marker": ".", "markersize": 3},
            manage_ticks=False,
        )
        for patch in drawn["boxes"]:
            patch.set(facecolor=COLORS[k], alpha=0.6)
        axes.plot([], [], color=COLORS[k], linewidth=6, alpha=0.6, label=label)
    axes.set_xticks(range(len(groups)), groups)
    axes.legend(frameon=False, fontsize=8)


def _bars(axes: Any, bars: tuple[Bar, ...]) -> None:
    rows = list(dict.fromkeys(bar.label for bar in bars))
    for bar in bars:
        row = rows.index(bar.label)
        axes.barh(
            row,
            bar.end - bar.start,
            left=bar.start,
            height=0.6,
            color=COLORS[row % len(COLORS)],
            alpha=0.8,
        )
    axes.set_yticks(range(len(rows)), rows)
    axes.invert_yaxis()


def _box(box: Box) -> dict[str, Any]:
    low, middle, high = box.quartiles
    reach = 1.5 * (high - low)
    ends = max(box.lowest, low - reach), min(box.highest, high + reach)
    return {
        "q1": low,
        "med": middle,
        "q3": high,
        "whislo": ends[0],
        "whishi": ends[1],
        "fliers": [value for value in (box.lowest, box.highest) if not ends[0] <= value <= ends[1]],
    }
