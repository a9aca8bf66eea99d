"""Spark's worker daemon with what every task needs imported beforehand.

Python workers are forked from this process, and Spark ends them when they have been idle for a
minute, so a spare that takes over starts new ones. Importing pyarrow, pandas and the slice log
takes a worker most of a second; what the daemon has imported, a fork has for nothing, and all
workers share its memory.

Spark's own daemon imports nothing before it forks, as a library might start threads, which a fork
would not have. The two that would are told not to; a test sees to it that there is but one thread.

A worker bears the name of the query whose task it runs, as other processes see it: so one can tell
whether a function that gives and takes no rows is at work.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from pathlib import Path
from typing import Any

SINGLE_THREADED = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""What keeps numpy and pyarrow from starting threads when they are imported."""
PRELOADED = (
    "pyarrow.ipc",
    "pandas",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "pyspark.sql.streaming.stateful_processor_util",
    "holdfast.runtime.spark.io.publish",
    "holdfast.runtime.spark.io.reader",
)


_GROUP = "spark.jobGroup.id"
"""Spark's local property with the run id of a streaming query."""
_IDLE = "hf-idle"


def worker_name(group: str) -> str:
    """The name of processes that run tasks of a job group; Linux keeps 15 characters."""
    return f"hf-{group.replace('-', '')[:12]}"


def bear_names() -> None:
    """Let workers forked from here take the name of whatever they run."""
    from pyspark.taskcontext import TaskContext  # noqa: PLC0415 - imported by preload

    task_context: Any = TaskContext
    told = task_context._setTaskContext.__func__  # noqa: SLF001 - called as tasks start and end

    def set_and_name(kind: Any, context: Any) -> None:
        told(kind, context)
        group = context.getLocalProperty(_GROUP) if context is not None else None
        with contextlib.suppress(OSError):
            Path("/proc/self/comm").write_text(worker_name(group) if group else _IDLE)

    task_context._setTaskContext = classmethod(set_and_name)  # noqa: SLF001 - the same


def preload() -> None:
    """Import what tasks need, without starting a thread."""
    os.environ.update(SINGLE_THREADED)
    # Spark puts an archive of itself first, and what comes from an archive is compiled every time:
    # 1.5 s of CPU time instead of 0.3. The installed package is the same.
    sys.path.sort(key=lambda entry: entry.endswith(".zip"))
    for name in PRELOADED:
        importlib.import_module(name)
    # What is here now stays: collecting it in every fork would copy its pages for nothing.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    preload()
    importlib.import_module("holdfast.runtime.spark.start.nursery").open_nursery()
    bear_names()
    importlib.import_module("pyspark.daemon").manager()
