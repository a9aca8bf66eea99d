"""What the paths of a split must have in common, as Spark sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StringType, StructField, StructType

from holdfast.errors import BadInputError
from holdfast.pipeline import PipelineOperator
from holdfast.pipeline.fingerprint import fingerprint
from holdfast.pipeline.paths import Path, Paths, paths_of
from holdfast.runtime.spark.frames.plans import closes_by_windows


def each_path(operator: PipelineOperator, split: Paths) -> list[PipelineOperator]:
    """A split as each of its paths alone, in their order: one may keep state and another none."""
    return [
        replace(operator, function=split.taking(path.name), kind=path.kind) for path in split.paths
    ]


def hot_schema(
    operator: PipelineOperator, schema: StructType, schemas: Mapping[str, StructType]
) -> StructType:
    """The columns of a split whose paths run along: theirs, and which path made a row.

    Of any other union, its own.
    """
    split = paths_of(operator)
    if split is None:
        return schema
    if len({closes_by_windows(schemas[name]) for name in operator.inputs}) > 1:
        # What one gives out a batch later, the other has ruled out by its watermark.
        raise BadInputError(
            "some of its hot paths close by windows alone and some do not",
            where=operator.name,
            hint='use windows in all of them, or standby="cold"',
        )
    if split.column is None:
        return schema
    made = StructType([*schema, StructField(split.column, StringType(), nullable=False)])
    own_column(operator, split, made)
    return made


def own_column(operator: PipelineOperator, split: Paths, schema: StructType) -> None:
    """The column that names the path is none that rows have already; Spark ignores case."""
    column = split.column
    if column is not None and [name.lower() for name in schema.names].count(column.lower()) > 1:
        raise BadInputError(
            f"its rows have a column {column!r} already",
            where=operator.name,
            hint="have the path named in another one",
        )


def same_columns(
    first: PipelineOperator, other: PipelineOperator, made: DataFrame, by_first: DataFrame
) -> None:
    """All paths of a split give the same columns: what reads it must not notice."""
    mine, theirs = by_first.schema.simpleString(), made.schema.simpleString()
    if mine != theirs:
        raise BadInputError(
            f"its path {_taken(other)!r} gives {theirs}, {_taken(first)!r} gives {mine}",
            where=first.name,
            hint="all paths must have the same columns, in the same order",
        )


def same_state(
    operator: PipelineOperator, split: Paths, call: Callable[[PipelineOperator], DataFrame]
) -> None:
    """Paths that share state keep it by the same function of the same columns.

    Then Spark lays it out alike, whichever of them goes on with it.
    """
    first, *others = split.paths
    for path in others:
        where = f"its path {path.name!r} cannot go on with the state of {first.name!r}"
        if _keeps(path) != _keeps(first):
            raise BadInputError(
                f"{where}: they keep it by different functions or options",
                where=operator.name,
                hint='use one stateful operator in all paths, or state="fresh"',
            )
        mine, theirs = (_read(operator, one, call) for one in (first, path))
        if mine != theirs:
            told = [", ".join(f"{name} {kind}" for name, kind, _ in one) for one in (theirs, mine)]
            raise BadInputError(
                f"{where}: it is made of {told[0]}, that of {told[1]}",
                where=operator.name,
                hint="give it the same columns, which may be null alike, in all paths",
            )


def _keeps(path: Path) -> str:
    """What a path's operator with state does, whatever it is called."""
    if path.keeper is None:
        raise AssertionError("paths that share state keep one")
    return fingerprint(replace(path.keeper, name="", inputs=()))


def _read(
    operator: PipelineOperator, path: Path, call: Callable[[PipelineOperator], DataFrame]
) -> list[tuple[str, str, DataType]]:
    """The columns that come to a path's operator with state: name, type in words, type."""
    schema = call(replace(operator, function=path.up_to_state())).schema
    return [(field.name, _kind(field), field.dataType) for field in schema]


def _kind(field: StructField) -> str:
    """A column's type in words; where it is never null, that is said."""
    return field.dataType.simpleString() + ("" if field.nullable else " not null")


def _taken(operator: PipelineOperator) -> str:
    split = paths_of(operator)
    return split.taken if split is not None else ""
