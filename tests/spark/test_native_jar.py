"""The Java side of slices is compiled on this machine, once; where it cannot be, Python is used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from holdfast.errors import BadInputError
from holdfast.runtime.spark.start import native
from holdfast.runtime.spark.start.prepare import prepare

pytestmark = pytest.mark.spark

STANDS_IN = "org/apache/spark/sql/catalyst/util/MathUtils.class"
ENSURE = "from holdfast.runtime.spark.start.native import find_jar; print(find_jar())"


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "holdfast"


def test_two_processes_make_one_jar(empty_cache):
    """Whoever comes second waits and finds it done; nothing half written is ever there."""
    both = [
        subprocess.Popen([sys.executable, "-c", ENSURE], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    told = {process.communicate(timeout=120)[0].strip() for process in both}
    (path,) = told
    assert sorted(item.name for item in empty_cache.iterdir()) == sorted(
        [os.path.basename(path), native.jar_path().with_suffix(".lock").name]  # noqa: PTH119
    )
    with zipfile.ZipFile(path) as jar:
        assert jar.testzip() is None
        assert "holdfast/SliceSource.class" in jar.namelist()
    assert os.stat(path).st_mtime == native.LONG_AGO  # noqa: PTH116


def test_what_does_not_compile_is_told_in_one_line_and_done_without(
    empty_cache, tmp_path, monkeypatch
):
    """The fallback is Python; later starts do not try again, `prepare` does."""
    broken = tmp_path / "java"
    shutil.copytree(native.SOURCES, broken)
    source = broken / "holdfast" / "SliceSource.java"
    source.write_text(source.read_text().replace("MicroBatchStream", "NoSuchStream"))
    monkeypatch.setattr(native, "SOURCES", broken)
    monkeypatch.setattr("holdfast.runtime.spark.start.prepare.archive_path", lambda: tmp_path)
    said = []
    prepare(said.append)
    (line,) = said
    assert line.startswith("slices go through Python")
    assert "SliceSource.java" in line
    monkeypatch.setattr(native, "_compile", lambda jar: pytest.fail("compiled again"))
    assert native.find_jar() is None


def test_a_home_that_cannot_be_written_to_is_no_obstacle(tmp_path, monkeypatch):
    """The session starts all the same, with slices through Python."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert native.find_jar() is None
    assert "file" in native.ensure_jar()


def test_a_word_that_means_nothing_is_refused(monkeypatch):
    """A misspelt side is not taken for the default."""
    monkeypatch.setenv(native.VARIABLE, "jvm")
    with pytest.raises(BadInputError, match="jvm"):
        native.wanted_side()


def test_a_class_that_lacks_one_of_sparks_methods_is_left_out(empty_cache, tmp_path, monkeypatch):
    """Generated code of another Spark may call what ours does not know."""
    other = tmp_path / "java"
    shutil.copytree(native.SOURCES, other)
    monkeypatch.setattr(native, "SOURCES", other)
    assert STANDS_IN in _names(native.find_jar())
    source = other / "spark" / "MathUtils.java"
    source.write_text(source.read_text().replace("int toIntExact", "int toIntSurely"))
    names = _names(native.find_jar())
    assert STANDS_IN not in names
    assert "holdfast/SliceSource.class" in names


def _names(path):
    with zipfile.ZipFile(path) as jar:
        return jar.namelist()
