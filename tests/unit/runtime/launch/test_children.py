"""The output of a child process: bounded while it writes, and read when it has died."""

import time

import pytest

from holdfast.runtime.launch.children import Child

pytestmark = pytest.mark.unit

# A module that exists and writes what it is told to: `python -m timeit` prints, and can fail.
FAILS = ["-n", "1", "-r", "1", "raise ValueError('broken pump')"]
WRITES = ["-n", "1", "-r", "1", "print('x' * 1000)"]


def ended(tmp_path, arguments):
    child = Child(
        kind="node",
        name="n0",
        module="timeit",
        arguments=arguments,
        run_dir=tmp_path,
        launch="test",
    )
    end = time.monotonic() + 30
    while child.exit_code() is None:
        assert time.monotonic() < end
    return child


def test_last_words_are_those_of_this_process(tmp_path):
    """What an earlier node of the same name wrote, and Java's greeting, are left out."""
    output = tmp_path / "nodes" / "n0.out"
    output.parent.mkdir()
    output.write_text("an earlier launch\nPicked up JAVA_TOOL_OPTIONS: x\n")
    child = ended(tmp_path, FAILS)
    words = child.last_words()
    assert words[-1] == "ValueError: broken pump"
    assert "an earlier launch" not in words
    with output.open("a") as file:
        file.write("Picked up JAVA_TOOL_OPTIONS: x\n")
    assert child.last_words() == words


def test_long_output_is_moved_aside(tmp_path):
    """The file is emptied in place, what it held is kept once."""
    child = ended(tmp_path, WRITES)
    child.bound_output(limit=10_000)
    assert child.output.stat().st_size > 1000
    child.bound_output(limit=100)
    assert child.output.stat().st_size == 0
    assert "x" * 1000 in child.output.with_name("n0.out.1").read_text()
    assert child.last_words() == []


def test_processes_of_a_node_find_their_scratch_directory(tmp_path):
    """Python and Spark take it from the environment, Java from its options."""
    code = "import os, tempfile; print(tempfile.gettempdir(), os.environ['JAVA_TOOL_OPTIONS'])"
    child = ended(tmp_path, ["-n", "1", "-r", "1", code])
    scratch = tmp_path / "scratch" / "n0"
    assert f'{scratch} "-Djava.io.tmpdir={scratch}"' in child.last_words()[0]
    child.clean()
    assert not scratch.exists()
