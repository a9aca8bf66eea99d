"""A unit as a streaming query: the one place where a batch is run, published and accounted for."""

from __future__ import annotations

import contextlib
import threading
import traceback
from collections.abc import Callable, Mapping

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from holdfast.control.events import UnitReport
from holdfast.deployment.slicefiles import content_digest
from holdfast.errors import HoldfastError
from holdfast.pipeline import Pipeline
from holdfast.rundir.layout import generation_word
from holdfast.runtime.checkpoint.clone import (
    batch_number,
    clone_checkpoint,
    generations,
    make_checkpoint,
    newest_generation,
    tidy,
)
from holdfast.runtime.checkpoint.state import StateFiles
from holdfast.runtime.log.redo import after_failure, decided_range, skips_to_use
from holdfast.runtime.log.slicelog import EndedError, OtherSkipError, SupersededError, skip_version
from holdfast.runtime.log.takeable import Takeable
from holdfast.runtime.log.trim import remove_stop_marks
from holdfast.runtime.log.watermarks import output_watermark
from holdfast.runtime.spark.frames.compile import OperatorError
from holdfast.runtime.spark.io.publish import Written
from holdfast.runtime.spark.io.reader import StoppedError, rows_read
from holdfast.runtime.spark.units.beginning import keep_commit, refuse_or_rebuild
from holdfast.runtime.spark.units.drafts import Drafts
from holdfast.runtime.spark.units.life import QueryLife, end_query
from holdfast.runtime.spark.units.partners import clone_partner
from holdfast.runtime.spark.units.promise import keep_promised
from holdfast.runtime.spark.units.quarantine import blame, quarantine, suspects
from holdfast.runtime.spark.units.query import PlannedQuery, plan_query
from holdfast.runtime.spark.units.share import Rehearse, inherit
from holdfast.runtime.spark.units.tasks import MoreTasksError, Tasks
from holdfast.runtime.units.aside import keep_version
from holdfast.runtime.units.birth import await_birth, follow_inputs, is_awaited
from holdfast.runtime.units.chores import Chores
from holdfast.runtime.units.progress import Progress
from holdfast.runtime.units.threads import UnitContext
from holdfast.storage import Storage
from holdfast.streams.records import Range, Skip, Slice
from holdfast.streams.unit import Position

SIZE_EVERY = 8
"""Batches between two looks at how large the state is."""
DRAFT_EVERY = 12
"""Batches between two looks whether a fork's query is planned: the first ones are hard work."""


class BatchFailedError(HoldfastError):
    """Tells Spark that a batch failed; the unit keeps the cause."""


