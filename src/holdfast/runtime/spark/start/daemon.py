"""Spark's worker daemon with what every task needs imported beforehand.

Python workers are forked from this process, and Spark ends them when they have been idle for a
minute, so a spare that takes over starts new ones. Importing pyarrow, pandas and the slice log
takes a worker most of a second; what the daemon has imported, a fork has for nothing, and all
workers share its memory.

Spark's own daemon imports nothing before it forks, as a library might start threads, which a fork
would not have. The two that would are told not to; a test sees to it that there is but one thread.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

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
    "holdfast.runtime.spark.io.publish",
    "holdfast.runtime.spark.io.reader",
)


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
    importlib.import_module("pyspark.daemon").manager()
