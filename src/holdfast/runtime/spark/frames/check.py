"""Try every operator on an empty stream before anything starts.

Spark finds most mistakes when it analyses a plan, which needs no data and no query. So each
operator's function is called once with empty streaming DataFrames of its inputs' schemas, and the
plan it returns is examined: does it resolve, does it keep the state its kind says, can it run as a
stream in its output mode, is it sharded by what it groups by, is it deterministic. What cannot be
seen here is what Python code inside a UDF does; the digests of slices catch that while running.

The schemas found on the way are what the boundaries of every deployment carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from pyspark.errors import AnalysisException, PySparkAttributeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import MapType, StructType, TimestampType

from holdfast.errors import BadInputError
from holdfast.pipeline import Pipeline, PipelineOperator, Sqlite
from holdfast.pipeline.paths import paths_of
from holdfast.pipeline.tables import WithTables
from holdfast.runtime.spark.frames.mistakes import (
    analysis_mistake,
    need_columns,
    one_line,
    place_of,
    quiet,
    unknown_column,
)
from holdfast.runtime.spark.frames.plans import WATERMARK, Plan, examine, join_lag_us, mark_windows
from holdfast.runtime.spark.frames.splits import (
    each_path,
    hot_schema,
    own_column,
    same_columns,
    same_state,
)

_FLAT = {"string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double"}
_FLAT |= {"timestamp", "timestamp_ntz", "date", "binary"}
_STREAMS_ONLY = {"applyInPandasWithState", "dropDuplicatesWithinWatermark"}
"""What Spark does not run on rows that are given to it at once, as a search for bad ones does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What a pipeline looks like to Spark."""

    schemas: Mapping[str, StructType]
    """Output schema per operator that could be analysed, sinks left out."""
    problems: tuple[BadInputError, ...] = ()
    """At most one per operator, upstream first; what depends on a broken one is not tried."""
    warnings: tuple[str, ...] = ()
    """Things that are allowed but may surprise."""

    def require(self) -> Mapping[str, StructType]:
        """The schemas, or the first problem raised."""
        if self.problems:
            raise self.problems[0]
        return self.schemas


def check_pipeline(pipeline: Pipeline, spark: SparkSession) -> CheckReport:
    """Analyse every operator in turn; the pipeline's own rules are checked first.

    What breaks one of these is left out, as what depends on it is.
    """
    pipeline.validate()
    schemas: dict[str, StructType] = {}
    problems: list[BadInputError] = []
    warnings: list[str] = []
    for operator in pipeline.operators:
        if operator.name in pipeline.broken or not all(n in schemas for n in operator.inputs):
            continue
        try:
            with quiet():
                schema = _check(pipeline, operator, schemas, spark, warnings)
        except BadInputError as problem:
            problems.append(problem)
        else:
            if operator.kind != "sink":
                schemas[operator.name] = schema
    return CheckReport(schemas=schemas, problems=tuple(problems), warnings=tuple(warnings))


def empty_stream(spark: SparkSession, schema: StructType, event_time: str | None) -> DataFrame:
    """A streaming DataFrame without rows, with the watermark the run time would put on it."""
    frame = spark.readStream.format("rate").load()
    columns = [sf.lit(None).cast(field.dataType).alias(field.name) for field in schema]
    frame = frame.select(*columns)
    return frame.withWatermark(event_time, "0 seconds") if event_time else frame


def _check(
    pipeline: Pipeline,
    operator: PipelineOperator,
    schemas: Mapping[str, StructType],
    spark: SparkSession,
    warnings: list[str],
) -> StructType:
    match operator.kind:
        case "source":
            return _source_schema(pipeline, operator)
        case "union":
            return hot_schema(operator, _union_schema(operator, schemas), schemas)
        case "sink":
            return _sink_schema(operator, schemas)
    for index, name in enumerate(operator.inputs):
        need_columns(operator, operator.key_of_input(index), schemas[name], f"output of {name!r}")
    _check_key_types(operator, schemas)
    frames = [
        empty_stream(spark, schemas[name], _event_time(pipeline, schemas[name]))
        for name in operator.inputs
    ]
    split, plans = paths_of(operator), []
    if split is not None:
        operator, *others = each_path(operator, split)
        for other in others:
            made = _call(other, frames)
            same_columns(operator, other, made, _call(operator, frames))
            plans.append(examine(made, frames, ()))
            _check_plan(other, plans[-1], spark)
            _check_times(pipeline, other, made)
        if split.shared_state:
            same_state(operator, split, lambda before: _call(before, frames))
    result = _call(operator, frames)
    if split is not None:
        own_column(operator, split, result.schema)
    function = operator.function
    plan = examine(result, frames, function.given if isinstance(function, WithTables) else ())
    _check_plan(operator, plan, spark)
    warnings.extend(f"{operator.name}: {text}" for text in plan.warnings)
    need_columns(operator, operator.upsert_key, result.schema, "own output")
    _check_times(pipeline, operator, result)
    steps = [step for one in (plan, *plans) for step in one.stateful]
    windows = bool(steps) and all(step.windows for step in steps)
    return mark_windows(result.schema) if windows else result.schema


def _event_time(pipeline: Pipeline, schema: StructType) -> str | None:
    """The column a stream's watermark is on: the pipeline's, as long as an operator keeps it."""
    if pipeline.event_time is None or pipeline.event_time.column not in schema.names:
        return None
    column = pipeline.event_time.column
    return column if isinstance(schema[column].dataType, TimestampType) else None


def _check_times(pipeline: Pipeline, operator: PipelineOperator, result: DataFrame) -> None:
    if operator.kind == "map":
        _check_event_time(pipeline, operator, result)
    if operator.kind == "aggregate":
        _check_window_time(pipeline, operator, result)
    if operator.kind == "join":
        _check_join_time(pipeline, operator, result)


def _check_event_time(pipeline: Pipeline, operator: PipelineOperator, result: DataFrame) -> None:
    """A map keeps the event-time column as it is, or leaves it out.

    A changed one would carry no watermark within a segment and one across a boundary, so that the
    result would depend on the plan; and rows made older would be late behind it.
    """
    column = _event_time(pipeline, result.schema)
    if column and WATERMARK not in result.schema[column].metadata:
        raise BadInputError(
            f"its column {column!r} is no longer the event time of its input",
            where=operator.name,
            hint="keep it as it comes in and give the changed one another name",
        )


def _check_window_time(pipeline: Pipeline, operator: PipelineOperator, result: DataFrame) -> None:
    """What an aggregate gives out is as old as the watermark if it is the time of a window's end.

    A window's start, or the oldest time in it, would be late to whatever goes by time behind it.
    """
    column = _event_time(pipeline, result.schema)
    if column is None or WATERMARK in result.schema[column].metadata:
        return
    behind = {operator.name}
    for later in pipeline.operators:
        if behind.isdisjoint(later.inputs):
            continue
        behind.add(later.name)
        if later.keeps_state:
            raise BadInputError(
                f"its column {column!r} may be behind the watermark, late to {later.name!r}",
                where=operator.name,
                hint=f"give out window_time(window) as {column!r}, and this under another name",
            )


def _check_join_time(pipeline: Pipeline, operator: PipelineOperator, result: DataFrame) -> None:
    """A join that keeps rows for ever gives out times of any age, behind which no window closes."""
    column = _event_time(pipeline, result.schema)
    if column is None or join_lag_us(result, column) is not None:
        return
    behind = {operator.name}
    for later in pipeline.operators:
        if behind.isdisjoint(later.inputs):
            continue
        behind.add(later.name)
        if later.kind == "aggregate" and later.mode == "append":
            raise BadInputError(
                f"it keeps rows for ever, so no window of {later.name!r} would ever close",
                where=operator.name,
                hint=f"bound the time between both sides, or give out no {column!r}",
            )


def _source_schema(pipeline: Pipeline, operator: PipelineOperator) -> StructType:
    source = operator.source
    if source is None:
        raise AssertionError("a source operator has a source")
    try:
        schema = cast("StructType", StructType.fromDDL(source.schema))
    except Exception as error:  # Spark's parser raises several kinds
        raise BadInputError(
            f"its schema {source.schema!r} cannot be read: {one_line(error)}", where=operator.name
        ) from error
    if pipeline.event_time is not None:
        column = pipeline.event_time.column
        need_columns(operator, (column,), schema, "schema", what="event-time column")
        if not isinstance(schema[column].dataType, TimestampType):
            raise BadInputError(
                f"its event-time column {column!r} is {schema[column].dataType.simpleString()}",
                where=operator.name,
                hint="make it a timestamp",
            )
    return schema


def _union_schema(operator: PipelineOperator, schemas: Mapping[str, StructType]) -> StructType:
    first, *others = operator.inputs
    wanted = _types(schemas[first])
    for name in others:
        found = _types(schemas[name])
        if found != wanted:
            differ = sorted(set(found.items()) ^ set(wanted.items()))
            raise BadInputError(
                f"{first!r} and {name!r} differ in {', '.join(sorted({c for c, _ in differ}))}",
                where=operator.name,
                hint="give both the same columns and types with a map",
            )
    return schemas[first]


def _sink_schema(operator: PipelineOperator, schemas: Mapping[str, StructType]) -> StructType:
    schema = schemas[operator.inputs[0]]
    if isinstance(operator.sink, Sqlite):
        for column, kind in _types(schema).items():
            if kind not in _FLAT and not kind.startswith("decimal"):
                raise BadInputError(
                    f"Sqlite cannot hold the {kind.partition('<')[0]} column {column!r}",
                    where=operator.name,
                    hint="select its parts as columns of their own",
                )
    return schema


def _check_key_types(operator: PipelineOperator, schemas: Mapping[str, StructType]) -> None:
    kinds = []
    for index, name in enumerate(operator.inputs):
        types = [schemas[name][column].dataType for column in operator.key_of_input(index)]
        if any(isinstance(kind, MapType) for kind in types):
            raise BadInputError("a map column cannot be a key", where=operator.name)
        kinds.append([kind.simpleString() for kind in types])
    if len(kinds) == 2 and kinds[0] != kinds[1]:
        # Equal numbers of different types hash differently, so matching rows would be apart.
        raise BadInputError(
            f"its inputs' keys are {', '.join(kinds[0])} and {', '.join(kinds[1])}",
            where=operator.name,
            hint="cast one of them in a map before the join",
        )


def _call(operator: PipelineOperator, frames: list[DataFrame]) -> DataFrame:
    """The function's DataFrame, its mistakes turned into one line."""
    columns = sorted({name for frame in frames for name in frame.columns})
    if operator.function is None:
        raise AssertionError("only operators with a function are called")
    try:
        result = operator.function(*frames)
    except BadInputError:
        raise
    except AnalysisException as error:
        raise analysis_mistake(operator, error, columns) from error
    except PySparkAttributeError as error:
        name = str((error.getMessageParameters() or {}).get("attr_name", ""))
        raise unknown_column(operator, name, columns) from error
    except Exception as error:
        raise BadInputError(
            f"its function failed on an empty stream: {type(error).__name__}: "
            f"{one_line(error)}{place_of(error)}",
            where=operator.name,
        ) from error
    if not isinstance(result, DataFrame):
        raise BadInputError(
            f"its function returned {type(result).__name__}, not a DataFrame",
            where=operator.name,
            hint="return the DataFrame it makes" if result is None else "",
        )
    return result


