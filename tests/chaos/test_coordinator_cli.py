"""The commands `run`, `status`, `nodes`, `logs`, `kill`, `stop` against real processes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from holdfast.deployment import UnitId
from holdfast.runtime.launch.children import ProcessList
from holdfast.testing.fake_host import set_fault

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(150)]

DEADLINE_S = 40.0
ROOT = Path(__file__).parents[2]
APP = """
from holdfast.pipeline import Parquet, Pipeline, Rate

def double(frame):
    return frame

pipeline = Pipeline("demo", epoch="100ms")
numbers = pipeline.source("numbers", Rate(rows_per_second=10))
pipeline.sink("out", numbers.map("double", double), Parquet("out/"))
"""


@pytest.fixture
def place(tmp_path):
    """A directory with an application; whatever was started there is gone afterwards."""
    (tmp_path / "app.py").write_text(APP)
    started = []

    def begin(*arguments, **variables):
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A test runner in the background ignores Ctrl-C, and its children would inherit that.
            preexec_fn=lambda: signal.signal(  # noqa: PLW1509 - one thread here
                signal.SIGINT, signal.default_int_handler
            ),
        )
        started.append(process)
        return process

    yield tmp_path, begin
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()
    processes = ProcessList(tmp_path / "runs" / "demo")
    wait_until(lambda: not processes.leftovers())


def wait_until(condition):
    end = time.monotonic() + DEADLINE_S
    pause = threading.Event()
    while not (result := condition()):
        assert time.monotonic() < end, "did not happen in time"
        pause.wait(0.1)
    return result


def ask(begin, *arguments):
    process = begin(*arguments, "--json")
    out, err = process.communicate(timeout=DEADLINE_S)
    return process.returncode, json.loads(out) if out.strip() else {}, err


def running(begin):
    def look():
        code, view, _ = ask(begin, "status")
        return view if code == 0 and view["status"] == "running" else None

    return wait_until(look)


def test_a_run_is_watched_killed_stopped_and_resumed(place):
    """Start, look, kill a node, read logs, stop from outside, resume for a while."""
    _, begin = place
    first = begin("run", "app.py", "--host", "fake", "--nodes", "1", "--spares", "1", "--json")
    view = running(begin)
    assert [unit["unit"] for unit in view["units"]] == ["numbers.0#0", "double.0#0", "out.0#0"]
    code, shown, _ = ask(begin, "nodes")
    assert code == 0
    assert [node["node"] for node in shown["nodes"]] == ["n0", "s0"]
    code, _, err = ask(begin, "kill", "zz")
    assert code == 2
    assert "no node 'zz'; there are: n0, s0" in err
    assert ask(begin, "kill", "n0")[0] == 0
    wait_until(lambda: ask(begin, "status")[1].get("recoveries"))
    running(begin)
    code, found, _ = ask(begin, "logs", "double")
    assert code == 0
    assert any("unit=double.0#0 generation=2 start" in line for line in found["lines"])
    assert ask(begin, "logs", "nothing")[0] == 2
    assert ask(begin, "stop")[0] == 0
    out, err = first.communicate(timeout=DEADLINE_S)
    result = json.loads(out)
    assert (first.returncode, result["status"], result["clean"]) == (0, "stopped", True), err
    assert len(result["recoveries"]) == 3
    code, result, err = ask(
        begin, "run", "app.py", "--host", "fake", "--spares", "0", "--for", "3s"
    )
    assert (code, result["clean"]) == (0, True), err
    assert "resuming in" in err


def test_ctrl_c_stops_cleanly(place):
    """An interrupt ends the run with code 0 and leaves nothing."""
    where, begin = place
    process = begin("run", "app.py", "--host", "fake", "--spares", "0", "--json")
    running(begin)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, json.loads(out)["clean"]) == (0, True), err
    assert ProcessList(where / "runs" / "demo").leftovers() == []


def test_a_time_limit_counts_from_when_everything_runs(place):
    """A tenth of a second is less than any start takes, and yet everything has run."""
    _, begin = place
    code, result, err = ask(
        begin, "run", "app.py", "--host", "fake", "--spares", "0", "--for", "0.1s"
    )
    assert (code, result["clean"]) == (0, True), err
    assert {unit["phase"] for unit in result["units"]} == {"running"}


def test_changed_code_is_refused_by_operator_name(place):
    """Resuming with another function names the operator and what to do; --reset goes on."""
    where, begin = place
    arguments = ("run", "app.py", "--host", "fake", "--spares", "0", "--for", "1s")
    assert ask(begin, *arguments)[0] == 0
    (where / "app.py").write_text(APP.replace("return frame", "return frame.limit(1)"))
    code, _, err = ask(begin, *arguments)
    assert code == 2
    assert "double: its code or options have changed" in err
    assert "--reset double" in err
    code, _, err = ask(begin, *arguments, "--reset", "double")
    assert code == 0, err
    assert "double begins at epoch 0, out begins at epoch 0" in err


def test_what_cannot_run_is_one_line(place):
    """A missing application, and commands without a run, are one clear line."""
    _, begin = place
    for arguments in (("run", "nothing.py"), ("status",), ("stop",)):
        code, _, err = ask(begin, *arguments)
        assert code == 2
        assert len(err.strip().splitlines()) == 1


def test_nodes_that_cannot_load_the_application_end_the_run(place):
    """What can never start is not tried again: `run` ends with 1 and says the error."""
    where, begin = place
    (where / "app.py").write_text(
        APP + "import os\nif 'HOLDFAST_LAUNCH' in os.environ:\n    1 / 0  # in nodes only\n"
    )
    process = begin("run", "app.py", "--host", "spark", "--spares", "1")
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1, err
    (line,) = [line for line in err.splitlines() if line.startswith("given up: ")]
    assert "ended with 2 before it could run anything" in line
    assert "ZeroDivisionError" in line
    assert len(ProcessList(where / "runs" / "demo").records()) == 3
    _, found, _ = ask(begin, "logs", "n0")
    assert any("ZeroDivisionError" in line for line in found["lines"])
    assert not any((where / "runs" / "demo" / "scratch").iterdir())


def test_without_java_is_one_line(place):
    """No Java anywhere is said before anything starts."""
    where, begin = place
    process = begin("run", "app.py", "--spares", "0", JAVA_HOME="", PATH=str(where))
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 2
    assert "no Java 17 or newer was found" in err
    assert not ProcessList(where / "runs" / "demo").records()


@pytest.mark.spark
def test_a_java_that_does_not_start_ends_the_run(place):
    """Spark's own start fails in every node: the run ends with what Java said."""
    where, begin = place
    java = where / "jre" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "17.0.1"\' && exit\n'
        "echo 'Error: Could not reserve enough space for object heap' >&2\nexit 1\n"
    )
    java.chmod(0o755)
    process = begin(
        *("run", "app.py", "--spares", "1"),
        JAVA_HOME=str(where / "jre"),
        XDG_CACHE_HOME=str(where / "cache"),
    )
    _, err = process.communicate(timeout=3 * DEADLINE_S)
    assert process.returncode == 1, err
    assert sum(line.startswith("given up: ") for line in err.splitlines()) == 1
    assert "Could not reserve enough space" in err
    assert "JAVA_GATEWAY_EXITED" in err


def test_a_held_unit_is_told_with_its_traceback(place):
    """`status`, `run` and `logs` name the operator and show where its function failed."""
    where, begin = place
    run_dir = where / "runs" / "demo"
    first = begin("run", "app.py", "--host", "fake", "--spares", "0")
    running(begin)
    set_fault(run_dir, UnitId.parse("double.0#0"), "raise")
    wait_until(lambda: ask(begin, "status")[1]["status"] == "failed")
    shown = begin("status")
    out, _ = shown.communicate(timeout=DEADLINE_S)
    code, found, _ = ask(begin, "logs", "double.0#0")
    assert code == 0
    first.send_signal(signal.SIGINT)
    _, err = first.communicate(timeout=DEADLINE_S)
    assert first.returncode == 1
    for text in (out, err, "\n".join(found["lines"])):
        assert "Traceback (most recent call last)" in text
        assert "ValueError: poisoned record in double.0#0" in text
    assert "double.0#0 is held (operator double): ValueError: poisoned record in double.0#0" in err
    assert any("unit=double.0#0 operator=double failed" in line for line in found["lines"])
