"""What commands take from the examples is in the wheel; what the wheel says of itself is true."""

import re
import tomllib
from pathlib import Path

import pytest

from holdfast.cli.doctor import python_found

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
INCLUDED = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]


def test_every_example_that_a_command_uses_is_in_the_wheel():
    """Under the name by which `shipped` looks for it."""
    commands = (ROOT / "src" / "holdfast" / "cli").glob("*.py")
    asked = {name for path in commands for name in _asked(path.read_text())}
    assert "word_count.py" in asked
    assert "topologies" in asked
    for name in asked:
        assert INCLUDED.get(f"examples/{name}") == f"holdfast/examples/{name}"
        assert (ROOT / "examples" / name).exists()


def _asked(text: str) -> list[str]:
    """The first part of every path: a folder is included as a whole."""
    return [found.split("/")[0] for found in re.findall(r'\bshipped\(f?"([^"]+)"\)', text)]


def test_the_pythons_named_are_those_allowed():
    """The classifiers, `requires-python` and `holdfast doctor` agree."""
    named = {
        tuple(map(int, line.rpartition(" ")[2].split(".")))
        for line in PROJECT["project"]["classifiers"]
        if line.startswith("Programming Language :: Python :: 3.")
    }
    assert named == {(3, minor) for minor in range(20) if python_found((3, minor)).state == "ok"}
    oldest, newest = min(named), max(named)
    wanted = f">=3.{oldest[1]},<3.{newest[1] + 1}"
    assert PROJECT["project"]["requires-python"] == wanted