class SparkUnit:
    """Starts, watches and stops one streaming query."""

    def __init__(
        self,
        context: UnitContext,
        *,
        spark: SparkSession,
        pipeline: Pipeline,
        schemas: Mapping[str, StructType],
        starts: threading.Lock,
        clone_from: int | None,
        partitions: int = 1,
        tasks: int = 1,
        rehearse: Rehearse = lambda _: None,
        drafts: Drafts | None = None,
        draft: Callable[[], PlannedQuery | None] = lambda: None,
    ) -> None:
        """Args as elsewhere; `rehearse`: called by a unit that waits for others to hand over;
        `drafts`: has the queries of forks planned; `draft`: what was planned for this unit.
        """
        self.context = context
        self.progress = Progress(context.unit, context.generation)
        self._spark = spark
        self._pipeline = pipeline
        self._schemas = schemas
        self._starts = starts
        self._clone_from = clone_from
        self._partitions = partitions
        self._tasks = Tasks(tasks)
        self._query: StreamingQuery | None = None
        self._failure: BaseException | None = None
        self._number: int | None = None
        """The batch in hand."""
        self._planned: PlannedQuery
        """The query that runs."""
        self._ahead: PlannedQuery | None = None
        """One that was planned before there was a checkpoint for it."""
        self._rehearse, self._drafts = rehearse, drafts or Drafts(wanted=False)
        self._draft = draft
        self._adopted: set[int] = set()
        """Batches that failed here and are published, so need not be run."""
        self._heed_repairs = -1
        """Up to this epoch, slices that are read may have been made again."""
        self._chance = any(
            not pipeline.operator(name).deterministic for name in context.segment.operators
        )
        """Whether a redo may give other rows; the state is the same, as chance ends a segment."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=context.name, daemon=True)
        self._takeable: Takeable | None = None
        self._chores = Chores()
        self._life: QueryLife | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        with contextlib.suppress(OSError):
            self.context.log.store.put_if_absent(self._stop_marker(), b"")
        query = self._query
        if query is not None:
            # stop() waits for the batch in hand: not on the caller's thread. A path that is left
            # may hang in a function, or hold memory that another one is to have.
            workers = self.run_id if self.context.segment.alone else ""
            threading.Thread(target=end_query, args=(query, workers), daemon=True).start()

    @property
    def run_id(self) -> str:
        """That of its query, by which its Python workers are known; empty: it has none yet."""
        return str(self._query.runId) if self._query is not None else ""

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def status(self) -> UnitReport:
        report = self.progress.report
        if report.state != "running":
            return report
        waiting = self._takeable.waiting() if self._takeable is not None else 0
        lead = self.context.lead
        work = report.work
        if self._life is not None:
            now = self.context.clock.now()
            work = self._life.work(batch=report.batch, waiting=waiting > 0, now=now)
        return self.progress.tell(waiting=waiting, work=work, leads=lead.shared and lead.leads)

    # Life of the query

    def _run(self) -> None:
        try:
            self._prepare()
            while not self._stopping.is_set():
                try:
                    self._run_query()
                    break
                except Exception as error:
                    if not self._goes_on(error):
                        raise
        except EndedError as error:
            self.progress.tell(state="ended", error=str(error), heirs=error.heirs)
        except SupersededError as error:
            self.progress.tell(state="stopped", error=str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the host must be able to tell
            self._failed(error)
        else:
            asked = self._stopping.is_set()
            why = None if asked else "its query ended though nobody stopped it"
            self.progress.tell(state="stopped", error=why)
        finally:
            if self._ahead is not None:
                self._ahead.close()
            self._drafts.drop(self.context.name)
            self.context.lead.let_go()

    def _prepare(self) -> None:
        """Claim the unit, then clone: what an older generation does after the claim is bounded."""
        context = self.context
        self._protocol = context.log.steps()
        if is_awaited(context, self._protocol):
            self.progress.tell(state="running", doing="getting ready to take over")
            self._rehearse("takeover")
            self._ahead = self.plan()
        # The claim of one who is to take over also says that it is ready.
        context.log.claim(context.name, context.generation, context.replica)
        born = await_birth(context, self._protocol, self.progress, self._stopping)
        self._takeable = follow_inputs(context, born)
        folder, own = self._checkpoints(), context.generation
        there = generations(folder)
        source = self._clone_source(there)
        if context.lead.shared and clone_partner(context, source, rows=self._partitions):
            self._tidy(keep_from=own)
            return
        known = None if source is None else self._checkpoint(source)
        rebuilt = refuse_or_rebuild(context, known, rows=self._partitions)
        if source is None and born.parents and context.segment.stateful:
            inherit(context, self._spark, born, self._rehearse, self._partitions, self.progress)
            return
        if rebuilt is not None or source is None:
            make_checkpoint(folder, own, next_batch=rebuilt or 0, rows=self._partitions)
            return
        clone_checkpoint(folder, source, own, unit=context.name, crash=context.crash)
        self._tidy(keep_from=source - 1)

    def _tidy(self, *, keep_from: int) -> None:
        """Remove what generations before `keep_from` left behind, and clones that none finished."""
        context = self.context
        tidy(
            self._checkpoints(),
            generation=context.generation,
            keep_from=keep_from,
            new_id=context.new_id,
        )
        remove_stop_marks(context.log, context.name, keep_from, context.replica)

    def _clone_source(self, there: list[int]) -> int | None:
        if self._clone_from in there:
            return self._clone_from
        return newest_generation(there, self.context.generation)

    def _run_query(self) -> None:
        context = self.context
        context.log.store.delete(self._stop_marker())
        self._failure = self._number = None
        query = self._planned = self._ahead or self.plan()
        self._tasks = Tasks(query.spec.tasks)  # what was planned beforehand may have fewer
        self._ahead = None
        try:
            if not self._stopping.is_set():
                self._follow(query)
        finally:
            query.close()

    def plan(self) -> PlannedQuery:
        """Its query, which needs no checkpoint yet: planned for it beforehand, or now."""
        skips = skips_to_use(self.context.log, self.context.name, self._stored)
        return self._plan_for(skips, self._draft())

    def _plan_for(self, skips: Mapping[int, Skip], draft: PlannedQuery | None) -> PlannedQuery:
        context = self.context
        return plan_query(
            context,
            self._spark,
            self._pipeline,
            self._schemas,
            partitions=self._partitions,
            tasks=self._tasks.count,
            skips=skips,
            heed_repairs=self._heed_repairs,
            checkpoint=self._checkpoint(context.generation),
            stopping=self._stopping,
            failed=self._not_planned,
            draft=draft,
        )

    def _follow(self, planned: PlannedQuery) -> None:
        writer = planned.writer(self._batch, self._checkpoint(self.context.generation))
        with self._starts:  # one at a time: starting is all work for one core
            self._query = writer.start()
        if self._stopping.is_set():
            self.stop()
        self._life = QueryLife(self._spark, str(self._query.runId))
        self.progress.tell(state="running", doing=None)
        try:
            self._query.awaitTermination()
        except StreamingQueryException as error:
            if not self._stopping.is_set():
                raise self._failure or error from error
        if self._failure is not None and not self._stopping.is_set():
            raise self._failure

    def _not_planned(self, number: int, error: BaseException) -> None:
        self._number, self._failure = number, error

    # When a batch fails

    def _goes_on(self, error: BaseException) -> bool:
        """Whether the failed batch can be run again at once, or need not be."""
        if isinstance(error, MoreTasksError):
            return True
        context, number = self.context, self._number
        # Whatever happened, a generation that was replaced has nothing to report but that.
        context.log.check_current(context.name, context.generation, context.replica)
        if number is not None and self._healed(number):
            return True
        ours = isinstance(error, HoldfastError)
        if number is None or (ours and not isinstance(error, OperatorError | OtherSkipError)):
            return False
        used, newest = (
            self._planned.skips.get(number),
            context.log.newest_skip(context.name, number),
        )
        stored = self._stored(number)
        step = after_failure(
            stateful=context.segment.stateful,
            published=skip_version(stored) if stored else None,
            newest=newest.version if newest else 0,
            used=used.version if used else 0,
            adopted=number in self._adopted,
        )
        match step:
            case "again":
                return True
            case "adopt":
                self._adopted.add(number)
                return True
            case "search":
                return self._quarantined(error, number)
            case "fail":
                return False

    def _healed(self, number: int) -> bool:
        """Whether the batch failed on slices that were damaged, and are whole now."""
        context, record = self.context, self.context.log.range(self.context.name, number)
        if record is None:
            return False
        heed = context.healer.heal(
            context.inputs,
            record.after,
            record.upto,
            heeded=self._heed_repairs,
            tell=lambda doing: self.progress.tell(state="starting", doing=doing),
        )
        if heed is not None:
            self._heed_repairs = max(self._heed_repairs, heed)
        return heed is not None

    def _quarantined(self, error: BaseException, number: int) -> bool:
        """Whether rows were found without which the failed batch can go on."""
        blamed = self._culprit(error)
        operators = suspects(self._pipeline, self.context.segment, blamed)
        return any(self._put_aside(error, number, operator) for operator in operators)

    def _put_aside(self, error: BaseException, number: int, operator: str) -> bool:
        """Whether rows were found that an operator fails on."""
        record = self.context.log.need_range(self.context.name, number)
        # Many runs of the batch, so maybe minutes: to be told apart from a stall, which is killed.
        self.progress.tell(state="starting", operator=operator)
        return quarantine(
            self.context,
            spark=self._spark,
            pipeline=self._pipeline,
            spec=self._planned.spec,
            record=record,
            number=number,
            skip=self._planned.skips.get(number),
            operator=operator,
            reason=str(error),
            tell=lambda doing: self.progress.tell(doing=doing),
        )

    def _stored(self, number: int) -> Slice | None:
        """What a batch has published."""
        return self.context.log.slice(self.context.name, number)

    def _culprit(self, error: BaseException) -> str | None:
        return blame(self._pipeline, self.context.segment, error)

    def _stop_marker(self) -> str:
        context = self.context
        return context.log.layout.stop_marker(context.name, context.generation, context.replica)

    # One batch

    def _batch(self, frame: DataFrame, spark_batch: int) -> None:
        try:
            self._run_batch(frame, spark_batch)
        except Exception as error:  # noqa: BLE001 - told by status()
            self._failure = error
        if self._failure is not None:
            # Spark matches what is raised here against a regular expression whose recursion
            # overflows the stack on a long text; the whole story is in `_failure`.
            raise BatchFailedError(type(self._failure).__name__)

    def _run_batch(self, frame: DataFrame, spark_batch: int) -> None:
        context, log = self.context, self.context.log
        share = self._planned.share
        if share.unchecked:
            with self._starts:  # until the query is known
                share.check(self._query)
        start = self._planned.side.ready_at()
        checkpoint = self._checkpoint(context.generation)
        number = self._number = batch_number(checkpoint, spark_batch, self._planned.spec.partitions)
        stored = None
        if number in self._adopted or (self._chance and not context.segment.stateful):
            stored = self._stored(number)
        if stored is None:
            # What is published else needs no second run: it might fail or come out otherwise.
            stored = self._compute(frame, number, spark_batch)
        dead = log.store.below(log.layout.dead(context.name))
        keep_version(dead, number, skip_version(stored))
        record = log.need_range(context.name, number)
        # The batch began when its input was there, not when Spark planned it.
        began = max(start, log.put_time(record) or 0.0)
        self._account(number, record, stored.rows, context.wall.now() - began)
        self._trim(number)
        keep_commit(context, self._checkpoints(), number)
        sized = context.segment.stateful and number % SIZE_EVERY == 1
        if self._chores.take("size", due=sized):
            files = StateFiles(checkpoint)
            files.scan()
            self.progress.tell(state_bytes=files.restore_bytes)
        drafts = self._planned.adoptable and number % DRAFT_EVERY == DRAFT_EVERY - 1
        if self._chores.take("draft", due=drafts):
            self._drafts.ask(context.name, lambda: self._plan_for({}, None))
        context.crash.at("before-commit", context.name, number)

    def _compute(self, frame: DataFrame, number: int, spark_batch: int) -> Slice:
        """Run a batch and publish it; gives what counts."""
        written = self._planned.side.written(frame, number, hold=not self.context.lead.leads)
        try:
            return self._make_visible(written, number, spark_batch)
        finally:
            written.forget()

    def _make_visible(self, written: Written, number: int, spark_batch: int) -> Slice:
        context, log = self.context, self.context.log
        # The mark is removed once a newer generation runs, the event stays.
        if self._stopping.is_set() or log.store.exists(self._stop_marker()):
            # Some tasks may have read nothing for it; the batch is run again, whole, elsewhere.
            raise StoppedError(f"{context.name} was told to stop")
        context.crash.at("after-data-files", context.name, number)
        before = self._position(number)
        record = decided_range(log, self._protocol, context.name, number, before)
        skip = self._planned.skips.get(number)
        watermark = output_watermark(
            before.watermark_us,
            record.watermark_us,
            stateful=context.segment.stateful,
            windows=all(item.windows for item in self._planned.spec.inputs),
            lag_us=self._planned.lag_us,
        )
        return context.publish(
            Slice(
                unit=context.name,
                number=number,
                after=record.after,
                upto=record.upto,
                files=written.files,
                rows=written.rows,
                digest=content_digest(written.files),
                watermark_us=watermark,
                dead_rows=sum(len(rows) for rows in skip.rows.values()) if skip else 0,
                skip=str(skip.version) if skip else "",
                generation=context.generation,
                spark_batch=spark_batch,
            ),
            # Of chance the rows that are stored count; it comes after the state, which agrees.
            adopt=self._chance,
            keep=lambda: keep_promised(self._planned.promise, context, number, written),
        )

    def _position(self, number: int) -> Position:
        """Where the unit stood before a batch."""
        name = self.context.name
        found = self.context.log.run(self._protocol.position_at(name, number))
        if not isinstance(found, Position):
            raise SupersededError(f"{name} is {found} born")
        return found

    def _trim(self, number: int) -> None:
        """A batch was made: trim if that is due, and the unit has made up for what it missed."""
        behind = self._takeable is not None and self._takeable.waiting() > 0
        self._chores.made_batch(behind=behind)
        if self._chores.take("trim", due=self.context.trimmer.is_due(number)):
            if self.context.lead.leads:
                self.context.trimmer.trim(self.context.name)
            # This generation has shown that it runs: the next will clone its checkpoint.
            self._tidy(keep_from=self.context.generation)

    def _account(self, number: int, record: Range, rows_out: int, seconds: float) -> None:
        log, query = self.context.log, self._planned
        rows_in = rows_read(log, self._protocol, query.spec.inputs, record, query.share.groups)
        self.progress.add(rows_in=rows_in, rows_out=rows_out)
        if self._tasks.saw(rows_in):
            query.read_in_more_tasks()
        self.progress.tell(batch=number, epoch=record.upto, batch_ms=1000 * seconds)
        if self._takeable is not None:
            self._takeable.passed(record.upto)

    # Telling

    def _failed(self, error: BaseException) -> None:
        text = "".join(traceback.format_exception(error))
        self.progress.tell(state="failed", error=text, operator=self._culprit(error))

    def _checkpoints(self) -> Storage:
        log = self.context.log
        return log.store.below(log.layout.checkpoints(str(self.context.unit)))

    def _checkpoint(self, generation: int) -> Storage:
        return self._checkpoints().below(generation_word(generation))
