"""The worker daemon may fork only while it has a single thread."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

pytestmark = [pytest.mark.unit, pytest.mark.slow]  # each starts an interpreter

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
NAMES = """
from pathlib import Path
from pyspark.taskcontext import BarrierTaskContext, TaskContext
from holdfast.runtime.spark.start.daemon import bear_names
bear_names()
context = object.__new__(TaskContext)
for properties in ({"spark.jobGroup.id": "55ee8f35-e31b-4453"}, {}):
    context._localProperties = properties
    TaskContext._setTaskContext(context)
    print(Path("/proc/self/comm").read_text().strip(), TaskContext.get() is context)
BarrierTaskContext._setTaskContext(None)
TaskContext._setTaskContext(None)
print(Path("/proc/self/comm").read_text().strip(), TaskContext.get() is None)
"""


@pytest.mark.skipif(not Path("/proc/self/comm").exists(), reason="names are kept in /proc")
def test_a_worker_bears_the_name_of_its_query():
    """From the start of a task to its end, and Spark's own record of the task is as it was."""
    told = subprocess.run([sys.executable, "-c", NAMES], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == ["hf-55ee8f35e31b True", "hf-idle True", "hf-idle True"]


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