def _check_plan(operator: PipelineOperator, plan: Plan, spark: SparkSession) -> None:
    name = operator.name
    if not plan.streaming:
        raise BadInputError("its output does not come from its input", where=name)
    if plan.watermarks > 0:
        raise BadInputError(
            "calls withWatermark", where=name, hint="event time is set once, on the Pipeline"
        )
    _check_state(operator, plan)
    if operator.deterministic and plan.outside:
        raise BadInputError(
            "reads files or tables that may have changed when a batch is redone",
            where=name,
            hint="declare them with pipeline.table(...) and join with that, or say "
            "deterministic=False, which logs its output",
        )
    if operator.deterministic and plan.nondeterministic:
        found = plan.nondeterministic[0]
        hint = _determinism_hint(operator, found)
        raise BadInputError(f"{found} is not deterministic", where=name, hint=hint)
    mode = "Append" if operator.mode == "append" else "Update"
    try:
        plan.check_streaming(spark, mode)
    except AnalysisException as error:
        what = one_line(error)
        raise BadInputError(
            f"cannot run as a stream with output={operator.mode!r}: {what}",
            where=name,
            hint=mode_hint(operator.mode, what),
        ) from error


def mode_hint(mode: str, said: str) -> str:
    """What to write where Spark refuses an output mode."""
    if mode == "append" and "without watermark" in said:
        # A group that no watermark closes is never over, so its row would never be given out.
        return 'group by a window of the event time too, or say output="update"'
    return ""


