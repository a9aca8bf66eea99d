"""In how many tasks a unit reads its inputs: in one, or in one a core once its batches are large.

A small batch is read in one task, which spares it the shuffle before state: a stage more than it
has work. A large one would keep a single core busy while the others have nothing to do. Rows come
in the same order either way, each task has a run of them.

Whether batches are large is told by the newest slices that the unit reads before its first batch,
and by its batches later. It only ever gets more tasks: going back would save little, and changing
the number starts the query again.
"""

from __future__ import annotations

import os
from collections import deque

from holdfast.deployment import Deployment, Segment
from holdfast.errors import HoldfastError
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.streams.steps import Newest, slices

MANY_ROWS = 50_000
"""Rows of a batch from which on reading them side by side saves more than a shuffle costs."""
MOST_TASKS = 8
SEEN, LARGE = 10, 3
"""So many large batches among so many show that others will come: one may be a catch-up. Rows that
wait for a batch to end come in every other one."""


class MoreTasksError(HoldfastError):
    """Ends a query between two batches: it is planned again, to read in more tasks."""


def tasks_for(rows: float) -> int:
    """In how many tasks a batch of so many rows is read best."""
    cores = len(os.sched_getaffinity(0))
    return min(cores, MOST_TASKS) if rows >= MANY_ROWS else 1


def expected_tasks(log: SliceLog, deployment: Deployment, segment: Segment) -> int:
    """In how many tasks the next batches are read best, as the newest slices tell."""
    per_epoch = 0.0
    try:
        for stream in deployment.streams_read(segment):
            for child in log.carriers(stream):
                newest = log.slice(child.unit, log.records.execute(Newest(slices(child.unit))))
                if newest is not None:
                    per_epoch += newest.rows / max(1, newest.upto - newest.after)
    except (HoldfastError, OSError):
        return 1  # who cannot read its input fails on it by name when it comes to it
    return tasks_for(per_epoch * segment.batch_epochs / max(1, segment.shards))


class Tasks:
    """Of one unit while it runs here."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._large = deque[bool](maxlen=SEEN)
        """Of the last batches, whether more tasks would have been better for them."""

    def saw(self, rows: int) -> bool:
        """A batch had so many rows; whether the next one is to be read in more tasks."""
        wanted = tasks_for(rows)
        self._large.append(wanted > self.count)
        if wanted <= self.count or sum(self._large) < LARGE:
            return False
        self.count = wanted
        self._large.clear()
        return True
