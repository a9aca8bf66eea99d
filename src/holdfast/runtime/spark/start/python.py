"""Which program Spark starts as Python: one that finds an interpreter with everything imported."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from pathlib import Path

import pyspark

from holdfast.runtime.spark.start import launcher
from holdfast.runtime.spark.start.java import cache_folder

_PROGRAM = """#!/bin/sh
# Spark starts this as Python; see the file that it runs.
exec {python} -IS {launcher} "$@"
"""


def python_program(wanted: str) -> str:
    """What to start in place of `wanted`; that itself if it is another Python than this one."""
    if wanted != sys.executable or not Path(pyspark.__file__).is_file():
        return wanted
    text = _PROGRAM.format(
        python=shlex.quote(sys.executable), launcher=shlex.quote(launcher.__file__)
    )
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    program = cache_folder() / f"python-{name}"
    if not program.exists():
        temporary = program.with_suffix(f".{os.getpid()}.tmp")
        try:
            program.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(text)
            temporary.chmod(0o755)
            temporary.replace(program)
        except OSError:  # a home that cannot be written to only costs speed
            return wanted
    return str(program)
