"""What is in a run directory is named in one package."""

import re
from pathlib import Path

import pytest

import holdfast
from holdfast.deployment import UnitId
from holdfast.rundir.layout import Layout, record_folder, stream_folder, unit_folder

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


def test_everything_of_a_unit_is_in_its_folders():
    """Whoever removes a unit's folders has removed all it kept."""
    layout = Layout()
    unit = UnitId(segment="a/b", shard=1)
    name = str(unit)
    for kept in (
        record_folder(f"{name}/ranges"),
        record_folder(f"{name}/claims-0"),
        layout.life(name),
        layout.data(name),
        layout.data(name, "a@k"),
        layout.late(name),
        layout.dead(name),
        layout.stop_marker(name, 3),
    ):
        assert kept.startswith(f"{unit_folder(name)}/")
    assert layout.checkpoint(unit, 7) == f"{layout.checkpoints(name)}/000007"
    assert unit_folder(name) == "units/a%2Fb.0#1"


def test_who_carries_a_stream_is_in_its_folder():
    """Changes and closings are the stream's, terms the coordinator's."""
    for kind in ("changes", "closings"):
        assert record_folder(f"a/b/{kind}") == f"{stream_folder('a/b')}/{kind}"
    assert stream_folder("a/b") == "streams/a%2Fb"
    assert record_folder("coordinator/terms") == "coordinator/terms"
