"""Finding the rows that make a batch fail, so that it can go on without them.

Problem: a batch fails in a user's function on few of its many rows; find them with few runs. The
rows are divided until each failing part is one row: k bad rows among n take O(k log n) runs of the
segment on static DataFrames. Rows that fail only together cannot be told apart; then nothing is
skipped and the unit fails as it would without quarantine. So it does if a row fails in an operator
that does not quarantine. Several operators of a segment may: when the next one fails, the search
goes on from the rows that are left out already.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.deployment import Segment
from holdfast.deployment.records import RangeRecord, SkipRecord
from holdfast.pipeline import Pipeline
from holdfast.rundir.layout import word
from holdfast.runtime.log.protocol import read_range
from holdfast.runtime.log.slices import read_slice
from holdfast.runtime.spark.frames.check import quiet
from holdfast.runtime.spark.frames.compile import OperatorError, build, culprit
from holdfast.runtime.spark.io.reader import TICK, ReaderSpec
from holdfast.runtime.units.aside import forget, put_aside
from holdfast.runtime.units.threads import UnitContext

WAYS = 8
"""Into how many parts failing rows are divided: a failing run costs a Python worker, so seconds, a
succeeding one a tenth of one; many small parts need few failing runs."""
MAX_RUNS = 400
"""A search that has found nothing in so many runs is given up."""
RUNS_PER_ROW = 64
"""Runs that every row found allows on top: a large batch, as after a pause, has more bad rows and
needs more runs for each, and must not be given up where several small ones would have passed."""
MAX_ROWS = 1000
"""A batch with more bad rows than this is not worth saving: the function fails on everything."""

Place = tuple[str, int]
"""Boundary, and position of a row in reading order."""


class SearchEndedError(Exception):
    """The search was given up."""


class TooManyRunsError(SearchEndedError):
    """There are too many bad rows."""


def quarantine(
    context: UnitContext,
    *,
    spark: SparkSession,
    pipeline: Pipeline,
    spec: ReaderSpec,
    previous: RangeRecord | None,
    record: RangeRecord,
    skip: SkipRecord | None,
    operator: str,
    reason: str,
) -> bool:
    """Put a skip record for the rows on which `operator` fails; False if none could be found.

    `skip` is what the batch was run with, so what is left out already.
    """
    tables = _inputs(context, spec, previous, record)
    known = {(name, at) for name, rows in (skip.rows if skip else {}).items() for at in rows}

    def succeeds(places: Sequence[Place]) -> bool:
        frames = {}
        for item in spec.inputs:
            chosen = [at for boundary, at in places if boundary == item.boundary]
            rows = tables[item.boundary].take(pa.array(chosen, pa.int64()))
            struct = item.struct()
            schema = type(struct)([field for field in struct if field.name != TICK])
            frames[item.boundary] = spark.createDataFrame(rows, schema)
        try:
            result = build(
                pipeline, context.deployment, context.segment, frames, stop_after=operator
            )
            result.write.format("noop").mode("overwrite").save()
        except (OperatorError, PySparkException) as error:
            blamed = blame(pipeline, context.segment, error)
            if blamed is not None and pipeline.operator(blamed).on_error != "quarantine":
                raise SearchEndedError(blamed) from error
            return False
        return True

    places = [
        (item.boundary, at)
        for item in spec.inputs
        for at in range(tables[item.boundary].num_rows)
        if (item.boundary, at) not in known
    ]
    try:
        with quiet():  # rows are made to fail again and again
            bad = isolate(places, succeeds)
    except SearchEndedError:
        return False
    if not bad:
        return False
    put_skip(
        context,
        SkipRecord(
            unit=context.name,
            number=record.number,
            version=skip.version + 1 if skip else 1,
            rows=_by_boundary([*known, *bad]),
            reason=f"{operator}: {reason}"[:2000],
            generation=context.generation,
        ),
        tables,
    )
    return True


def put_skip(context: UnitContext, record: SkipRecord, tables: Mapping[str, Any]) -> None:
    """Keep the rows for people to look at, then leave them out.

    If another generation has put this version, its rows are kept instead of ours.
    """
    dead = context.log.store.below(context.log.layout.dead(context.name))

    def keep(skip: SkipRecord) -> None:
        for boundary, at in skip.rows.items():
            rows = tables[boundary].take(pa.array(at))
            put_aside(
                dead.below(word(boundary)),
                skip.number,
                rows,
                keep_all=context.trimmer.keep_input,
                now=context.wall.now(),
                version=skip.version,
            )

    # The search may have taken a minute: an older generation must not touch what counts by now.
    context.log.check_current(context.name, context.generation)
    keep(record)
    stored = context.log.put_skip(record)
    if stored.rows != record.rows:
        keep(stored)
        for boundary in set(record.rows) - set(stored.rows):
            forget(dead.below(word(boundary)), record.number, record.version)


def blame(pipeline: Pipeline, segment: Segment, error: BaseException) -> str | None:
    """The operator of a segment that an error comes from, if that can be told."""
    if isinstance(error, OperatorError):
        return error.operator
    return culprit(pipeline, segment, "".join(traceback.format_exception(error)))


def _by_boundary(places: Iterable[Place]) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for boundary, at in sorted(places):
        found.setdefault(boundary, []).append(at)
    return {boundary: tuple(at) for boundary, at in found.items()}


def isolate(
    places: Sequence[Place],
    succeeds: Callable[[Sequence[Place]], bool],
    *,
    max_runs: int = MAX_RUNS,
) -> list[Place]:
    """The rows that fail on their own, in order; empty if they fail only together."""
    runs = 0
    found: list[Place] = []

    def search(part: Sequence[Place]) -> None:
        nonlocal runs
        runs += 1
        if runs > max_runs + RUNS_PER_ROW * len(found) or len(found) > MAX_ROWS:
            raise TooManyRunsError
        if not part or succeeds(part):
            return
        if len(part) == 1:
            found.append(part[0])
            return
        size = -(-len(part) // WAYS)
        for at in range(0, len(part), size):
            search(part[at : at + size])

    search(places)
    return found


def _inputs(
    context: UnitContext, spec: ReaderSpec, previous: RangeRecord | None, record: RangeRecord
) -> dict[str, Any]:
    """The batch's rows per boundary, in the order in which tasks read and count them."""
    taken = read_range(previous, record)
    tables = {}
    for item in spec.inputs:
        batches: list[Any] = []
        for shard, numbers in enumerate(taken[item.boundary]):
            folder = context.log.data(item.boundary, shard)
            for number in numbers:
                found = context.log.need_slice(item.boundary, shard, number)
                batches += read_slice(folder, found, range(*spec.groups))
        empty = item.arrow_schema().empty_table().drop_columns([TICK])
        tables[item.boundary] = pa.Table.from_batches(batches) if batches else empty
    return tables
