"""The first hour, in a fresh clone, by README alone; the environment is the one that is there."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.full]

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(1800)
def test_a_stranger_gets_from_the_readme_to_a_kept_promise(tmp_path):
    """Check, profile, plan, run, kill and verify, as README says."""
    said = subprocess.run(
        [sys.executable, ROOT / "scripts/stranger.py", "--venv", sys.prefix],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "orders: right" in said.stdout, said.stdout + said.stderr
    assert "FAILED" not in said.stderr, said.stderr  # how long it took is not a test's business
