"""Units that need no streaming query: sources made by functions, and exporters.

They have no state but what the records say, so they need no checkpoint, start at once and run as a
thread of the node. The record protocol is the same as for every unit.
"""

from __future__ import annotations

import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.clock import Clock, SystemClock, WallClock
from holdfast.control.events import UnitReport
from holdfast.deployment import Deployment, Segment, UnitId
from holdfast.deployment.records import RangeRecord
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog, SupersededError
from holdfast.runtime.log.trim import TRIM_EVERY, Trimmer
from holdfast.runtime.log.watch import LOOK_S, POLL_S, NoWatch, Watch
from holdfast.runtime.units.progress import Progress
from holdfast.runtime.units.work import thread_work
from holdfast.storage.identity import new_id

SOON_S = 0.001
"""The shortest wait: a source's time may be due in less than the clock can tell."""


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
    watch: Watch = field(default_factory=NoWatch)
    """Wakes who waits for records."""
    wall: Clock = field(default_factory=WallClock)
    """Decides which epochs are over."""
    clock: Clock = field(default_factory=SystemClock)
    """Measures how long things take."""
    new_id: Callable[[], str] = new_id
    """Where identities come from."""

    @property
    def name(self) -> str:
        return str(self.unit)


class ThreadUnit(ABC):
    """A loop over batches: decide the range, do the work, publish or deliver."""

    def __init__(self, context: UnitContext) -> None:
        self.context = context
        self.progress = Progress(context.unit, context.generation)
        self._stopping = threading.Event()
        self._wake = threading.Event()
        """Ends a wait before its time."""
        self._hinted: tuple[str, ...] | None = None
        """What the last wait was ended by the appearance of."""
        self._thread = threading.Thread(target=self._run, name=context.name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def status(self) -> UnitReport:
        return self.progress.tell(work=thread_work(self._thread))

    @abstractmethod
    def propose(self, previous: RangeRecord | None) -> RangeRecord | None:
        """What the next batch should be, None while there is nothing to do."""

    @abstractmethod
    def run_batch(self, previous: RangeRecord | None, record: RangeRecord) -> None:
        """Do the batch; called again for the same one after a failure."""

    def done(self, record: RangeRecord) -> bool:  # noqa: ARG002 - for subclasses
        """Whether the newest batch on record needs no redo."""
        return False

    def missing(self) -> tuple[str, ...]:
        """Addresses of records without which there is nothing to do; for subclasses."""
        return ()

    def due_s(self) -> float:
        """How long there will be nothing to do if no record appears; for subclasses."""
        return LOOK_S

    def _run(self) -> None:
        try:
            self._loop()
        except SupersededError as error:
            self.progress.tell(state="stopped", error=str(error))
        except Exception:  # noqa: BLE001 - whatever it is, the host must be able to tell
            operator = self.context.segment.operators[0]
            self.progress.tell(state="failed", error=traceback.format_exc(), operator=operator)
        else:
            self.progress.tell(state="stopped")

    def _loop(self) -> None:
        log, name = self.context.log, self.context.name
        number = log.newest_range(name)
        previous = log.need_range(name, number - 1)
        record = log.need_range(name, number)
        self.progress.tell(state="running")
        if record is not None:
            if not self.done(record):
                self._batch(previous, record)
            self.progress.tell(batch=record.number, epoch=record.upto)
        while True:
            self._wake.clear()
            if self._stopping.is_set():
                return
            log.check_current(name, self.context.generation)
            following = log.range(name, number + 1) or self._put(record)
            if following is None:
                self._idle()
                continue
            self._batch(record, following)
            previous, record, number = record, following, following.number

    def _idle(self) -> None:
        """Wait for input, for the time, for a successor, or to be stopped."""
        context = self.context
        successor = context.log.claim_path(context.name, context.generation + 1)
        paths = (*self.missing(), successor)
        if paths == self._hinted:
            self._wake.wait(POLL_S)  # a hint that led nowhere: not to be taken at once again
        timeout_s = min(LOOK_S, max(SOON_S, self.due_s()))
        self._hinted = paths if context.watch.wait(paths, timeout_s, self._wake) else None

    def _put(self, record: RangeRecord | None) -> RangeRecord | None:
        proposed = self.propose(record)
        if proposed is None:
            return None
        put = self.context.log.put_range(proposed)
        self.context.crash.at("after-range-record", self.context.name, put.number)
        return put

    def _batch(self, previous: RangeRecord | None, record: RangeRecord) -> None:
        start = self.context.clock.now()
        self.progress.tell(waiting=record.upto - record.after)
        self.run_batch(previous, record)
        took_ms = 1000 * (self.context.clock.now() - start)
        self.progress.tell(batch=record.number, epoch=record.upto, batch_ms=took_ms, waiting=0)
        if record.number % TRIM_EVERY == TRIM_EVERY - 1:
            self.context.trimmer.trim_unit(self.context.name, record.number)
            self.context.trimmer.trim_outputs(self.context.segment, self.context.unit.shard)
        self.context.crash.at("before-commit", self.context.name, record.number)
