"""The worker daemon may fork only while it has a single thread."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

pytestmark = pytest.mark.unit

ORIGIN = """
from holdfast.runtime.spark.start.daemon import preload
preload()
import pyspark
print(pyspark.__file__)
"""
COUNT = """
import os, sys
from holdfast.runtime.spark.start.daemon import PRELOADED, preload
preload()
print(len(os.listdir("/proc/self/task")), all(name in sys.modules for name in PRELOADED))
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
def test_preloading_starts_no_thread():
    """After all imports there is the main thread and no other, so a fork lacks nothing."""
    told = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["1", "True"]


def test_the_installed_package_goes_before_sparks_archive(tmp_path):
    """What is imported from an archive is compiled anew in every process."""
    installed = Path(pyspark.__file__).parent
    archives = sorted(map(str, (installed / "python" / "lib").glob("*.zip")))
    assert any("pyspark" in Path(path).name for path in archives)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*archives, *sys.path])}
    told = subprocess.run(
        [sys.executable, "-c", ORIGIN],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=tmp_path,
    )
    assert Path(told.stdout.strip()).parent == installed
