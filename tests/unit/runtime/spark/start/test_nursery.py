"""Interpreters that are ready: whoever asks for one must not notice that it was not started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from holdfast.runtime.spark.start import launcher, python
from holdfast.runtime.spark.start.launcher import NAME, reach, without_spark
from holdfast.runtime.spark.start.python import python_program

pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sockets without files"),
]

DAEMON = """
import sys, fractions
from holdfast.runtime.spark.start.nursery import open_nursery
open_nursery()
print("open", flush=True)
sys.stdin.read()
"""
TELL = """
import os, sys
print(os.getcwd(), os.environ["MARK"], sys.stdin.read(), "fractions" in sys.modules, __name__)
print("aside", file=sys.stderr)
sys.exit(7)
"""
LINGER = """
import os, signal
print(os.getpid(), flush=True)
signal.pause()
"""
DEADLINE_S = 30.0


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What Spark would start as Python."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(NAME, f"holdfast-test-{uuid.uuid4().hex}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    (tmp_path / "hf_tell.py").write_text(TELL)
    (tmp_path / "hf_linger.py").write_text(LINGER)
    return python_program(sys.executable)


@pytest.fixture
def nursery(program: str) -> Iterator[subprocess.Popen[str]]:
    """A daemon that has imported something, and its nursery."""
    del program
    with subprocess.Popen(
        [sys.executable, "-c", DAEMON], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == "open\n"
        yield daemon
        daemon.kill()


def _tell(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, "-m", "hf_tell"],
        input="words",
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "MARK": "mine"},
        timeout=DEADLINE_S,
    )


@pytest.mark.usefixtures("nursery")
def test_a_ready_interpreter_stands_in_for_a_new_one(program, tmp_path):
    """Folder, environment, streams and exit code are those of the one that Spark started."""
    done = _tell(program, tmp_path)
    assert done.returncode == 7
    assert done.stdout == f"{tmp_path} mine words True __main__\n"
    assert done.stderr == "aside\n"


def test_without_a_nursery_a_new_one_is_started(program, tmp_path):
    """The same program with nobody to ask: nothing is preloaded, all else is the same."""
    done = _tell(program, tmp_path)
    assert done.returncode == 7
    assert done.stdout == f"{tmp_path} mine words False __main__\n"


@pytest.mark.usefixtures("nursery")
def test_whoever_ends_the_launcher_ends_what_stands_in_for_it(program):
    """Spark knows only the process it has started."""
    with subprocess.Popen(
        [program, "-m", "hf_linger"], stdout=subprocess.PIPE, text=True
    ) as launched:
        assert launched.stdout is not None
        child = psutil.Process(int(launched.stdout.readline()))
        assert child.pid != launched.pid
        launched.send_signal(signal.SIGKILL)
        child.wait(DEADLINE_S)


def test_the_nursery_ends_with_its_daemon(program, nursery):
    """However that one ended."""
    del program
    name = os.environ[NAME]
    found = reach(name)
    assert found is not None
    found.close()
    nursery.kill()
    deadline = time.monotonic() + DEADLINE_S
    while (found := reach(name)) is not None and time.monotonic() < deadline:
        found.close()
    assert found is None


def test_another_python_is_started_as_it_is(tmp_path, monkeypatch):
    """One that somebody chose may lack all that is imported here; so with a home not writable."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert python_program("/usr/bin/other") == "/usr/bin/other"
    (tmp_path / "file").write_text("")
    assert python_program(sys.executable) == sys.executable
    assert python.cache_folder() == tmp_path / "file" / "holdfast"


def test_only_sparks_archives_leave_the_search_path():
    """A user's own archives stay where they are."""
    path = "/spark/python/lib/pyspark.zip:/spark/python/lib/py4j-0.10.9.9-src.zip:/mine.zip:/src"
    assert without_spark(path) == "/mine.zip:/src"
    assert Path(launcher.__file__).exists()
