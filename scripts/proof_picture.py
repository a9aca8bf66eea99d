"""The picture of a proof in the README: the first page of a report, as a browser shows it.

Usage:
    python scripts/proof_picture.py record examples/distinct_count.py docs/images/proof.png
    python scripts/proof_picture.py draw proof.html docs/images/proof.png

`record` profiles, plans and proves an example, some minutes, and draws its report; on an idle
machine, because what the picture shows is what people take to be usual. It needs Chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT = 900, 1682
"""Down to the plot of predictions and measurements."""
FAULTS = 14
BOUNDS = ("--max-recovery", "5s", "--max-latency", "4s")


def record(app: Path, picture: Path) -> None:
    """Measure, plan, break and check an example; then draw what the report says."""
    app, picture = app.resolve(), picture.resolve()
    with tempfile.TemporaryDirectory(prefix="holdfast-proof-") as folder:
        proved = ("--nodes", "1", "--faults", str(FAULTS), "--report", "proof.html")
        for words in (
            ("profile", str(app), "-o", "stats.json"),
            ("plan", str(app), "--stats", "stats.json", *BOUNDS, "-o", "plan.json"),
            ("prove", str(app), "--plan", "plan.json", *proved),
        ):
            subprocess.run([sys.executable, "-m", "holdfast", *words], cwd=folder, check=True)
        draw(Path(folder) / "proof.html", picture)


def draw(report: Path, picture: Path) -> None:
    """The top of a report as a browser draws it."""
    if not report.is_file():
        sys.exit(f"{report} does not exist")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"none of {', '.join(BROWSERS)} is installed")
    options = ("--headless", "--no-sandbox", "--hide-scrollbars", "--force-color-profile=srgb")
    size = f"--window-size={WIDTH},{HEIGHT}"
    where = f"--screenshot={picture.resolve()}"
    subprocess.run(
        [browser, *options, size, where, report.resolve().as_uri()],
        check=True,
        stderr=subprocess.DEVNULL,
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["record", app, picture]:
            record(Path(app), Path(picture))
        case ["draw", report, picture]:
            draw(Path(report), Path(picture))
        case _:
            sys.exit(__doc__)
