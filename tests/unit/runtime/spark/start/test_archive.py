"""Building the class archive: what a killed builder leaves behind."""

import subprocess
import sys
import time

import psutil
import pytest

from holdfast.runtime.spark.start import archive

pytestmark = pytest.mark.unit

CHILD = (
    "import os, pathlib, time; pathlib.Path({path!r}).write_text(str(os.getpid())); time.sleep(600)"
)
SLOW = "import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def place(tmp_path, monkeypatch):
    path = tmp_path / "spark-0.jsa"
    monkeypatch.setattr(archive, "find_jar", lambda: None)
    monkeypatch.setattr(archive, "archive_path", lambda: path)
    monkeypatch.setattr(archive, "_ensure_base", lambda path: None)
    return path


def test_an_archive_is_built_once_and_leftovers_go(place, monkeypatch):
    """What earlier builders left is removed; the second who asks finds it done."""
    built = []

    def build(command, environment, timeout_s):
        built.append(command)
        place.with_name(environment[archive.BUILDING].rpartition("/")[2]).write_text("classes")

    monkeypatch.setattr(archive, "_run_whole", build)
    left = place.with_suffix(".123.tmp")
    left.touch()
    other = place.with_name("spark-1.123.tmp")
    other.touch()
    assert [archive.ensure_archive(), archive.ensure_archive()] == [place, place]
    assert place.read_text() == "classes"
    assert len(built) == 1
    assert not left.exists()
    assert other.exists()


def test_a_builder_that_takes_too_long_ends_with_all_it_started(tmp_path):
    """What the builder started is gone too, so nothing is written later."""
    path = tmp_path / "pid"
    slow = [sys.executable, "-c", SLOW.format(child=CHILD.format(path=str(path)))]
    for timeout_s in (0.5, 2.0, 8.0, 32.0):  # until there was time to start it
        with pytest.raises(subprocess.TimeoutExpired):
            archive._run_whole(slow, {}, timeout_s)
        if path.exists():
            break
    end = time.monotonic() + 30
    while alive(int(path.read_text())):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_build_that_fails_costs_only_speed(place, monkeypatch):
    """None, and nothing is left."""

    def fail(*_):
        raise subprocess.CalledProcessError(1, "java")

    monkeypatch.setattr(archive, "_run_whole", fail)
    assert archive.ensure_archive() is None
    assert [one.suffix for one in place.parent.iterdir()] == [".lock"]
