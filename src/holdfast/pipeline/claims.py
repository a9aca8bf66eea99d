"""What a pipeline must deliver, said in the words of the checker (`holdfast.verify`)."""

from __future__ import annotations

from holdfast.pipeline.api import Expected, Pipeline
from holdfast.pipeline.operators import PipelineOperator
from holdfast.pipeline.sinks import Parquet, Sink, Sqlite
from holdfast.pipeline.sources import Generator, Rate
from holdfast.verify.claims import (
    Claims,
    MadeRows,
    ParquetFolder,
    Row,
    SinkClaim,
    SourceClaim,
    SqliteTable,
)


def claims(pipeline: Pipeline) -> Claims:
    """Everything a run of this pipeline is held to; no sink if none has an expected computation."""
    return Claims(
        pipeline=pipeline.name,
        epoch_s=pipeline.epoch_s,
        sources=tuple(
            SourceClaim(name=operator.name, made=_made(operator), parts=_parts(operator))
            for operator in pipeline.sources
        ),
        sinks=tuple(
            _sink(pipeline, pipeline.operator(name), expected)
            for name, expected in pipeline.expectations.items()
        ),
    )


def _made(operator: PipelineOperator) -> MadeRows | None:
    source = operator.source
    if not isinstance(source, Rate | Generator):
        return None

    def rows(epoch: int, *, epoch_s: float, shard: int, shards: int) -> list[Row]:
        table = source.table(epoch, epoch_s=epoch_s, shard=shard, shards=shards)
        found: list[Row] = table.to_pylist()
        return found

    return rows


def _parts(operator: PipelineOperator) -> int | None:
    return operator.max_shards if operator.max_shards != 1 else None


def _sink(pipeline: Pipeline, sink: PipelineOperator, expected: Expected) -> SinkClaim:
    upstream = {sink.name}
    for operator in reversed(pipeline.operators):
        if operator.name in upstream:
            upstream.update(operator.inputs)
    return SinkClaim(
        name=sink.name,
        place=_place(sink.sink),
        expected=expected.function,
        closes=expected.closes,
        key=pipeline.operator(sink.inputs[0]).upsert_key,
        reads=sink.inputs[0],
        upstream=frozenset(upstream),
    )


def _place(sink: Sink | None) -> ParquetFolder | SqliteTable | None:
    match sink:
        case Parquet(path=path):
            return ParquetFolder(path=path)
        case Sqlite(path=path, table=table):
            return SqliteTable(path=path, table=table)
    return None
