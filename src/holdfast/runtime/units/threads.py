"""Units that need no streaming query: sources made by functions, and exporters.

They have no state but what the records say, so they need no checkpoint, start at once and run as a
thread of the node. What comes next is decided as for every unit (`holdfast.streams.unit`); here is
what drives it.
"""

from __future__ import annotations

import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from holdfast.clock import Clock, SystemClock, WallClock
from holdfast.control.events import UnitReport
from holdfast.deployment import Deployment, Segment, UnitId
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.damage import Inputs, inputs_of
from holdfast.runtime.log.slicelog import EndedError, SliceLog, SupersededError, trimmed
from holdfast.runtime.log.trim import Trimmer
from holdfast.runtime.log.watch import LOOK_S, POLL_S, NoWatch, Watch
from holdfast.runtime.units.healing import Healer, NoHealer
from holdfast.runtime.units.lead import Alone, Lead
from holdfast.runtime.units.progress import Progress
from holdfast.runtime.units.work import thread_work
from holdfast.storage.identity import new_id
from holdfast.streams.reading import TrimmedError
from holdfast.streams.records import Range, Slice
from holdfast.streams.steps import ranges
from holdfast.streams.unit import End, Ended, Position, Proposal, RunBatch, Step

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
    lead: Lead = field(default_factory=Alone)
    """Who publishes, if the unit has several replicas."""
    healer: Healer = field(default_factory=NoHealer)
    """Makes slices again whose files were lost."""

    @property
    def name(self) -> str:
        """The unit, whose records all its replicas share."""
        return self.unit.name

    @property
    def replica(self) -> int:
        """Which of the replicas of the unit this is."""
        return self.unit.replica

    @property
    def streams(self) -> tuple[str, ...]:
        """What the unit reads."""
        return self.deployment.streams_read(self.segment)

    @property
    def inputs(self) -> Inputs:
        """The boundaries it reads, with their streams."""
        return inputs_of(self.deployment, self.segment)

    def publish(
        self, item: Slice, *, adopt: bool = False, keep: Callable[[], None] = lambda: None
    ) -> Slice:
        """Make a batch visible, on all boundaries at once; gives what counts.

        A follower leaves that to its leader for as long as its head start lasts. `keep` puts the
        files on disk that it has held back so far; not called where its leader's are as good.
        """
        if not self.lead.give_way(item.number) or not self._is_there(item):
            keep()
        stored = self.log.publish(item, adopt=adopt)
        self.crash.at("after-slice-record", self.name, item.number)
        mine = stored.writer == self.log.writer
        self.lead.settle(mine=mine)
        if not mine and self.lead.shared:
            self._drop(item, stored)
        return stored

    def _is_there(self, item: Slice) -> bool:
        """Whether a batch is published with these rows."""
        stored = self.log.slice(self.name, item.number)
        return stored is not None and stored.same_content(item)

    def _drop(self, item: Slice, stored: Slice) -> None:
        """Remove the files of a slice that another replica has published."""
        for boundary, files in item.files.items():
            counted = {file.name for file in stored.files.get(boundary, ())}
            for file in files:
                if file.name not in counted:
                    self.log.data(self.name, boundary).delete(file.name)


