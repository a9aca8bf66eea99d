"""A segment's operators as one DataFrame over the slice log."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any, TypeAlias

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.types import StructType, TimestampType

from holdfast.deployment import Deployment, Segment
from holdfast.errors import BadInputError, HoldfastError
from holdfast.pipeline import Pipeline, PipelineOperator
from holdfast.pipeline.paths import Path, paths_of
from holdfast.runtime.spark.frames.plans import WATERMARK, closes_by_windows, join_lag_us
from holdfast.runtime.spark.io.publish import hashable
from holdfast.runtime.spark.io.reader import MARK, TICK, InputSpec, ReaderSpec, task

_ROW = "_hf_row"
"""Column with a hash of all others."""


class OperatorError(HoldfastError):
    """A user's function failed; the cause says how."""

    def __init__(self, operator: str, message: str) -> None:
        self.operator = operator
        super().__init__(f"operator {operator!r}: {message}")


def input_specs(
    pipeline: Pipeline,
    deployment: Deployment,
    segment: Segment,
    schemas: Mapping[str, StructType],
) -> tuple[InputSpec, ...]:
    """How a segment reads each of its boundaries."""
    specs = []
    keeping = [name for name in segment.operators if pipeline.operator(name).keeps_state]
    windows = all(closes_by_windows(schemas[name]) for name in keeping)
    delay_s = pipeline.event_time.delay_s if pipeline.event_time else 0.0
    for name in segment.inputs:
        schema = schemas[deployment.boundary(name).operator]
        specs.append(
            InputSpec(
                boundary=name,
                stream=deployment.producer(name).name,
                schema=schema.json(),
                event_column=event_column(pipeline, schema),
                ticks=segment.stateful,
                windows=windows,
                delay_us=round(delay_s * 1e6),
            )
        )
    return tuple(specs)


def event_column(pipeline: Pipeline, schema: StructType) -> str | None:
    """The column that carries the watermark: the pipeline's, where operators have kept it."""
    if pipeline.event_time is None or pipeline.event_time.column not in schema.names:
        return None
    column = pipeline.event_time.column
    return column if isinstance(schema[column].dataType, TimestampType) else None


def output_lag_us(pipeline: Pipeline, result: DataFrame) -> int | None:
    """How much older than its watermark a segment's rows may be; None: of any age."""
    column = event_column(pipeline, result.schema)
    return join_lag_us(result, column) if column else 0


Rows: TypeAlias = Callable[[SparkSession, int], DataFrame]
"""Makes the streaming frame of an input, by its place; with a column `MARK` if it has ticks."""


def read_frames(
    spark: SparkSession, spec: ReaderSpec, rows: Rows | None = None
) -> dict[str, DataFrame]:
    """One streaming DataFrame per input, with watermarks and without ticks.

    `rows` are read through Python unless told otherwise.
    """
    rows = rows or python_rows(spec)
    frames = {}
    for index, item in enumerate(spec.inputs):
        frame = rows(spark, index)
        frames[item.boundary] = _marked(_watched(frame) if item.ticking else frame, item)
    return frames


def python_rows(spec: ReaderSpec) -> Rows:
    """Inputs that are read by Python in Spark's workers."""

    def rows(spark: SparkSession, index: int) -> DataFrame:
        item = spec.inputs[index]
        clock = (
            spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", spec.partitions)
            .option("numPartitions", spec.partitions)
            .load()
            .select("value")
        )
        frame = clock.mapInArrow(task(spec, index), item.struct())
        if item.ticking:
            mark = F.when(F.col(TICK), F.col(f"`{item.ticking}`"))
            frame = frame.withColumn(MARK, mark)
        return frame.drop(TICK)

    return rows


def _watched(frame: DataFrame) -> DataFrame:
    """The rows behind a watermark that only ticks move.

    Spark takes a watermark from the newest row, which may be ahead of the recorded one: rows of
    several sources or shards meet behind a boundary, and a window's row is as old as its window. So
    it is given a column to watch that only ticks have.
    """
    watched = frame.withWatermark(MARK, "0 seconds")
    # Spark pushes filters below a watermark, an operator's own too, and ticks would not pass them.
    # It leaves alone what is on the watched column, and moves nothing past what is not determined.
    return watched.where(F.col(MARK).isNull() & (F.spark_partition_id() >= 0)).drop(MARK)


