"""Splits among what `run` and `status` show."""

from types import SimpleNamespace

import pytest
from tests.unit.cli.test_paths import SPLIT

from holdfast.cli.live import detours
from holdfast.control.status import SplitView

pytestmark = pytest.mark.unit


def test_a_split_off_its_first_path_is_told():
    """With why, and loudly if no path is left."""
    assert detours(SimpleNamespace(splits=(SPLIT,))) == ["score takes rules; model open: no output"]
    down = SplitView(split="s", active=None, carried="", preferred="", paths=SPLIT.paths)
    assert detours(SimpleNamespace(splits=(down,))) == [
        "s: all paths are down; its input waits in the log"
    ]
    back = SplitView(split="s", active="model", carried="model", preferred="", paths=SPLIT.paths)
    assert detours(SimpleNamespace(splits=(back,))) == []
