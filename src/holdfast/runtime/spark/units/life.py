"""Whether anything is being done in a batch that takes long.

A batch may take minutes: a large state is loaded, an hour is caught up with. From outside that
looks like a hang. The difference is that somebody works: Spark ends tasks, or the threads that run
the query's tasks use processor time, or the Python workers that do. A thread that waits for a
suspended Python process, or for a lock, uses none at all (measured: to the millisecond), so any
change counts. So does any of a worker, to the nanosecond: a function that waits for something else,
row by row, uses little.

Not seen: a Python function that waits for minutes within one row. It has the limit that its earlier
batches have earned.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.runtime.spark.start.daemon import worker_name

QUIET_S = 10.0
"""A batch that takes longer than this is looked at."""
EVERY_S = 5.0
"""How often; a look costs some tens of milliseconds."""
PROCESSES = Path("/proc")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_STAGE = re.compile(r" in stage (\d+)\.")


class QueryLife:
    """Counts how often the tasks of one query were seen to have done something."""

    def __init__(self, spark: SparkSession, run_id: str) -> None:
        self._spark = spark
        self._run_id = run_id
        self._seen: tuple[object, ...] = ()
        self.steps = 0
        """How often something was seen to have been done."""
        self._batch = -1
        self._since = time.monotonic()

    def work(self, *, batch: int, waiting: bool, now: float) -> int:
        """Look, if a batch has been under way for long; grows whenever something was done."""
        if batch != self._batch or not waiting:
            self._batch, self._since = batch, now
        elif now - self._since >= QUIET_S:
            self._since = now - QUIET_S + EVERY_S
            self.look()
        return self.steps

    def look(self) -> None:
        """Count a step if anything has changed since the last look."""
        try:
            seen = self._tasks()
        except (Py4JError, OSError):
            # No answer from the virtual machine is no work; its end is told by the query itself.
            return
        if seen != self._seen:
            self._seen = seen
            self.steps += 1

    def _tasks(self) -> tuple[object, ...]:
        tracker = self._spark.sparkContext.statusTracker()
        stages: dict[int, int] = {}
        for job in tracker.getJobIdsForGroup(self._run_id):
            info = tracker.getJobInfo(job)
            if info is None or info.status != "RUNNING":
                continue  # jobs that are over are forgotten as others come: that is no work
            for stage in info.stageIds:
                known = tracker.getStageInfo(stage)
                if known is not None:
                    stages[stage] = known.numCompletedTasks
        return (
            tuple(sorted(stages.items())),
            self._processor_ms(stages),
            worker_times(worker_name(self._run_id)),
        )

    def _processor_ms(self, stages: dict[int, int]) -> int:
        jvm: Any = self._spark._jvm  # noqa: SLF001 - the only way to the threads
        bean = jvm.java.lang.management.ManagementFactory.getThreadMXBean()
        used = 0
        for thread in bean.getThreadInfo(bean.getAllThreadIds()):
            if thread is None:
                continue
            name = thread.getThreadName()
            found = _STAGE.search(name)
            if (found is not None and int(found[1]) in stages) or self._run_id in name:
                used += max(0, bean.getThreadCpuTime(thread.getThreadId())) // 1_000_000
        return used


def worker_times(name: str, processes: Path = PROCESSES) -> tuple[tuple[int, int], ...]:
    """Processes of a name on this machine, and the nanoseconds each has used of a processor."""
    found = []
    for folder in _named(name, processes):
        with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
            found.append((int(folder.name), int((folder / "schedstat").read_text().split()[0])))
    return tuple(sorted(found))


def worker_memory(run_id: str, processes: Path = PROCESSES) -> int:
    """Bytes of memory that the Python workers of a query use at this moment."""
    used = 0
    for folder in _named(worker_name(run_id), processes):
        with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
            used += int((folder / "statm").read_text().split()[1]) * PAGE_BYTES
    return used


def end_query(query: StreamingQuery, workers: str) -> None:
    """Stop a query; given its run id, kill its Python workers first.

    One that is stopped or hangs would hold its batch for ever.
    """
    for folder in _named(worker_name(workers), PROCESSES) if workers else ():
        with contextlib.suppress(OSError):
            os.kill(int(folder.name), signal.SIGKILL)
    with contextlib.suppress(Exception):  # a batch that does not end in time is killed with us
        query.stop()


def _named(name: str, processes: Path) -> list[Path]:
    found = []
    for folder in processes.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if (folder / "comm").read_text().strip() == name:
                    found.append(folder)
    return found
