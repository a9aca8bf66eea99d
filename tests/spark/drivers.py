"""Processes that Spark tests kill."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from holdfast.runtime.log.crash import VARIABLE

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PYTHONPATH = f"{ROOT / 'src'}{os.pathsep}{ROOT}"


def run_driver(name: str, *words: object, log: Path, crash_at: str = "") -> int:
    """Exit code of a driver of this folder; a killed one has the negative signal number."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, HERE / name, *map(str, words)],
            env={**os.environ, "PYTHONPATH": PYTHONPATH, VARIABLE: crash_at},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(timeout=300)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
