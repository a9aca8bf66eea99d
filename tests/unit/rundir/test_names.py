"""What is in a run directory is named in one package."""

import re
from pathlib import Path

import pytest

import holdfast
from holdfast.deployment import UnitId
from holdfast.rundir.layout import Layout

pytestmark = pytest.mark.unit

SRC = Path(holdfast.__file__).parent
NAMES = (
    "checkpoints|coordinator|coordinator\\.json|dead|floors|generations|late|log|nodes|origin"
    "|processes\\.jsonl|ranges|run\\.json|schemas\\.json|scratch|skips|slices|units|warm"
)
SPELLED = re.compile(rf"""/ f?"({NAMES})["/]|f"({NAMES})/|run_dir / f?[("]""")
OWN = {
    "rundir": "names everything",
    "verify": "reads the documented format as a stranger",
    "profile": "has a folder of its own",
    "testing": "the fake host has a folder of its own",
}


def test_no_other_package_spells_a_name_in_a_run_directory():
    """Everyone else asks `rundir`, so that a change of the layout is a change in one place."""
    wrong = []
    for path in sorted(SRC.rglob("*.py")):
        relative = path.relative_to(SRC)
        if relative.parts[0] not in OWN:
            found = SPELLED.finditer(path.read_text())
            wrong += [f"{relative}: {match[0]}" for match in found]
    assert wrong == []


def test_everything_of_a_unit_is_in_its_folders(tmp_path):
    """Whoever removes a unit's folders has removed all it kept."""
    layout = Layout(root=tmp_path)
    unit = UnitId(segment="a/b", shard=1)
    name = str(unit)
    for folder in (
        layout.ranges(name),
        layout.skips(name, 1),
        layout.unit_floors(name),
        layout.generations(name),
        layout.life(name),
    ):
        assert (tmp_path / folder).is_relative_to(layout.unit_path(name))
    for path in (
        layout.late(name),
        layout.dead(name),
        layout.stop_marker(name, 3),
    ):
        assert path.is_relative_to(layout.unit_path(name))
    assert layout.checkpoint(unit, 7).parent == layout.checkpoints(name)
    assert layout.unit_path(name).name == "a%2Fb#1"


def test_everything_published_is_below_its_boundary(tmp_path):
    """The same for boundaries."""
    layout = Layout(root=tmp_path)
    for path in (
        tmp_path / layout.slices("a@k", 0),
        tmp_path / layout.slice_floors("a@k", 0),
        layout.data("a@k", 0),
    ):
        assert path.is_relative_to(layout.boundary_path("a@k"))
