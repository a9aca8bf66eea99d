"""Finding the rows that make a batch fail, so that it can go on without them.

The batch's rows are run again in parts (`isolate`), up to the operator that failed, on static
DataFrames. Rows that fail only together cannot be told apart; then nothing is skipped and the unit
fails as it would without quarantine. So it does if a row fails in an operator that does not
quarantine. One that does reads boundaries alone, so the rows are those of its input.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from holdfast.deployment import Segment
from holdfast.deployment.blocks import groups_between
from holdfast.pipeline import Pipeline
from holdfast.rundir.layout import word
from holdfast.runtime.log.slices import files_on, read_slice
from holdfast.runtime.spark.frames.compile import OperatorError, build, culprit
from holdfast.runtime.spark.frames.mistakes import quiet
from holdfast.runtime.spark.io.reader import TICK, InputSpec, ReaderSpec
from holdfast.runtime.spark.units.isolate import (
    TOGETHER,
    Place,
    Reached,
    SearchEndedError,
    isolate,
)
from holdfast.runtime.units.aside import forget, put_aside
from holdfast.runtime.units.threads import UnitContext
from holdfast.streams.records import Range, Skip

_DATA_STATES = ("21", "22", "38", "P0")
"""SQLSTATE classes of what a row does to a function: cardinality, data, Python, raised by hand."""


class Trial:
    """Runs some rows of a batch again, up to one operator, to see whether it fails."""

    def __init__(
        self,
        context: UnitContext,
        *,
        spark: SparkSession,
        pipeline: Pipeline,
        spec: ReaderSpec,
        operator: str,
        tables: Mapping[str, Any],
    ) -> None:
        self._context = context
        self._spark = spark
        self._pipeline = pipeline
        self._spec = spec
        self._operator = operator
        self._tables = tables
        self._alone = threading.Lock()
        self.doubtful = False
        """Whether a run failed of which nothing says that a row is to blame, and not, say, the
        disk."""

    def fails(self, places: Sequence[Place]) -> bool:
        """Raises if another operator fails, which is to fail.

        What no row is told to be to blame for, as a Python worker that died, is tried once more.
        """
        context, pipeline = self._context, self._pipeline
        for last in (False, True):
            try:
                self._run(places)
            except (OperatorError, PySparkException, Py4JJavaError) as error:
                blamed = blame(pipeline, context.segment, error)
                if blamed is not None and pipeline.operator(blamed).on_error != "quarantine":
                    raise SearchEndedError(blamed) from error
                if _of_data(error):
                    return True
                self.doubtful = self.doubtful or last
            else:
                return False
        return True

    def _run(self, places: Sequence[Place]) -> None:
        context, pipeline = self._context, self._pipeline
        frames = {item.boundary: self._frame(item, places) for item in self._spec.inputs}
        with self._alone:  # what users write may use names of the session
            result = build(
                pipeline, context.deployment, context.segment, frames, stop_after=self._operator
            )
        result.write.format("noop").mode("overwrite").save()

    def _frame(self, item: InputSpec, places: Sequence[Place]) -> DataFrame:
        chosen = [at for boundary, at in places if boundary == item.boundary]
        rows = self._tables[item.boundary].take(pa.array(chosen, pa.int64()))
        struct = item.struct()
        schema = type(struct)([field for field in struct if field.name != TICK])
        return self._spark.createDataFrame(rows, schema)


def quarantine(
    context: UnitContext,
    *,
    spark: SparkSession,
    pipeline: Pipeline,
    spec: ReaderSpec,
    record: Range,
    number: int,
    skip: Skip | None,
    operator: str,
    reason: str,
    tell: Callable[[str], object],
) -> bool:
    """Put a skip record for rows on which `operator` fails; False if none could be found.

    `skip` is what the batch was run with, so what is left out already.
    """
    tables = _inputs(context, spec, record)
    known = {(name, at) for name, rows in (skip.rows if skip else {}).items() for at in rows}
    places = [
        (item.boundary, at)
        for item in spec.inputs
        for at in range(tables[item.boundary].num_rows)
        if (item.boundary, at) not in known
    ]
    trial = Trial(
        context, spark=spark, pipeline=pipeline, spec=spec, operator=operator, tables=tables
    )
    try:
        with quiet():  # rows are made to fail again and again
            bad = find(trial, places, lambda far: tell(f"looking for rows that {operator} {far}"))
    except SearchEndedError:
        return False
    if not bad:
        return False
    put_skip(
        context,
        Skip(
            unit=context.name,
            number=0,
            batch=number,
            version=skip.version + 1 if skip else 1,
            rows=_by_boundary([*known, *bad]),
            reason=f"{operator}: {reason}"[:2000],
        ),
        tables,
    )
    return True


def find(trial: Trial, places: Sequence[Place], tell: Callable[[str], object]) -> list[Place]:
    """Rows that fail on their own, as many as are found in time."""

    def told(reached: Reached) -> None:
        tell(f"fails on: {reached.found} found, {reached.left} of {len(places)} left to look at")

    with ThreadPoolExecutor(TOGETHER) as together:
        found = isolate(
            places,
            lambda parts: list(together.map(trial.fails, parts)),
            now=time.monotonic,
            tell=told,
        )
    if not trial.doubtful:
        return found
    # Whatever it was may be over: without rows it must not fail, and with each of them it must.
    return [] if trial.fails([]) else [place for place in found if trial.fails([place])]


def put_skip(context: UnitContext, record: Skip, tables: Mapping[str, Any]) -> None:
    """Keep the rows for people to look at, then leave them out.

    If another generation has put this version, its rows are kept instead of ours.
    """
    dead = context.log.store.below(context.log.layout.dead(context.name))

    def keep(skip: Skip) -> None:
        for boundary, at in skip.rows.items():
            rows = tables[boundary].take(pa.array(at))
            put_aside(
                dead.below(word(boundary)),
                skip.batch,
                rows,
                keep_all=context.trimmer.keep_input,
                now=context.wall.now(),
                version=skip.version,
            )

    # The search may have taken a minute: an older generation must not touch what counts by now.
    context.log.check_current(context.name, context.generation, context.replica)
    keep(record)
    stored = context.log.put_skip(record)
    if stored.rows != record.rows:
        keep(stored)
        for boundary in set(record.rows) - set(stored.rows):
            forget(dead.below(word(boundary)), record.batch, record.version)


def blame(pipeline: Pipeline, segment: Segment, error: BaseException) -> str | None:
    """The operator of a segment that an error comes from, if that can be told."""
    if isinstance(error, OperatorError):
        return error.operator
    return culprit(pipeline, segment, "".join(traceback.format_exception(error)))


def _of_data(error: BaseException) -> bool:
    """Whether an error is told to come from a row: raised in Python, or a data exception."""
    state = error.getSqlState() if isinstance(error, PySparkException) else None
    return isinstance(error, OperatorError) or (state or "")[:2] in _DATA_STATES


def suspects(pipeline: Pipeline, segment: Segment, blamed: str | None) -> list[str]:
    """Whom to search, in this order; nobody if the blame is on an operator that fails for good.

    All that quarantine, as nothing may tell who failed, or two may share a function. They read
    boundaries alone, so there are several only where streams meet, one before each input.
    """
    names = [one for one in segment.operators if pipeline.operator(one).on_error == "quarantine"]
    if blamed is None:
        return names
    return sorted(names, key=lambda name: name != blamed) if blamed in names else []


def _by_boundary(places: Iterable[Place]) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for boundary, at in sorted(places):
        found.setdefault(boundary, []).append(at)
    return {boundary: tuple(at) for boundary, at in found.items()}


def _inputs(context: UnitContext, spec: ReaderSpec, record: Range) -> dict[str, Any]:
    """The batch's rows per boundary, in the order in which tasks read and count them."""
    log, protocol = context.log, context.log.steps()
    groups = groups_between(*spec.groups, spec.max_shards)
    tables = {}
    for item in spec.inputs:
        batches: list[Any] = []
        for found in log.run(protocol.read(item.stream, record.after, record.upto)):
            whole, _ = log.run(protocol.repaired(found))
            folder = log.data(found.unit, item.boundary)
            batches += read_slice(folder, files_on(whole, item.boundary), groups)
        empty = item.arrow_schema().empty_table().drop_columns([TICK])
        tables[item.boundary] = pa.Table.from_batches(batches) if batches else empty
    return tables