def _determinism_hint(operator: PipelineOperator, found: str) -> str:
    """What to write instead; only an operator without state may say that it is not deterministic.

    What it published counts, and there is nothing else that a redo could change.
    """
    match found:
        case "collect_list" | "collect_set":
            return "wrap it in sort_array"
        case "first" | "last" | "any_value":
            return "take min_by or max_by a column that orders the rows"
        case "mode" | "listagg":
            return "compute it from sort_array(collect_list(...))"
        case "a processing-time timer":
            return "use event time"
    if operator.keeps_state:
        return "put it into a map before this one, with deterministic=False"
    return "declare deterministic=False, which logs its output"


def _check_state(operator: PipelineOperator, plan: Plan) -> None:
    name = operator.name
    if not operator.keeps_state:
        if plan.stateful:
            raise BadInputError(
                f"keeps state ({plan.stateful[0].what})",
                where=name,
                hint="use aggregate, stateful or join instead of map",
            )
        return
    if len(plan.stateful) != 1:
        found = ", ".join(state.what for state in plan.stateful) or "none"
        raise BadInputError(
            f"a {operator.kind} does one stateful step, this has {found}",
            where=name,
            hint="make each step an operator" if plan.stateful else "use map",
        )
    state = plan.stateful[0]
    if state.one_epoch and not operator.one_epoch_per_batch:
        raise BadInputError(
            f"the result of {state.what} depends on the batching",
            where=name,
            hint="declare one_epoch_per_batch=True"
            if state.what != "dropDuplicates"
            else "drop the columns it does not compare, or declare one_epoch_per_batch=True",
        )
    if state.what in _STREAMS_ONLY and operator.on_error == "quarantine":
        raise BadInputError(
            f"{state.what} runs on streams only, so the rows it fails on could not be found",
            where=name,
            hint='put what may fail into a map before it, with on_error="quarantine"',
        )
    loose = [
        column
        for index in range(len(operator.inputs))
        for column in operator.key_of_input(index)
        if (index, column) not in state.grouped_by
    ]
    if loose:
        verb = "join on" if operator.kind == "join" else "group by"
        raise BadInputError(
            f"it is keyed by {loose[0]!r} but does not {verb} that column as it comes in",
            where=name,
            hint="group by it, change it in a map before, or leave out the key",
        )


def _types(schema: StructType) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema}
