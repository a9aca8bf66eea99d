"""Plots to files, by matplotlib without a display."""

from __future__ import annotations

from pathlib import Path

from holdfast.errors import BadInputError
from holdfast.planners.interface import Sweep

FORMATS = (".svg", ".png", ".pdf")


def plot_sweep(sweep: Sweep, path: Path) -> None:
    """Draw a trade-off curve with its marks."""
    if path.suffix not in FORMATS:
        raise BadInputError(
            f"cannot be drawn to {path.name!r}", where="--plot", hint="end it in .svg, .png or .pdf"
        )
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    known = [(point.x, point.y) for point in sweep.points if point.y is not None]
    xs, ys = [x for x, _ in known], [y for _, y in known]
    if sweep.step:
        axes.step(xs, ys, where="post", color="#1f6f8b", linewidth=1.8)
    else:
        axes.plot(xs, ys, color="#1f6f8b", linewidth=1.8)
    axes.plot(xs, ys, ".", color="#1f6f8b", markersize=5)
    for i, mark in enumerate(sweep.marks):
        if mark.y is not None:
            axes.plot([mark.x], [mark.y], marker="^sDov"[i % 5], linestyle="", label=mark.label)
    if sweep.marks:
        axes.legend(frameon=False)
    axes.set_title(sweep.title, fontsize=11)
    axes.set_xlabel(sweep.x_label)
    axes.set_ylabel(sweep.y_label)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    try:
        figure.savefig(path)
    except OSError as error:
        raise BadInputError(
            f"cannot be written: {error.strerror}", where=f"--plot {path}"
        ) from None