class ThreadUnit(ABC):
    """A loop over batches: decide the range, do the work, publish or deliver."""

    def __init__(self, context: UnitContext) -> None:
        self.context = context
        self.steps = context.log.steps()
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
        lead = self.context.lead
        return self.progress.tell(work=thread_work(self._thread), leads=lead.shared and lead.leads)

    @abstractmethod
    def propose(self, after: int, ends: Sequence[End], limit: int | None) -> Proposal | None:
        """What the next batch should be, None while there is nothing to do."""

    @abstractmethod
    def run_batch(self, step: RunBatch) -> None:
        """Do the batch; called again for the same one after a failure."""

    def done(self, step: RunBatch) -> bool:  # noqa: ARG002 - for subclasses
        """Whether the newest batch on record needs no redo."""
        return False

    def due_s(self) -> float:
        """How long there will be nothing to do if no record appears; for subclasses."""
        return LOOK_S

    reach: int | None = None
    """How many epochs ahead it looks for the end of a batch; None: it reads nothing."""

    def _run(self) -> None:
        try:
            self._loop()
        except EndedError as error:
            self.progress.tell(state="ended", error=str(error), heirs=error.heirs)
        except SupersededError as error:
            self.progress.tell(state="stopped", error=str(error))
        except Exception:  # noqa: BLE001 - whatever it is, the host must be able to tell
            operator = self.context.segment.operators[0]
            self.progress.tell(state="failed", error=traceback.format_exc(), operator=operator)
        else:
            self.progress.tell(state="stopped")
        finally:
            self.context.lead.let_go()

    def begin(self) -> None:  # noqa: B027 - most have nothing to do
        """Whatever must be before its first look at the records; for subclasses."""

    def _loop(self) -> None:
        log, name = self.context.log, self.context.name
        self.begin()
        newest = log.newest_batch(name)
        position = self._position(max(0, newest))
        self.progress.tell(state="running", doing=None)
        while not self._stopping.is_set():
            self._wake.clear()
            log.check_current(name, self.context.generation, self.context.replica)
            step = self._next(position) if position is not None else "waiting"
            match step:
                case RunBatch():
                    if step.position.batch == newest and self.done(step):
                        self._passed(step.range, step.position.batch)
                    else:
                        self._batch(step)
                    position = step.done
                case Ended():
                    if step.why == "handed over":
                        self.context.crash.at("after-seal", name)
                    raise log.ended(name, step)
                case "waiting":
                    self._idle(position)
                    position = position or self._position(0)

    def _position(self, batch: int) -> Position | None:
        """Where the unit goes on; None while it is not born."""
        found = self.context.log.run(self.steps.position_at(self.context.name, batch))
        if found == "void":
            raise SupersededError(f"{self.context.name}: the change that made it was overtaken")
        return found if isinstance(found, Position) else None

    def _next(self, position: Position) -> Step:
        name, log = self.context.name, self.context.log
        try:
            step = log.run(
                self.steps.next_step(
                    name, position, self.context.streams, self.propose, reach=self.reach
                )
            )
        except TrimmedError as error:
            raise trimmed(error) from error
        if isinstance(step, RunBatch) and step.range.writer == log.writer:
            self.context.crash.at("after-range-record", name, step.position.batch)
        return step

    def _idle(self, position: Position | None) -> None:
        """Wait for input, for the time, for a turn, for a successor, or to be stopped."""
        context, records = self.context, self.context.log.records
        successor = context.log.claim_path(context.name, context.generation + 1, context.replica)
        wanted = [records.address(*item) for item in self.steps.wanted()]
        if position is not None:
            wanted.append(records.address(ranges(context.name), position.range_number))
        paths = (*wanted, successor)
        if paths == self._hinted:
            self._wake.wait(POLL_S)  # a hint that led nowhere: not to be taken at once again
        timeout_s = min(LOOK_S, max(SOON_S, self.due_s()))
        self._hinted = paths if context.watch.wait(paths, timeout_s, self._wake) else None

    def _batch(self, step: RunBatch) -> None:
        record, number = step.range, step.position.batch
        start = self.context.clock.now()
        self.progress.tell(waiting=record.upto - record.after)
        self.run_batch(step)
        took_ms = 1000 * (self.context.clock.now() - start)
        self.progress.tell(batch_ms=took_ms, waiting=0)
        self._passed(record, number)
        if self.context.trimmer.is_due(number) and self.context.lead.leads:
            self.context.trimmer.trim(self.context.name)
        self.context.crash.at("before-commit", self.context.name, number)

    def _passed(self, record: Range, number: int) -> None:
        self.progress.tell(batch=number, epoch=record.upto)
