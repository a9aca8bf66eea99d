"""Row schemas as DDL text, readable without Spark.

Generated sources must know their Arrow schema in processes that have no session, so the flat part
of Spark's DDL is parsed here. Nested types are left to sources that Spark itself reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.errors import BadInputError

_ARROW_NAMES = {
    "string": "string",
    "boolean": "bool_",
    "tinyint": "int8",
    "byte": "int8",
    "smallint": "int16",
    "short": "int16",
    "int": "int32",
    "integer": "int32",
    "bigint": "int64",
    "long": "int64",
    "float": "float32",
    "real": "float32",
    "double": "float64",
    "date": "date32",
    "binary": "binary",
    "timestamp": "timestamp",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a flat schema."""

    name: str
    type: str
    """Spark's DDL name of the type, lower case."""


def parse_schema(ddl: str, *, where: str = "") -> tuple[Column, ...]:
    """The columns of flat DDL such as `"ts timestamp, word string"`."""
    columns = []
    for part in ddl.split(","):
        words = part.replace(":", " ").split()
        if len(words) != 2 or words[1].lower() not in _ARROW_NAMES:
            raise BadInputError(
                f"{part.strip()!r} is not a column of a flat schema",
                where=where,
                hint=f"write 'name type' with a type of {', '.join(sorted(_ARROW_NAMES))}",
            )
        columns.append(Column(name=words[0], type=words[1].lower()))
    names = [column.name for column in columns]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise BadInputError(f"column {doubled[0]!r} appears twice in {ddl!r}", where=where)
    return tuple(columns)


def arrow_schema(columns: tuple[Column, ...]) -> Any:
    """The pyarrow schema: timestamps are microseconds in UTC, as Spark exchanges them."""
    import pyarrow as pa  # noqa: PLC0415 - planning must not need pyarrow

    def arrow(column: Column) -> Any:
        name = _ARROW_NAMES[column.type]
        return pa.timestamp("us", tz="UTC") if name == "timestamp" else getattr(pa, name)()

    return pa.schema([pa.field(column.name, arrow(column)) for column in columns])
