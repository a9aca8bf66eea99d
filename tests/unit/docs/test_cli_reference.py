"""The page of the command line is what the command line says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]


def test_the_page_is_up_to_date():
    """Else: python scripts/cli_reference.py."""
    script = runpy.run_path(str(ROOT / "scripts" / "cli_reference.py"))
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    assert page == script["page"](), "run: python scripts/cli_reference.py"


def test_the_page_has_every_command_and_its_options():
    """Some of each, to see that the generator sees them."""
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    for line in (
        "## holdfast topology new ppa-random",
        "| `--keep-input` |",
        "`replayed\\|durable`",
        "holdfast reproduce [PAPER] [FIGURE] [OPTIONS]",
    ):
        assert line in page
