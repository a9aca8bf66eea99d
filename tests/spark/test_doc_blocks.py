"""The commands of README, tutorial and guides, as a reader would type them, on real Spark."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.unit.docs.blocks import PAGES, ROOT, blocks, commands

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.full]

# Long ones are shortened, so that a test is a matter of minutes; what they do stays the same.
SHORTER = {"--faults": "2"}
HOLDFAST = [sys.executable, "-c", "from holdfast.cli import main; main()"]


def pages_with(kind: str):
    found = [page for page in PAGES if any(block.kind == kind for block in blocks(page))]
    return pytest.mark.parametrize("page", found, ids=lambda page: page.name)


@pytest.fixture
def desk(tmp_path):
    """A directory with the examples in it, as in a clone."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def shortened(words: list[str]) -> list[str]:
    words = list(words)
    for option, value in SHORTER.items():
        if option in words:
            words[words.index(option) + 1] = value
    if words[1] == "profile" and "--quick" not in words:
        words.append("--quick")
    return [*HOLDFAST, *words[1:]]


def call(words: list[str], desk: Path, *, seconds: float = 600.0) -> str:
    done = subprocess.run(
        shortened(words),
        cwd=desk,
        timeout=seconds,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pages_with("run-full")
@pytest.mark.timeout(1800)
def test_commands_do_what_the_page_says(page, desk):
    """One after the other in one directory; each ends with exit code 0."""
    for block in blocks(page):
        if block.kind == "run-full":
            for words in commands(block):
                call(words, desk)


@pages_with("session")
@pytest.mark.timeout(900)
def test_the_session_of_the_page(page, desk):
    """Run, kill a node while it runs, see the recovery, stop, verify: nothing is wrong."""
    typed = [words for b in blocks(page) if b.kind == "session" for words in commands(b)]
    (start,) = [words for words in typed if words[1] == "run"]
    process = subprocess.Popen(shortened(start), cwd=desk, stdout=subprocess.DEVNULL)
    try:
        wait(lambda: _view(desk).get("status") == "running", "the run is up", process)
        wait(lambda: _spare_is_warm(desk), "the spare is warm", process)
        for words in typed:
            if words[1] in {"status", "nodes", "kill"}:
                call(words, desk, seconds=120.0)
        assert any(words[1] == "kill" for words in typed)
        wait(lambda: _caught_up(desk), "what was lost has caught up", process)
        wait(lambda: _progress(desk) > 20, "some windows are closed", process)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(120)
    for words in typed:
        if words[1] == "verify":
            assert "right" in call(words, desk)


@pages_with("tests")
@pytest.mark.timeout(300)
def test_the_tests_of_the_page(page, tmp_path):
    """Beside the files they are about, as somebody who copied them would run them."""
    (block,) = [block for block in blocks(page) if block.kind == "tests"]
    desk = shutil.copytree(ROOT / block.file, tmp_path / "desk")
    (desk / "test_shown.py").write_text(block.text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shown.py"]
    done = subprocess.run(command, cwd=desk, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.timeout(600)
def test_the_program_of_the_readme_runs(desk):
    """The fifteen lines, saved to a file, give counts."""
    (block,) = [b for b in blocks(ROOT / "README.md") if b.kind == "exec"]
    (desk / "waves.py").write_text(block.text)
    start = ["holdfast", "run", "waves.py", "--run-dir", "runs/waves"]
    out = desk / "runs" / "waves" / "out" / "waves"
    process = subprocess.Popen(shortened(start), cwd=desk, stdout=subprocess.DEVNULL)
    try:
        wait(lambda: _rows(out) > 0, "counts are there", process)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(120)
    table = pq.read_table(out)
    assert set(table.column_names) == {"ts", "buoy", "waves"}
    assert min(table.column("waves").to_pylist()) > 0


def _rows(out: Path) -> int:
    """Rows delivered; batches before the first window has closed deliver none."""
    return sum(pq.read_metadata(path).num_rows for path in out.glob("*.parquet"))


def _view(desk: Path) -> dict:
    done = subprocess.run(
        [*HOLDFAST, "status", "--json", "--run-dir", "runs/word-count"],
        cwd=desk,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ},
    )
    return json.loads(done.stdout) if done.returncode == 0 else {}


def _spare_is_warm(desk: Path) -> bool:
    return any(node["spare"] and node["ready"] for node in _view(desk).get("nodes", []))


def _caught_up(desk: Path) -> bool:
    found = _view(desk).get("recoveries", [])
    return bool(found) and all(item["outcome"] != "open" for item in found)


def _progress(desk: Path) -> int:
    return min((unit["epoch"] or 0 for unit in _view(desk).get("units", [])), default=0)


def wait(done, what: str, process: subprocess.Popen, seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert process.poll() is None, f"the run ended before {what}"
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.5)
