"""Colours and type of the SVG drawings, for light and dark surroundings.

Plain class rules with a media query on top: renderers that know no CSS variables or media queries
show the light drawing.
"""

from __future__ import annotations

from collections.abc import Mapping

FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"

SEGMENT_COLOURS = (
    ("#4c78a8", "#7aa6d6"),
    ("#e0a030", "#e8b95c"),
    ("#54a24b", "#7cc474"),
    ("#b279a2", "#cf9cc2"),
    ("#e45756", "#f08483"),
    ("#439894", "#6cc0bc"),
    ("#9d755d", "#c29b83"),
    ("#7970c8", "#a09aec"),
)
"""Hulls of segments, light and dark; used in turn."""

_LIGHT: Mapping[str, str] = {
    "bg": "#ffffff",
    "ink": "#1c2733",
    "muted": "#5b6b7b",
    "box": "#f7f9fb",
    "line": "#8a99a8",
    "edge": "#8492a0",
    "pill": "#ffffff",
    "source": "#e8f3ec",
    "source_line": "#5d9c78",
    "query": "#eef0fb",
    "query_line": "#7277bd",
    "backup": "#c2410c",
    "anchor": "#1d5fbf",
    "replica": "#0f7f6b",
}
_DARK: Mapping[str, str] = {
    "bg": "#12181f",
    "ink": "#e6edf3",
    "muted": "#9fb0c0",
    "box": "#1d2630",
    "line": "#5f7183",
    "edge": "#74869a",
    "pill": "#12181f",
    "source": "#1b2f26",
    "source_line": "#5fae85",
    "query": "#24273f",
    "query_line": "#8d92dd",
    "backup": "#fb8c4e",
    "anchor": "#6aa8ff",
    "replica": "#3fc7ae",
}


def style_sheet(segments: int) -> str:
    """The rules of a drawing with so many segments."""
    light = "".join(_rules(_LIGHT, segments, tone=0))
    dark = "".join(_rules(_DARK, segments, tone=1))
    fixed = (
        f".hf text{{font-family:{FONT};font-size:11.5px}}"
        ".hf .title{font-size:17px;font-weight:650}"
        ".hf .name{font-size:13px;font-weight:600}"
        ".hf .mid{text-anchor:middle}"
        ".hf .strong{font-weight:600}"
        ".hf .edge{fill:none;stroke-width:1.4}"
        ".hf .full{stroke-width:2.3}"
        ".hf .split{stroke-dasharray:9 4}"
        ".hf .merge{stroke-dasharray:2.5 3.5}"
        ".hf .box{stroke-width:1.3}"
        ".hf .twin{stroke-width:1.6}"
        ".hf .icon{fill:none;stroke-width:1.2;stroke-linecap:round}"
        ".hf .pill{stroke-width:1}"
        ".hf .faint{opacity:.3}"
        ".hf .hull{opacity:.2}"
        ".hf .hull path{fill:none;stroke-width:26;stroke-linecap:round}"
    )
    return f"{fixed}{light}@media (prefers-color-scheme:dark){{{dark}}}"


def _rules(colour: Mapping[str, str], segments: int, *, tone: int) -> list[str]:
    rules = [
        f".hf .bg{{fill:{colour['bg']}}}",
        f".hf text{{fill:{colour['ink']}}}",
        f".hf text.muted{{fill:{colour['muted']}}}",
        f".hf .box{{fill:{colour['box']};stroke:{colour['line']}}}",
        f".hf .box.source{{fill:{colour['source']};stroke:{colour['source_line']}}}",
        f".hf .box.query{{fill:{colour['query']};stroke:{colour['query_line']}}}",
        f".hf .edge{{stroke:{colour['edge']}}}",
        f".hf .head{{fill:{colour['edge']}}}",
        f".hf .pill{{fill:{colour['pill']};stroke:{colour['edge']}}}",
        f".hf .icon{{stroke:{colour['muted']}}}",
        f".hf text.sink{{fill:{colour['query_line']}}}",
        f".hf .twin{{fill:{colour['box']};stroke:{colour['replica']}}}",
    ]
    for mark in ("backup", "anchor", "replica"):
        rules.append(f".hf .bar.{mark}{{fill:{colour[mark]}}}")
        rules.append(f".hf text.{mark}{{fill:{colour[mark]}}}")
    for i in range(min(segments, len(SEGMENT_COLOURS))):
        shade = SEGMENT_COLOURS[i][tone]
        rules.append(f".hf .s{i} rect{{fill:{shade}}}.hf .s{i} path{{stroke:{shade}}}")
    return rules
