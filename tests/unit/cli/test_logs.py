"""`holdfast logs`: what nodes wrote, by time, tracebacks whole."""

import pytest

from holdfast.cli.logs import find_lines

pytestmark = pytest.mark.unit


@pytest.fixture
def run_dir(tmp_path):
    nodes = tmp_path / "nodes"
    nodes.mkdir()
    (nodes / "n0.log.1").write_text("2026-01-01 00:00:00,000 INFO unit=count.0#0 oldest\n")
    (nodes / "n0.log").write_text(
        "2026-01-01 00:00:02,000 ERROR cannot start\n"
        "Traceback (most recent call last):\n"
        '  File "x"\n'
        "ValueError: boom\n"
        "2026-01-01 00:00:05,000 INFO unit=count.0#1 last\n"
    )
    (nodes / "n1.log").write_text("2026-01-01 00:00:03,000 INFO unit=count.0#0 moved\n")
    (nodes / "n0.out").write_text("Error: no memory\n")
    return tmp_path


def test_a_unit_is_followed_over_nodes_by_time(run_dir):
    """Rotated logs first, then as it moved; all shards of a segment, or one."""
    assert [line.split()[-1] for line in find_lines(run_dir, "count")] == [
        "oldest",
        "moved",
        "last",
    ]
    assert [line.split()[-1] for line in find_lines(run_dir, "count.0#0")] == ["oldest", "moved"]


def test_a_node_is_shown_whole(run_dir):
    """Lines of a traceback stay where they belong; what it and Java printed comes last."""
    assert find_lines(run_dir, "n0")[1:] == [
        "2026-01-01 00:00:02,000 ERROR cannot start",
        "Traceback (most recent call last):",
        '  File "x"',
        "ValueError: boom",
        "2026-01-01 00:00:05,000 INFO unit=count.0#1 last",
        "Error: no memory",
    ]
