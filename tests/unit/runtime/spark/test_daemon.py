"""The worker daemon may fork only while it has a single thread."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

COUNT = """
import os, sys
from holdfast.runtime.spark.daemon import PRELOADED, preload
preload()
print(len(os.listdir("/proc/self/task")), all(name in sys.modules for name in PRELOADED))
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
def test_preloading_starts_no_thread():
    """After all imports there is the main thread and no other, so a fork lacks nothing."""
    told = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["1", "True"]
