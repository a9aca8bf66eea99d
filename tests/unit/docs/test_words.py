"""Words that the glossary keeps for one thing."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
RECORDS = [
    *(ROOT / "src" / "holdfast" / "streams").glob("*.py"),
    *(ROOT / "src" / "holdfast" / "testing" / "hands").glob("*.py"),
]


def test_a_cut_is_a_boundary_of_a_plan():
    """How a stream changes hands is told in other words: logs are halted, parents hand over."""
    assert len(RECORDS) > 20
    found = {}
    for path in RECORDS:
        text = " ".join(path.read_text().split())
        if words := re.findall(r"(?i)(?<!consistent )(?<![^\W_])cuts?(?![^\W_])(?! off)", text):
            found[path.name] = words
    assert found == {}
