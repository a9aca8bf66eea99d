"""Whether a thread of this process works or only waits: a long batch and a dead one."""

from __future__ import annotations

import threading
from pathlib import Path

STEP_MS = 100
"""Processor time of a Python thread that counts as work."""


def thread_work(thread: threading.Thread) -> int:
    """How many steps of processor time a thread of this process has used."""
    try:
        stat = Path(f"/proc/self/task/{thread.native_id}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0  # not begun, or over
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) * 10 // STEP_MS
