"""The class-data-sharing archive, with which Spark starts three times faster.

It is built once per Java, PySpark and Java side of slices, by a run that loads the classes a unit
needs, and is written when that JVM exits. It lives in the user's cache directory. It is one on top
of Java's own; a Java that comes without gets that one first.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyspark

from holdfast.runtime.spark.start.java import cache_folder, java_program, java_version
from holdfast.runtime.spark.start.native import find_jar, jar_path

BUILDING = "HOLDFAST_BUILD_ARCHIVE"
"""Names the archive that a session is to write when it ends."""
BASE_TIMEOUT_S = 60.0


def archive_path() -> Path:
    """Where the archive of this Java, this PySpark and this class path is, or will be."""
    java = java_program()
    release = java.resolve().parent.parent / "release"
    known = release.read_text() if release.exists() else str(java_version(java))
    jar = jar_path().name if jar_path().exists() else ""
    words = f"{java.resolve()}\n{known}\n{pyspark.__version__}\n{pyspark.__file__}\n{jar}"
    return cache_folder() / f"spark-{hashlib.sha256(words.encode()).hexdigest()[:16]}.jsa"


def archive_options() -> list[str]:
    """Java options that use the archive if it is there; Java ignores one that does not fit."""
    path = archive_path()
    base = _base_path(path)
    below = f"{base}:" if base.exists() else ""
    if building := os.environ.get(BUILDING):
        own = [f"-XX:SharedArchiveFile={base}"] if below else []
        return [*own, f"-XX:ArchiveClassesAtExit={building}"]
    return [f"-XX:SharedArchiveFile={below}{path}", "-Xshare:auto"] if path.exists() else []


def ensure_archive(timeout_s: float = 600.0) -> Path | None:
    """Build the archive unless it is there; None if that failed, which only costs speed."""
    find_jar()  # first: its classes go into the archive
    path = archive_path()
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the second of two builders finds it done
        if path.exists():
            return path
        for left in path.parent.glob(f"{path.stem}.*.tmp"):
            left.unlink(missing_ok=True)  # of a builder that was killed
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        command = [sys.executable, "-m", "holdfast.runtime.spark.start.warmup"]
        try:
            _ensure_base(_base_path(path))
            _run_whole(command, {**os.environ, BUILDING: str(temporary)}, timeout_s)
            temporary.replace(path)
        except (OSError, subprocess.SubprocessError):
            temporary.unlink(missing_ok=True)
            return None
    return path


def _run_whole(command: list[str], environment: dict[str, str], timeout_s: float) -> None:
    """A program and all that it starts: a Java left alone would write its archive after all."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        command, env=environment, stdout=quiet, stderr=quiet, start_new_session=True
    ) as process:
        try:
            code = process.wait(timeout_s)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if code:
        raise subprocess.CalledProcessError(code, command)


def _base_path(archive: Path) -> Path:
    return archive.with_suffix(".base.jsa")


def _ensure_base(path: Path) -> None:
    """Java's own archive, where it has none: without one it silently writes none on top."""
    java = str(java_program())
    has_own = subprocess.run(
        [java, "-Xshare:on", "-version"], capture_output=True, timeout=BASE_TIMEOUT_S, check=False
    )
    if has_own.returncode == 0 or path.exists():
        return
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        subprocess.run(
            [java, "-Xshare:dump", f"-XX:SharedArchiveFile={temporary}"],
            capture_output=True,
            timeout=BASE_TIMEOUT_S,
            check=True,
        )
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
