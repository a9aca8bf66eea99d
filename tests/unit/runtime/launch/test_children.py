"""The output of a child process: bounded while it writes, and read when it has died."""

import os
import time

import pytest

from holdfast.runtime.launch.children import Child, ProcessList, ProcessRecord, forget_logs
from holdfast.runtime.launch.run import remove_leftovers
from holdfast.runtime.node.processes import ProcessId

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


def record(pid, launch="now", started=1.0):
    return ProcessRecord(kind="node", name=f"s{pid}", pid=pid, started=started, launch=launch)


def test_the_process_list_forgets_who_ended(tmp_path):
    """However many nodes were replaced, the list is short, and who lives is on it."""
    path = tmp_path / "processes.jsonl"
    processes = ProcessList(tmp_path, compact_after=8)
    mine = ProcessId.of(os.getpid())
    processes.add(record(mine.pid, launch="mine", started=mine.started))
    lengths = []
    for index in range(100):
        # Numbers that no process has.
        processes.add(record(2**22 + index))
        lengths.append(len(path.read_text().splitlines()))
    assert max(lengths) <= 8 + 3
    found = processes.records()
    assert found[0].launch == "mine"
    assert found[-1].pid == 2**22 + 99
    assert {item.launch for item in found} == {"mine", "now"}
    assert ProcessList(tmp_path).leftovers() == []


def test_logs_of_earlier_launches_are_forgotten(tmp_path):
    """Every launch counts its spares from 0; what earlier ones left is bounded all the same."""
    (tmp_path / "nodes").mkdir()
    for index in range(30):
        for kind in ("log", "log.1", "out"):
            path = tmp_path / "nodes" / f"s{index}.{kind}"
            path.touch()
            os.utime(path, (index, index))
    forget_logs(tmp_path, keep=5)
    assert {path.name.partition(".")[0] for path in (tmp_path / "nodes").iterdir()} == {
        f"s{index}" for index in range(25, 30)
    }
    assert (tmp_path / "nodes" / "s29.log.1").exists()


def test_a_launch_removes_what_killed_processes_left(tmp_path):
    """Half-written files, and rehearsals that would pin trimmed slices; nothing of the run."""
    for name in (
        "schemas.json.140.tmp",
        "run.json.77.tmp",
        "coordinator.json.78.tmp",
        "processes.jsonl.77.tmp",
        "warm/0f/log/a",
        "scratch/n0/x",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name in ("schemas.json", "run.json", "run.json.bak"):
        (tmp_path / name).touch()
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "run.json",
        "run.json.bak",
        "schemas.json",
    ]
