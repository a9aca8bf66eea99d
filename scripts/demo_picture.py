"""The moving picture of the README: what `holdfast demo` prints, as an animated SVG.

Usage:
    python scripts/demo_picture.py record docs/images/demo.cast    # runs the demo, some minutes
    python scripts/demo_picture.py transcribe demo.txt docs/images/demo.cast
    python scripts/demo_picture.py draw docs/images/demo.cast docs/images/demo.svg

`transcribe` takes what a demo printed instead of running one: the sections' own times say when they
began. Record on an idle machine: what the picture shows is what people take to be usual.

The recording is an asciinema file (version 2): a header, then `[seconds, "o", text]` per line as it
came. Drawn, pauses are shortened to what a reader needs; nothing else is changed. The text stands
in one column that moves up behind a window, so that the file stays small and needs no script.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import time
from html import escape
from pathlib import Path

ROWS, COLUMNS = 28, 96
LINE, CHAR = 18.0, 8.43
MARGIN = 16.0
LONGEST_PAUSE_S = 1.6
SHORTEST_PAUSE_S = 0.2
END_S = 9.0
COLORS = {
    "kill -9": "#ff7b72",
    "results exact": "#7ee787",
    "bound kept": "#7ee787",
    "Nothing is missing": "#7ee787",
}


def record(path: Path) -> None:
    """Run the demo and note when each line came."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": str(COLUMNS), "LINES": "50"}
    command = [sys.executable, "-c", "from holdfast.cli import main; main()", "demo"]
    began = time.monotonic()
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append((round(time.monotonic() - began, 3), line.rstrip("\n")))
    if process.returncode:
        sys.exit(f"the demo ended with exit code {process.returncode}: nothing was recorded")
    write(path, lines)


def transcribe(text: str) -> list[tuple[float, str]]:
    """Lines with times: a section begins when its headline says, its lines follow at once."""
    at, lines = 0.0, []
    for line in text.splitlines():
        if headline := re.match(r"\d  .* (\d+) s ─", line):
            at = max(at, float(headline[1]))
        lines.append((round(at, 3), line))
        at += SHORTEST_PAUSE_S
    return lines


def write(path: Path, lines: list[tuple[float, str]]) -> None:
    """The recording as a file."""
    head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "holdfast demo"}
    events = [json.dumps([at, "o", f"{text}\n"], ensure_ascii=False) for at, text in lines]
    path.write_text("\n".join([json.dumps(head), *events]) + "\n", encoding="utf-8")


def read(path: Path) -> list[tuple[float, str]]:
    """Seconds and lines of a recording."""
    _, *events = path.read_text(encoding="utf-8").splitlines()
    found = [json.loads(event) for event in events]
    return [(float(at), str(text).rstrip("\n")) for at, _, text in found]


def shown_times(lines: list[tuple[float, str]]) -> list[float]:
    """When each line appears in the picture: pauses as they were, within limits."""
    at, shown, before = 0.4, [], 0.0
    for then, _ in lines:
        at += min(LONGEST_PAUSE_S, max(SHORTEST_PAUSE_S, then - before))
        before = then
        shown.append(at)
    return shown


def draw(lines: list[tuple[float, str]]) -> str:
    """The animated SVG; lines that are too long go on in the next one, as in a terminal."""
    lines = [
        (at, part)
        for at, text in lines
        for part in (textwrap.wrap(text, COLUMNS) if len(text) > COLUMNS else [text])
    ]
    command = [(0.0, "$ holdfast demo"), (0.0, "")]
    texts = [text for _, text in (*command, *lines)]
    times = [0.0, 0.0, *shown_times(lines)]
    total = times[-1] + END_S
    height, width = ROWS * LINE + 2 * MARGIN, COLUMNS * CHAR + 2 * MARGIN
    steps = []
    for k, at in enumerate(times):
        # The newest line is the last of the window; the ones to come lie below it.
        steps.append(
            f"{100 * at / total:.3f}%{{transform:translateY({(ROWS - k - 1) * LINE:.0f}px)}}"
        )
    last = (ROWS - len(texts)) * LINE
    steps.append(f"100%{{transform:translateY({last:.0f}px)}}")
    rows = "\n".join(_row(k, text) for k, text in enumerate(texts))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" \
width="{width:.0f}" height="{height:.0f}" role="img" aria-label="holdfast demo in a terminal">
<style>
text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d7dde5;white-space:pre}}
.column{{animation:up {total:.1f}s step-end infinite}}
@keyframes up{{{"".join(steps)}}}
@media (prefers-reduced-motion:reduce){{
.column{{animation:none;transform:translateY({last:.0f}px)}}}}
</style>
<rect width="100%" height="100%" rx="8" fill="#0f161d"/>
<clipPath id="window">
<rect x="0" y="{MARGIN:.0f}" width="100%" height="{ROWS * LINE:.0f}"/>
</clipPath>
<g clip-path="url(#window)"><g class="column">
{rows}
</g></g>
</svg>
"""


def _row(number: int, text: str) -> str:
    if not text.strip():
        return ""
    color = next((value for word, value in COLORS.items() if word in text), "")
    fill = f' style="fill:{color}"' if color else ""
    y = MARGIN + (number + 0.75) * LINE
    shown = escape(text, quote=False)
    return f'<text x="{MARGIN:.0f}" y="{y:.1f}" xml:space="preserve"{fill}>{shown}</text>'


def main() -> int:
    match sys.argv[1:]:
        case ["record", cast]:
            record(Path(cast))
        case ["transcribe", text, cast]:
            write(Path(cast), transcribe(Path(text).read_text(encoding="utf-8")))
        case ["draw", cast, svg]:
            Path(svg).write_text(draw(read(Path(cast))), encoding="utf-8")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
