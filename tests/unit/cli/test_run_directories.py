"""Every command takes a run directory as an argument and as an option, and means the same."""

import pytest

pytestmark = pytest.mark.unit

COMMANDS = [("status",), ("nodes",), ("stop",), ("kill", "n0"), ("retry", "u.0#0"), ("verify",)]


@pytest.mark.parametrize("command", [*COMMANDS, ("logs", "n0")], ids=lambda one: one[0])
def test_a_run_directory_is_an_argument_or_an_option(holdfast, tmp_path, command):
    """What is none is refused in the same line either way; two that differ are refused too."""
    given = [
        holdfast(*command, tmp_path),
        holdfast(*command, "--run-dir", tmp_path),
        holdfast(*command, "-d", tmp_path),
        holdfast(*command, tmp_path, "-d", tmp_path),
    ]
    if command == ("verify",):
        assert all(said.code == 2 for said in given)
    else:
        assert {said.err for said in given} == {f"holdfast: {tmp_path}: is not a run directory\n"}
    said = holdfast(*command, tmp_path, "-d", tmp_path / "other")
    assert said.code == 2
    assert "are two; name one" in said.err
