"""Units that need no streaming query: sources made by functions, and exporters.

They have no state but what the records say, so they need no checkpoint, start at once and run as a
thread of the node. The record protocol is the same as for every unit.
"""

from __future__ import annotations

import threading
import time
import traceback
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from holdfast.deployment import Deployment, Segment, UnitId
from holdfast.deployment.records import RangeRecord
from holdfast.runtime.host import UnitState, UnitStatus
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog, SupersededError
from holdfast.runtime.log.trim import TRIM_EVERY, Trimmer

POLL_S = 0.01
"""How often an idle unit looks for work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitContext:
    """What every unit is given."""

    unit: UnitId
    generation: int
    segment: Segment
    deployment: Deployment
    log: SliceLog
    trimmer: Trimmer
    crash: Crash

    @property
    def name(self) -> str:
        return str(self.unit)


@dataclass(slots=True)
class Progress:
    """What a unit tells its host; written by one thread, read by others."""

    state: UnitState = "starting"
    batch: int = -1
    epoch: int = -1
    rows_in: int = 0
    rows_out: int = 0
    batch_ms: float = 0.0
    waiting: int = 0
    state_bytes: int = 0
    error: str | None = None
    operator: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def status(self, unit: UnitId, generation: int) -> UnitStatus:
        return UnitStatus(
            unit=unit,
            generation=generation,
            state=self.state,
            batch=self.batch,
            epoch=self.epoch,
            rows_in=self.rows_in,
            rows_out=self.rows_out,
            batch_ms=self.batch_ms,
            waiting=self.waiting,
            state_bytes=self.state_bytes,
            error=self.error,
            operator=self.operator,
        )


class ThreadUnit(ABC):
    """A loop over batches: decide the range, do the work, publish or deliver."""

    def __init__(self, context: UnitContext) -> None:
        self.context = context
        self.progress = Progress()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=context.name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def status(self) -> UnitStatus:
        return self.progress.status(self.context.unit, self.context.generation)

    @abstractmethod
    def propose(self, previous: RangeRecord | None) -> RangeRecord | None:
        """What the next batch should be, None while there is nothing to do."""

    @abstractmethod
    def run_batch(self, previous: RangeRecord | None, record: RangeRecord) -> None:
        """Do the batch; called again for the same one after a failure."""

    def done(self, record: RangeRecord) -> bool:  # noqa: ARG002 - for subclasses
        """Whether the newest batch on record needs no redo."""
        return False

    def _run(self) -> None:
        try:
            self._loop()
        except SupersededError as error:
            self.progress.error = str(error)
            self.progress.state = "stopped"
        except Exception:  # noqa: BLE001 - whatever it is, the host must be able to tell
            self.progress.error = traceback.format_exc()
            self.progress.operator = self.context.segment.operators[0]
            self.progress.state = "failed"
        else:
            self.progress.state = "stopped"

    def _loop(self) -> None:
        log, name = self.context.log, self.context.name
        number = log.newest_range(name)
        previous = log.need_range(name, number - 1)
        record = log.need_range(name, number)
        self.progress.state = "running"
        if record is not None:
            if not self.done(record):
                self._batch(previous, record)
            self.progress.batch, self.progress.epoch = record.number, record.upto
        while not self._stopping.is_set():
            log.check_current(name, self.context.generation)
            following = log.range(name, number + 1) or self._put(record)
            if following is None:
                self._stopping.wait(POLL_S)
                continue
            self._batch(record, following)
            previous, record, number = record, following, following.number

    def _put(self, record: RangeRecord | None) -> RangeRecord | None:
        proposed = self.propose(record)
        if proposed is None:
            return None
        put = self.context.log.put_range(proposed)
        self.context.crash.at("after-range-record", self.context.name, put.number)
        return put

    def _batch(self, previous: RangeRecord | None, record: RangeRecord) -> None:
        start = time.monotonic()
        self.run_batch(previous, record)
        self.progress.batch_ms = 1000 * (time.monotonic() - start)
        self.progress.batch, self.progress.epoch = record.number, record.upto
        if record.number % TRIM_EVERY == TRIM_EVERY - 1:
            self.context.trimmer.trim_unit(self.context.name, record.number)
            self.context.trimmer.trim_outputs(self.context.segment, self.context.unit.shard)
        self.context.crash.at("before-commit", self.context.name, record.number)
