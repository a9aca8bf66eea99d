"""Run a pipeline on rows that a test gives, and get the rows of its sinks back.

    found = holdfast.testing.run(pipeline, {"lines": [("2026-01-01T00:00:01", "kelp and rock")]})
    assert found["counts"] == [{"word": "kelp", "count": 1}, {"word": "rock", "count": 1}]

Nothing waits for a clock: event time is what the rows say, and after the last row it passes
everything, so that every window closes. Two engines give the same rows. Where a result is the same
for a table as for a stream, the functions are called once with DataFrames of all rows, which takes
a second. What keeps custom state, quarantines rows or builds on upserts is run as a stream, by the
units that run it in production, in this process.

The session is started with the first test, or is the one there is.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeAlias

from holdfast.errors import BadInputError, BadInputsError, CheckFailedError
from holdfast.pipeline import Generator, Parquet, Pipeline, StaticTable, Table, deploy
from holdfast.pipeline.operators import PipelineOperator
from holdfast.pipeline.tables import WithTables

Engine: TypeAlias = Literal["auto", "batch", "stream"]
Rows: TypeAlias = Sequence[Any]
"""Tuples in column order, or mappings; or lists of these, one per epoch. A time is a datetime (UTC
if it has no zone), ISO text, or seconds since 1970."""
EPOCH_S = 0.2
_AFTERWARDS = timedelta(days=3650)
"""How far the watermark goes beyond the newest row in the end."""
_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Mapping[str, list[dict[str, Any]]]):
    """The rows of every sink by its name, in a fixed order; of upserts the newest versions."""

    sinks: Mapping[str, list[dict[str, Any]]]
    late: Mapping[str, list[dict[str, Any]]]
    """Rows of every source that came too late, by its name."""
    engine: str
    """What ran it: batch or stream."""

    def __getitem__(self, sink: str) -> list[dict[str, Any]]:
        return self.sinks[sink]

    def __iter__(self) -> Iterator[str]:
        return iter(self.sinks)

    def __len__(self) -> int:
        return len(self.sinks)


def run(
    pipeline: Pipeline,
    rows: Mapping[str, Rows],
    *,
    tables: Mapping[str, Sequence[Any]] | None = None,
    engine: Engine = "auto",
) -> Found:
    """What the sinks of a pipeline hold after these rows, by source; nothing is written anywhere.

    `tables` gives the rows of static tables instead of what they would be read from.
    """
    from holdfast.runtime.spark.frames.check import check_pipeline  # noqa: PLC0415 - loads slowly
    from holdfast.runtime.spark.start.session import start_session  # noqa: PLC0415 - the same

    _check_names(rows, [one.name for one in pipeline.sources], "source")
    pipeline = _with_tables(pipeline, tables or {})
    spark = start_session("holdfast-testing")
    report = check_pipeline(pipeline, spark)
    if report.problems:
        raise BadInputsError(report.problems)
    given = {
        one.name: _epochs(spark, report.schemas[one.name], rows.get(one.name, ()), one.name)
        for one in pipeline.sources
    }
    kept, late = _split(pipeline, given)
    if engine == "auto":
        engine = "batch" if _same_in_batch(pipeline) else "stream"
    found = (
        _run_batch(pipeline, spark, kept)
        if engine == "batch"
        else _run_stream(pipeline, spark, given)
    )
    return Found(
        sinks={name: _ordered(one) for name, one in found.items()}, late=late, engine=engine
    )


def _same_in_batch(pipeline: Pipeline) -> bool:
    """Whether functions of tables give what functions of streams give in the end."""
    return all(
        operator.kind != "stateful"
        and operator.on_error != "quarantine"
        and not (
            operator.kind != "sink"
            and any(pipeline.operator(name).mode == "upsert" for name in operator.inputs)
        )
        for operator in pipeline.operators
    )


def _check_names(given: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known) or 'none'}"
            raise BadInputError(f"there is no {what} {name!r}", where="rows", hint=hint)


# -- rows in --------------------------------------------------------------------------------------


def _epochs(spark: Any, schema: Any, rows: Rows, source: str) -> list[Any]:
    """The rows of every epoch as pyarrow tables."""
    if isinstance(rows, str | Mapping) or not isinstance(rows, Iterable):
        raise _no_row(rows, source)
    rows = list(rows)
    epochs = rows if rows and all(isinstance(row, list) for row in rows) else [rows]
    return [_table(spark, schema, epoch, source) for epoch in epochs]


def _table(spark: Any, schema: Any, rows: Rows, source: str) -> Any:
    times = {field.name for field in schema if field.dataType.typeName() == "timestamp"}
    complete = []
    for row in rows:
        values = _values(row, schema.names, source)
        complete.append(
            tuple(
                _moment(value, source) if name in times else value
                for name, value in zip(schema.names, values, strict=True)
            )
        )
    return spark.createDataFrame(complete, schema).toArrow()


def _values(row: Any, names: Sequence[str], source: str) -> list[Any]:
    """What a row has for each column."""
    if isinstance(row, Mapping):
        _check_names(row, names, f"column of {source}")
        return [row.get(name) for name in names]
    if isinstance(row, str) or not isinstance(row, Iterable):
        raise _no_row(row, source)
    values = list(row)
    if len(values) != len(names):
        raise BadInputError(
            f"a row has {len(values)} values for the columns {', '.join(names)}", where=source
        )
    return values


def _no_row(given: Any, source: str) -> BadInputError:
    return BadInputError(
        f"{given!r} is no row",
        where=source,
        hint="a list of rows, each a tuple or a dict; or a list of such lists, one an epoch",
    )


def _moment(value: Any, source: str) -> datetime | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.fromtimestamp(value, UTC)
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise BadInputError(
                f"{value!r} is no time", where=source, hint="such as 2026-01-01T00:00:05"
            ) from None
    if value is not None and not isinstance(value, datetime):
        raise BadInputError(f"{value!r} is no time", where=source, hint="give a datetime")
    if value is None or value.tzinfo is not None:
        return value
    return value.replace(tzinfo=UTC)


def _split(
    pipeline: Pipeline, given: Mapping[str, list[Any]]
) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """Rows in time and late rows per source, by the rule that its unit goes by."""
    import pyarrow as pa  # noqa: PLC0415 - planning must not need pyarrow

    from holdfast.runtime.units.sources import split_late  # noqa: PLC0415 - the same

    kept, late = {}, {}
    for name, epochs in given.items():
        watermark: int | None = None
        good, bad = [], []
        for rows in epochs:
            in_time, too_late, watermark = split_late(rows, pipeline.event_time, watermark)
            good.append(in_time)
            bad.append(too_late)
        kept[name] = pa.concat_tables(good)
        late[name] = pa.concat_tables(bad).to_pylist()
    return kept, late


def _with_tables(pipeline: Pipeline, tables: Mapping[str, Sequence[Any]]) -> Pipeline:
    """The pipeline with other rows in its static tables."""
    used = {
        table.name: table
        for operator in pipeline.operators
        if isinstance(operator.function, WithTables)
        for table in operator.function.tables
    }
    _check_names(tables, list(used), "table")

    def other(operator: PipelineOperator) -> PipelineOperator:
        if not isinstance(operator.function, WithTables):
            return operator
        mine = tuple(
            StaticTable(one.name, Table(tables[one.name], one.table.schema))
            if one.name in tables
            else one
            for one in operator.function.tables
        )
        return replace(operator, function=WithTables(operator.function.function, mine))

    return pipeline.replaced(other)


# -- as a table -----------------------------------------------------------------------------------


def _run_batch(
    pipeline: Pipeline, spark: Any, rows: Mapping[str, Any]
) -> dict[str, list[dict[str, Any]]]:
    from holdfast.runtime.spark.frames.compile import apply_operator  # noqa: PLC0415 - loads slowly

    frames: dict[str, Any] = {}
    found = {}
    for operator in pipeline.operators:
        match operator.kind:
            case "source":
                frames[operator.name] = spark.createDataFrame(rows[operator.name])
            case "sink":
                found[operator.name] = frames[operator.inputs[0]].toArrow().to_pylist()
            case _:
                inputs = [frames[name] for name in operator.inputs]
                frames[operator.name] = apply_operator(operator, inputs)
    return found


# -- as a stream ----------------------------------------------------------------------------------


class _Given(Generator):
    """The rows of a test as a source; one more time after the last, which nobody gets to see."""

    __slots__ = ("ends_at", "epochs")

    def __init__(
        self, epochs: list[Any], schema: str, ends_at: datetime, column: str | None
    ) -> None:
        super().__init__(function=_never, schema="value string")
        # Unlike a generator's it need not be flat: no row is made of it here.
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "epochs", epochs)
        object.__setattr__(self, "ends_at", (ends_at, column))

    def table(self, epoch: int, *, epoch_s: float, shard: int = 0, shards: int = 1) -> Any:  # noqa: ARG002
        """The rows of an epoch, or after the last of them the time that ends everything."""
        import pyarrow as pa  # noqa: PLC0415 - planning must not need pyarrow

        epochs: list[Any] = self.epochs  # type: ignore[attr-defined] # set above
        if epoch < len(epochs):
            return self.share(epochs[epoch], shard, shards)
        ends_at, column = self.ends_at  # type: ignore[attr-defined] # set above
        schema = epochs[0].schema
        if epoch > len(epochs) or column is None:
            return schema.empty_table()
        row = {name: ends_at if name == column else None for name in schema.names}
        nullable = pa.schema([field.with_nullable(nullable=True) for field in schema])
        return pa.Table.from_pylist([row], schema=nullable)

    def share(self, whole: Any, shard: int, shards: int, count: int = 1) -> Any:
        """What a shard makes: of the end nothing, its time alone counts."""
        ends_at, column = self.ends_at  # type: ignore[attr-defined] # set above
        if column is not None and whole.num_rows == 1 and whole[column][0].as_py() == ends_at:
            return whole.slice(0, 0)
        return super().share(whole, shard, shards, count)


def _never(_epoch: int, _seed: int) -> list[Any]:
    return []


def _run_stream(
    pipeline: Pipeline, spark: Any, given: Mapping[str, list[Any]]
) -> dict[str, list[dict[str, Any]]]:
    column = pipeline.event_time.column if pipeline.event_time else None
    newest = [
        value
        for epochs in given.values()
        for rows in epochs
        for value in (rows[column].to_pylist() if column else ())
        if value is not None
    ]
    ends_at = max(newest, default=datetime.now(UTC)) + _AFTERWARDS

    def other(operator: PipelineOperator) -> PipelineOperator:
        if operator.source is not None:
            source = _Given(given[operator.name], operator.source.schema, ends_at, column)
            return replace(operator, source=source, shards=1)
        if operator.sink is not None:
            return replace(operator, sink=Parquet(f"sinks/{operator.name}"))
        return operator

    scripted = pipeline.replaced(other, epoch_s=EPOCH_S)
    last = max(len(epochs) for epochs in given.values())
    with tempfile.TemporaryDirectory(prefix="holdfast-testing-") as name:
        run_dir = Path(name)
        _deliver(scripted, spark, run_dir, last=last, beyond=ends_at if column else None)
        return {sink.name: _delivered(scripted, sink, run_dir) for sink in scripted.sinks}


def _deliver(
    pipeline: Pipeline, spark: Any, run_dir: Path, *, last: int, beyond: datetime | None
) -> None:
    """Run all units until every sink has what it will ever get."""
    from holdfast.runtime.spark.host import SparkUnitHost  # noqa: PLC0415 - loads slowly

    deployment = deploy(pipeline)
    host = SparkUnitHost(deployment, pipeline, run_dir, keep_input=True, spark=spark)
    end = time.monotonic() + _LIMIT_S
    try:
        for unit in deployment.units():
            host.start(unit, 0, None)
        while time.monotonic() < end:
            reports = host.poll()
            failed = [one for one in reports if one.state == "failed"]
            if failed:
                raise CheckFailedError(f"{failed[0].operator}: {failed[0].error}")
            reached = {one.unit.segment: one.epoch for one in reports}
            if all(
                _complete(run_dir, sink, reached.get(sink.name, -1), last=last, beyond=beyond)
                for sink in pipeline.sinks
            ):
                return
            time.sleep(0.02)
    finally:
        host.close()
    raise CheckFailedError(f"the pipeline was not done after {_LIMIT_S:.0f} s")


def _complete(
    run_dir: Path,
    sink: PipelineOperator,
    reached: int | None,
    *,
    last: int,
    beyond: datetime | None,
) -> bool:
    """Whether a sink has delivered the last epoch, and all that closes by time."""
    from holdfast.verify.slice_log import delivered  # noqa: PLC0415 - needs pyarrow

    if reached is None or reached < last:
        return False
    if beyond is None:
        return True
    # A join lets its watermark lag behind by as long as it waits: half the way is far enough.
    far = round((beyond - _AFTERWARDS / 2).timestamp() * 1e6)
    found = delivered(run_dir, sink.name, sink.inputs[0])
    mark = found.watermark_us
    return mark is not None and mark >= far and reached >= found.upto


def _delivered(pipeline: Pipeline, sink: PipelineOperator, run_dir: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - planning must not need pyarrow

    files = sorted((run_dir / "sinks" / sink.name).glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    key = pipeline.operator(sink.inputs[0]).upsert_key
    if not key:
        return rows
    return list({tuple(row[name] for name in key): row for row in rows}.values())


def _ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By their values from the first column on; what cannot be compared by how it is written."""
    return sorted(
        rows,
        key=lambda row: [
            (value is not None, str(type(value)), _sortable(value)) for value in row.values()
        ],
    )


def _sortable(value: Any) -> Any:
    return value if isinstance(value, int | float | str | datetime) else repr(value)