def _marked(frame: DataFrame, item: InputSpec) -> DataFrame:
    """The rows, their event time marked as what the watermark is about.

    With the pipeline's delay, which is how long deduplication within a watermark remembers.
    """
    mark = {WATERMARK: item.delay_us // 1000}
    return frame.select(
        *[
            F.col(f"`{name}`").alias(name, metadata=mark)
            if name == item.event_column
            else F.col(f"`{name}`")
            for name in frame.columns
        ]
    )


def build(
    pipeline: Pipeline,
    deployment: Deployment,
    segment: Segment,
    frames: Mapping[str, DataFrame],
    *,
    stop_after: str | None = None,
    partitions: int = 1,
    one_task: bool = False,
) -> DataFrame:
    """Call the segment's functions in order; `frames` holds its boundaries by name.

    State is kept in `partitions` of the unit, placed by the operator's key. `one_task` says that
    all rows come in one: with one partition of state they need not be moved then, and Spark is told
    so, which does not see it by itself. It would run two stages, with a shuffle between them.
    """
    results: dict[str, DataFrame] = {}
    for name in segment.operators:
        operator = pipeline.operator(name)
        inputs = [
            results[source]
            if source in results
            else frames[boundary_of(deployment, segment, operator, index)]
            for index, source in enumerate(operator.inputs)
        ]
        if partitions > 1 and operator.keeps_state:
            inputs = [
                frame.repartition(partitions, *_columns(operator.key_of_input(index)))
                for index, frame in enumerate(inputs)
            ]
        elif one_task and operator.keeps_state:
            inputs = [frame.coalesce(1) for frame in inputs]
        results[name] = apply_operator(operator, inputs)
        if name == stop_after:
            break
        if operator.on_error == "quarantine" and name != segment.operators[-1]:
            results[name] = computed(results[name])
    return results[stop_after or segment.operators[-1]]


def _columns(names: Iterable[str]) -> list[Column]:
    return [F.col(f"`{name}`") for name in names]


def computed(frame: DataFrame) -> DataFrame:
    """The same rows, each of them computed in all its columns before anything behind it is.

    Spark leaves out columns that nobody reads, and runs filters before the functions below them.
    Then a function would fail on a row or not depending on what it is fused with. So a hash of all
    columns is made, which is not determined, so that no filter moves past it; and read, so that it
    is not left out, by a filter that every row passes.
    """
    row = F.xxhash64(*[hashable(frame, name) for name in frame.columns], F.spark_partition_id())
    smallest = F.lit(-(1 << 63))
    return frame.withColumn(_ROW, row).where(F.col(_ROW) >= smallest).drop(_ROW)


def apply_operator(operator: PipelineOperator, inputs: list[DataFrame]) -> DataFrame:
    """The operator's DataFrame; what its function raises is told with its name."""
    split = paths_of(operator)
    if operator.kind == "union" and split is not None:  # of hot paths: the first, unless told
        inputs = inputs[:1]
    elif operator.kind == "union":
        return reduce(DataFrame.unionByName, inputs)
    if operator.function is None:
        raise BadInputError(f"a {operator.kind} has no function to run", where=operator.name)
    try:
        result = operator.function(*inputs)
    except Exception as error:
        raise OperatorError(operator.name, f"{type(error).__name__}: {error}") from error
    if not isinstance(result, DataFrame):
        raise OperatorError(operator.name, f"returned {type(result).__name__}, not a DataFrame")
    return result


def boundary_of(
    deployment: Deployment, segment: Segment, operator: PipelineOperator, index: int
) -> str:
    """Which of the segment's boundaries an operator's input comes through."""
    source = operator.inputs[index]
    found = [name for name in segment.inputs if deployment.boundary(name).operator == source]
    if not found:
        raise BadInputError(
            f"its input {source!r} is not among the inputs of segment {segment.name!r}",
            where=operator.name,
        )
    key = operator.key_of_input(index)
    return next((name for name in found if deployment.boundary(name).key == key), found[0])


def ship_by_value(pipeline: Pipeline) -> None:
    """Let workers run functions whose module they cannot import: it travels with them."""
    for operator in pipeline.operators:
        for function in _functions(operator):
            module = inspect.getmodule(function)
            if module is None or module.__name__ == "__main__":
                continue
            top = module.__name__.partition(".")[0]
            path = getattr(module, "__file__", None) or ""
            if top in ("holdfast", "pyspark") or "site-packages" in path:
                continue
            if module.__name__ in sys.modules:
                cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def culprit(pipeline: Pipeline, segment: Segment, traceback: str) -> str | None:
    """The operator whose code a Python traceback goes through, if that can be told."""
    own = [pipeline.operator(name) for name in segment.operators]
    written = [operator for operator in own if operator.function is not None]
    for operator in written:
        for code in _codes(operator):
            where = f'File "{code.co_filename}", line '
            for line in traceback.splitlines():
                if where in line and line.rstrip().endswith(f"in {code.co_name}"):
                    return operator.name
    return written[0].name if len(written) == 1 else None


def _codes(operator: PipelineOperator) -> list[Any]:
    """Code objects of an operator's function, what it defines inside, and the UDFs it names."""
    pending = [item for item in _functions(operator) if hasattr(item, "__code__")]
    found = []
    for function in list(pending):
        names = {*function.__code__.co_names, *function.__code__.co_freevars}
        scope = {**function.__globals__, **_closure(function)}
        for name in names:
            value = scope.get(name)
            value = getattr(value, "func", value)
            if inspect.isfunction(value):
                pending.append(value)
    for function in pending:
        codes = [function.__code__]
        while codes:
            code = codes.pop()
            found.append(code)
            codes += [item for item in code.co_consts if inspect.iscode(item)]
    return found


def _closure(function: Any) -> dict[str, Any]:
    try:
        return dict(inspect.getclosurevars(function).nonlocals)
    except ValueError:
        return {}


def _functions(operator: PipelineOperator) -> list[Callable[..., Any]]:
    candidates = [operator.function, getattr(operator.source, "function", None)]
    candidates.append(getattr(operator.sink, "function", None))
    split = paths_of(operator)
    paths = split.paths if split is not None else ()
    for path in (operator.function,) if isinstance(operator.function, Path) else paths:
        candidates += [member.function for member in path.operators]
    return [item for item in candidates if item is not None]
