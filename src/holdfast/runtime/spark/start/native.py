"""The Java side of slices: source text in this package, compiled once per machine.

The compiler lies among Spark's own jars, so there is no build step, no binary in the package and no
JDK to install. What it makes depends on the source text and on PySpark alone, to the byte. It uses
classes that are internal to Spark: where these have changed, the source does not compile, and
slices go through Python.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
from pathlib import Path

import pyspark
from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession

from holdfast.errors import BadInputError
from holdfast.runtime.spark.io.callbacks import java_class
from holdfast.runtime.spark.start.java import cache_folder, java_program

VARIABLE = "HOLDFAST_SLICES"
SOURCES = Path(__file__).resolve().parent.parent / "java"
MAIN_CLASS = "holdfast.SliceSource"
FILES_CLASS = "holdfast.LocalFiles"
ORIGINS_CLASS = "holdfast.Origins"
TIMEOUT_S = 120.0
LONG_AGO = 1_000_000_000
"""When every jar was made, as seconds: a class archive holds for one that was made at that time."""


def wanted_side() -> str:
    """How slices go in and out of Spark, as the environment says; `native` if it says nothing."""
    told = os.environ.get(VARIABLE) or "native"
    if told not in ("native", "python"):
        raise BadInputError(f"{told!r} is no way to read slices", where=VARIABLE, hint="python")
    return told


def side_of(spark: SparkSession) -> str:
    """`native` if it is wanted and tasks have the classes, else `python`.

    The jar is on the class path of the driver, so on that of tasks where they run in its process.
    """
    if wanted_side() == "python" or not re.match(r"local(\[|$)", spark.sparkContext.master or ""):
        return "python"
    return "native" if has_classes(spark) else "python"


def has_classes(spark: SparkSession) -> bool:
    """Whether the jar is on the class path: a session may be another's."""
    return isinstance(java_class(spark, MAIN_CLASS), JavaClass)


def jar_path() -> Path:
    """Where the jar of this source text and this PySpark is, or will be."""
    words = hashlib.sha256(f"{pyspark.__version__}\n{pyspark.__file__}\n".encode())
    for source in [SOURCES / "Build.java", *_sources()]:
        words.update(f"{source.name}\n".encode() + source.read_bytes())
    return cache_folder() / f"slices-{words.hexdigest()[:16]}.jar"


def find_jar() -> Path | None:
    """The jar, compiled if need be; None where it does not compile, which is tried only once."""
    path = jar_path()
    if path.exists():
        return path
    if wanted_side() == "python" or _failure().exists():
        return None
    return path if ensure_jar() is None else None


def ensure_jar() -> str | None:
    """Compile the jar unless it is there; what went wrong, in a line, if anything did."""
    path = jar_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the second of two finds it done
            return None if path.exists() else _make(path)
    except OSError as error:  # a home that cannot be written to is no reason not to run
        return str(error)


def _make(path: Path) -> str | None:
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        failure = _compile(temporary)
        if failure is None:
            os.utime(temporary, (LONG_AGO, LONG_AGO))
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if failure is None:
        _failure().unlink(missing_ok=True)
    else:
        _failure().write_text(failure)
    return failure


def _compile(jar: Path) -> str | None:
    """Make the jar; what went wrong, if anything did."""
    jars = Path(pyspark.__file__).parent / "jars"
    command = [
        str(java_program()),
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        "-cp",
        f"{jars}/*",
        "org.codehaus.janino.SimpleCompiler",
        str(SOURCES / "Build.java"),
        "Build",
        str(jar),
        *map(str, _sources()),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    if done.returncode == 0:
        return None
    found = re.findall(r"CompileException: (.*)", done.stderr)
    lines = found or done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return str(lines[0])


def _failure() -> Path:
    """Where it is noted what the compiler said, so that not every session asks it again."""
    return jar_path().with_suffix(".failed")


def _sources() -> list[Path]:
    """Ours, and what stands before classes of Spark's."""
    return [
        path for room in ("holdfast", "spark") for path in sorted((SOURCES / room).glob("*.java"))
    ]
