"""The units of one node on one Spark session."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from holdfast.control.events import ProbeReport, UnitReport
from holdfast.deployment import PATH_MARK, Deployment, Segment, UnitId
from holdfast.errors import HoldfastError
from holdfast.pipeline import Pipeline
from holdfast.pipeline.paths import taking
from holdfast.rundir.contents import (
    probe_folder,
    scratch_folder,
    scratch_path,
    warm_folder,
)
from holdfast.rundir.layout import SCHEMAS
from holdfast.runtime.log.crash import VARIABLE as CRASH_VARIABLE
from holdfast.runtime.log.crash import Crash, crash_plan
from holdfast.runtime.log.forked import ForkedLog, Predict
from holdfast.runtime.log.slicelog import EndedError, SliceLog
from holdfast.runtime.log.start import require_start, thread_start
from holdfast.runtime.log.trim import TRIM_EVERY, Trimmer
from holdfast.runtime.log.watch import NodeWatch
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.paths import path_of, seen_by
from holdfast.runtime.spark.frames.check import check_pipeline
from holdfast.runtime.spark.frames.compile import ship_by_value
from holdfast.runtime.spark.frames.sabotage import sabotaged
from holdfast.runtime.spark.frames.tables import fix_tables
from holdfast.runtime.spark.start.native import side_of
from holdfast.runtime.spark.start.session import NODE_SETTINGS, start_session
from holdfast.runtime.spark.start.warmup import warm_up
from holdfast.runtime.spark.units.drafts import Drafts
from holdfast.runtime.spark.units.ends import Ends
from holdfast.runtime.spark.units.forked import ForkedUnit
from holdfast.runtime.spark.units.healing import SparkHealer, Workshop
from holdfast.runtime.spark.units.native import NativeSourceUnit
from holdfast.runtime.spark.units.probe import Probe, Probes
from holdfast.runtime.spark.units.query import PlannedQuery
from holdfast.runtime.spark.units.rehearse import MakeUnit, Rehearsals
from holdfast.runtime.spark.units.replay import Bench
from holdfast.runtime.spark.units.starting import Starting, status_of, until_running
from holdfast.runtime.spark.units.tasks import expected_tasks
from holdfast.runtime.spark.units.unit import SparkUnit
from holdfast.runtime.units.replicas import lead_of
from holdfast.runtime.units.slots import require_slots, task_slots
from holdfast.runtime.units.threads import ThreadUnit, UnitContext
from holdfast.runtime.units.turns import Turns
from holdfast.storage import open_storage
from holdfast.streams.floors import RETAIN_BATCHES

STOP_TIMEOUT_S = 15.0
FOLLOWER_BATCHES = 64
"""Batches that the log keeps beyond the usual where there are followers: they begin some behind."""


class JavaEndedError(HoldfastError):
    """A node has lost its Java virtual machine: killed for want of memory, for example."""


class SparkUnitHost:
    """Implements `holdfast.runtime.host.UnitHost`."""

    def __init__(
        self,
        deployment: Deployment,
        pipeline: Pipeline,
        run_dir: str | Path,
        *,
        memory_mb: int = 512,
        keep_input: bool = False,
        ack_levels: int = 1,
        trim_every: int = TRIM_EVERY,
        partitions: int = 1,
        sabotage: bool = False,
        spark: SparkSession | None = None,
        scratch: Path | None = None,
        predict: Predict = lambda *_: None,
        forks: bool = False,
    ) -> None:
        """Args as elsewhere; `sabotage`: faults can be put into paths; `forks`: some may come."""
        self._deployment = deployment
        self._pipeline = pipeline
        self._root = Path(run_dir).resolve()
        self._memory_mb = memory_mb
        self._keep_input = keep_input
        self._ack_levels, self._trim_every = ack_levels, trim_every
        self._partitions = partitions
        self._sabotage = sabotage
        self._probes, self._drafts = Probes(), Drafts(wanted=forks)
        self._takeovers = Drafts(wanted=True)
        """Queries of units that this node may take over as a spare."""
        self._predict = predict
        """What share of the input results reflect that are computed without some of it."""
        self._spark = spark
        self._scratch = scratch or scratch_path(self._root, f"host-{os.getpid()}")
        """For what is rehearsed; removed with the node, also after a kill, by its launcher."""
        self._owns_session = spark is None
        self._schemas: Mapping[str, StructType] | None = None
        self._lock = threading.RLock()
        self._opening = threading.RLock()
        """Apart from `_lock`: a session takes seconds to start, statuses are asked meanwhile."""
        self._starts = threading.Lock()
        self._healing = threading.RLock()
        self._turns = Turns(max(1, len(os.sched_getaffinity(0))))
        self._watch = NodeWatch()
        self._units: dict[UnitId, SparkUnit | ThreadUnit | Starting] = {}
        self._store = open_storage(self._root, told=self._watch.told)
        folder = warm_folder(self._scratch)
        self._rehearsals = Rehearsals(deployment, SliceLog(self._root), folder)
        self._ends = Ends(
            pipeline=pipeline,
            deployment=deployment,
            root=self._root,
            session=self.session,
            schemas=self.schemas,
        )
        ship_by_value(pipeline)

    def start(self, unit: UnitId, generation: int, clone_from: int | None) -> None:
        starting = Starting(unit, generation, self._turns.ask())
        with self._lock:
            self._units[unit] = starting
        threading.Thread(
            target=self._begin,
            args=(starting, clone_from),
            name=f"start-{unit}",
            daemon=True,
        ).start()

    def stop(self, unit: UnitId) -> None:
        with self._lock:
            running = self._units.get(unit)
            if running is not None:
                running.stop()

    def poll(self) -> list[UnitReport]:
        """Raises if the node's Java has ended: nothing can run here any more."""
        ended = self._java_ended()
        if ended is not None:
            raise JavaEndedError(f"the Java of this node has ended with {ended}")
        with self._lock:
            units = list(self._units.values())
        return [status_of(unit) for unit in units]

    def _java_ended(self) -> int | None:
        """The exit code of this node's own Java, None while it runs or was never started."""
        if self._spark is None or not self._owns_session:
            return None
        gateway: Any = self._spark.sparkContext._gateway  # noqa: SLF001 - no public way to it
        process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
        return None if process is None else process.poll()

    def open(self) -> None:
        self.session()
        self.schemas()

    def warm(self) -> None:
        self.open()
        inner = [segment for segment in self._deployment.segments if segment.kind == "inner"]

        def needed() -> bool:  # a spare may have to take over before it has rehearsed all
            return bool(self._units)

        done = []
        for segment in inner:
            done += [
                self._rehearsals.run(segment, self._on(segment, path), path, needed)
                for path in segment.paths or ("",)
            ]
            self._plan_ahead(segment, needed)
        if not any(done) and not needed():
            # Nothing is published yet, so no row has gone anywhere: made-up ones must do.
            stateful = any(segment.stateful for segment in inner)
            warm_up(self.session(), warm_folder(self._scratch), stateful=stateful)

    def _plan_ahead(self, segment: Segment, needed: Callable[[], bool]) -> None:
        """Plan the queries of those who carry a segment's stream now, for taking them over.

        On which path a split's next unit runs is not known before there is one.
        """
        if segment.paths or segment.path or side_of(self.session()) == "python":
            return
        log = SliceLog(self._root, self._store)
        begin(log, self._deployment)
        for child in log.carriers(segment.name):
            if needed():
                return
            context = self._context(UnitId.parse(child.unit), 0, log)
            unit = self._spark_unit(context, clone_from=None)
            self._takeovers.make(context.name, unit.plan)

    def _rehearse(self, context: UnitContext, before: Literal["takeover", "restating"]) -> None:
        """Run what a unit is about to take over from others, unless it has been run here.

        An operator's function may move rows. So if its state is to be laid out over several
        partitions, it is tried whether they lie by its key.
        """
        segment, log = context.segment, context.log
        if log.run(log.steps().passes_back(context.name)):
            return
        known = self._deployment.segment(segment.name).max_shards
        if before == "restating" or segment.max_shards != known:
            self._rehearsals.require(segment, self._on(segment, ""))
            return
        with self._lock:
            ran = [one for unit, one in self._units.items() if unit.segment == segment.name]
        if not any(one.progress.report.rows_in for one in ran):
            self._rehearsals.run(segment, self._on(segment, ""))

    def probe(self, split: str, path: str, probe: int, share: float) -> None:
        segment = self._deployment.segment(split)

        def run(made: Probe) -> None:
            made.run(
                segment,
                self._deployment,
                SliceLog(self._root),
                probe_folder(self._scratch),
                self._on(segment, path),
                share=share,
            )

        self._probes.begin(Probe(split=split, path=path, number=probe), run)

    def end_probe(self, split: str, path: str, probe: int) -> None:
        self._probes.end(split, path, probe)

    def probes(self) -> list[ProbeReport]:
        return self._probes.reports()

    def _on(self, segment: Segment, path: str) -> MakeUnit:
        """Makes a segment's unit for nobody to read; of a split, on one of its paths."""

        def make(context: UnitContext) -> SparkUnit:
            pipeline = self._on_path(segment.name, path) if path else self._pipeline
            return self._spark_unit(context, clone_from=None, pipeline=pipeline)

        return make

    def close(self) -> None:
        self._probes.close()
        self._drafts.close()
        self._takeovers.close()
        with self._lock:
            units = list(self._units.values())
            self._units.clear()
        for unit in units:
            unit.stop()
        for unit in units:
            unit.join(STOP_TIMEOUT_S)
        self._watch.close()
        if self._owns_session and self._spark is not None:
            with contextlib.suppress(Exception):  # the JVM may be gone already
                self._spark.stop()

    def session(self) -> SparkSession:
        """The node's session, started on first use."""
        with self._opening:
            if self._spark is None:
                self._spark = start_session(
                    self._deployment.pipeline,
                    memory_mb=self._memory_mb,
                    slots=task_slots(self._deployment, self._partitions),
                    settings=NODE_SETTINGS,
                )
            # Also for a session that was there already.
            master = self._spark.sparkContext.master
            require_slots(master, self._deployment, self._partitions)
            return self._spark

    def schemas(self) -> Mapping[str, StructType]:
        """Output schema per operator; the first node to ask writes them down for the others."""
        with self._opening:
            if self._schemas is None:
                stored = self._store.get(SCHEMAS)
                if stored is None:
                    found = check_pipeline(self._pipeline, self.session()).require()
                    data = {name: schema.jsonValue() for name, schema in found.items()}
                    stored = self._store.put_if_absent(SCHEMAS, json.dumps(data).encode())
                fix_tables(self._pipeline, self.session(), self._store)
                self._schemas = {
                    name: StructType.fromJson(schema) for name, schema in json.loads(stored).items()
                }
            return self._schemas

    def _begin(self, starting: Starting, clone_from: int | None) -> None:
        try:
            unit = self._make(starting.unit, starting.generation, clone_from)
        except EndedError as error:
            self._turns.withdraw(starting.turn)
            starting.end(error)
            return
        except Exception as error:  # noqa: BLE001 - told by poll()
            self._turns.withdraw(starting.turn)
            starting.fail(error, self._blame(starting.unit, error))
            return
        if not isinstance(unit, SparkUnit):
            self._turns.withdraw(starting.turn)
            self._run(starting, unit)
            return
        self._turns.enter(starting.turn)
        try:
            if self._run(starting, unit):
                until_running(unit)
        finally:
            self._turns.leave()

    def _run(self, starting: Starting, unit: SparkUnit | ThreadUnit) -> bool:
        """Let a unit run, unless it is not wanted any more."""
        with self._lock:
            if self._units.get(starting.unit) is not starting or starting.stopping:
                starting.cancel()
                return False
            self._units[starting.unit] = unit
            unit.start()
            return True

    def _blame(self, unit: UnitId, error: BaseException) -> str:
        """The operator that an error names, else the one that the unit's segment ends with."""
        named = getattr(error, "operator", None) or getattr(error, "where", None)
        known = {operator.name for operator in self._pipeline.operators}
        return str(named) if named in known else unit.segment

    def _make(
        self, unit: UnitId, generation: int, clone_from: int | None
    ) -> SparkUnit | ThreadUnit:
        segment = self._deployment.segment(unit.segment)
        self._watch.start()
        log = self._log_of(unit, segment)
        begin(log, self._deployment)
        context = self._context(unit, generation, log)
        if unit.fork is not None:
            return self._forked(context)
        log.require_open(unit.name)
        context = replace(context, healer=self._healer(context))
        if segment.is_followed(unit):
            context = replace(context, lead=lead_of(context))
        match segment.kind:
            case "inner":
                return self._spark_unit(
                    context,
                    clone_from=clone_from,
                    drafts=self._drafts,
                    draft=lambda: self._takeovers.take(context.name),
                )
            case "source" if self._ends.is_native(segment):
                return NativeSourceUnit(
                    context,
                    spark=self.session(),
                    pipeline=self._pipeline,
                    schemas=self.schemas(),
                    starts=self._starts,
                    clone_from=clone_from,
                )
            case "source":
                self._claim(context)
                return self._ends.source(context)
            case "exporter":
                self._claim(context)
                return self._ends.exporter(context)

    def _log_of(self, unit: UnitId, segment: Segment) -> SliceLog:
        if unit.fork is None:
            return SliceLog(self._root, self._store)
        return ForkedLog(
            self._root,
            self._store,
            unit=unit.name,
            streams=self._deployment.streams_read(segment),
            stateful=segment.stateful,
            predict=self._predict,
        )

    def _forked(self, context: UnitContext) -> SparkUnit | ThreadUnit:
        """A unit of a fork: of what reads, as sources have nothing to go on without."""
        log = context.log
        if context.segment.kind == "inner":
            settings = self._query_settings(context)
            exact = context.unit.exact.name
            return ForkedUnit(
                context, **settings, clone_from=None, draft=lambda: self._drafts.take(exact)
            )
        log.claim(context.name, context.generation)
        newest = log.newest_batch(context.unit.exact.name)
        if isinstance(log, ForkedLog):
            log.run(log.steps().begin(newest + 1))
        return self._ends.exporter(context)

    def _context(self, unit: UnitId, generation: int, log: SliceLog) -> UnitContext:
        hot = any(item.followers for item in self._deployment.segments)
        deployment = seen_by(log, self._deployment, unit)
        return UnitContext(
            unit=unit,
            generation=generation,
            segment=deployment.segment(unit.segment),
            deployment=deployment,
            log=log,
            trimmer=Trimmer(
                log,
                self._deployment,
                keep_input=self._keep_input,
                retain=RETAIN_BATCHES + (FOLLOWER_BATCHES if hot else 0),
                levels=self._ack_levels,
                every=self._trim_every,
            ),
            crash=self._crash(),
            watch=self._watch,
        )

    def _healer(self, context: UnitContext) -> SparkHealer:
        """Makes what a unit reads again, should it be lost."""
        workshop = Workshop(
            context=lambda unit, number: replace(
                self._context(unit, number, context.log), crash=Crash()
            ),
            bench=self._bench,
            source=self._ends.rows_of,
            alone=self._healing,
            scratch=f"{scratch_folder(Path()).name}/{self._scratch.name}",
        )
        return SparkHealer(workshop, context.log, context.crash)

    def _bench(self, context: UnitContext) -> Bench:
        return Bench(**self._query_settings(context))

    def _claim(self, context: UnitContext) -> None:
        """Take over a unit that needs no checkpoint, or refuse one that could only wait."""
        log = context.log
        log.claim(context.name, context.generation, context.replica)
        require_start(log, context.deployment, context.unit, first=thread_start(log, context.unit))

    def _own_pipeline(self, context: UnitContext) -> Pipeline:
        """The pipeline as a unit runs it: of a split, on the path that its change names."""
        if context.segment.path and self._sabotage:
            return self._on_path(*context.segment.path.split(PATH_MARK))
        if not context.segment.paths:
            return self._pipeline
        log = context.log
        child = log.run(log.steps().child(context.name))
        return self._on_path(context.segment.name, path_of(child, context.segment))

    def _on_path(self, split: str, path: str) -> Pipeline:
        change = taking(split, path)
        if self._sabotage:
            change = sabotaged(change, split, path, self._root)
        return self._pipeline.replaced(change)

    def _spark_unit(
        self,
        context: UnitContext,
        *,
        clone_from: int | None,
        pipeline: Pipeline | None = None,
        drafts: Drafts | None = None,
        draft: Callable[[], PlannedQuery | None] = lambda: None,
    ) -> SparkUnit:
        return SparkUnit(
            context,
            **self._query_settings(context, pipeline),
            clone_from=clone_from,
            drafts=drafts,
            draft=draft,
            tasks=expected_tasks(SliceLog(self._root), self._deployment, context.segment),
            rehearse=lambda before: self._rehearse(context, before),
        )

    def _query_settings(
        self, context: UnitContext, pipeline: Pipeline | None = None
    ) -> dict[str, Any]:
        return {
            "spark": self.session(),
            "pipeline": pipeline or self._own_pipeline(context),
            "schemas": self.schemas(),
            "starts": self._starts,
            "partitions": self._partitions,
        }

    def _crash(self) -> Crash:
        return crash_plan(self._jvm_pid()) if os.environ.get(CRASH_VARIABLE) else Crash()

    def _jvm_pid(self) -> int:
        jvm: Any = self.session()._jvm  # noqa: SLF001 - no public way to the process id
        return int(jvm.java.lang.ProcessHandle.current().pid())
