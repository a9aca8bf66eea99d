"""The class-data-sharing archive, with which Spark starts three times faster.

It is built once per Java, PySpark and Java side of slices, by a run that loads the classes a unit
needs, and is written when that JVM exits. It lives in the user's cache directory. It is one on top
of Java's own; a Java that comes without gets that one first.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
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
PLATFORM_CLASS = "java/sql/Driver"
"""One that Java loads neither at its start nor from the class path."""


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
    """A program and all that it starts: a Java left alone would write its archive after all.

    Java writes it when the program has ended. Its output ends when the last of them has.
    """
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            process.communicate(timeout=timeout_s)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def _base_path(archive: Path) -> Path:
    return archive.with_suffix(".base.jsa")


def _ensure_base(path: Path) -> None:
    """Java's own archive, where it has none: without one it silently writes none on top.

    If nothing in it comes from beyond Java's core, Java (21) takes nothing but the core from any
    archive on top either, and does not say so. A minimal run time's own list names nothing else.
    """
    java = str(java_program())
    has_own = subprocess.run(
        [java, "-Xshare:on", "-version"], capture_output=True, timeout=BASE_TIMEOUT_S, check=False
    )
    if has_own.returncode == 0 or path.exists():
        return
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    classes = path.with_suffix(f".{os.getpid()}.classes.tmp")
    try:
        classes.write_text("".join(f"{name}\n" for name in (*_core_classes(java), PLATFORM_CLASS)))
        subprocess.run(
            [
                java,
                "-Xshare:dump",
                f"-XX:SharedClassListFile={classes}",
                f"-XX:SharedArchiveFile={temporary}",
            ],
            capture_output=True,
            timeout=BASE_TIMEOUT_S,
            check=True,
        )
        temporary.replace(path)
    finally:
        classes.unlink(missing_ok=True)
        temporary.unlink(missing_ok=True)


def _core_classes(java: str) -> list[str]:
    """What Java would put into its archive by itself."""
    home = subprocess.run(
        [java, "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        timeout=BASE_TIMEOUT_S,
        check=True,
    )
    (found,) = re.findall(r"^\s*java\.home = (.+)$", home.stderr + home.stdout, re.MULTILINE)
    own = Path(found.strip()) / "lib" / "classlist"
    return own.read_text().splitlines() if own.exists() else []
