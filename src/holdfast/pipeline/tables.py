"""Static tables: rows that do not change while a pipeline runs.

A batch that is redone must see what it saw the first time, so a table is read once, when a run
begins, and kept in the run directory; every node and every resumed run joins with that copy. What
happens to the original meanwhile is not noticed. `--reset OPERATOR` reads it anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.errors import BadInputError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows that a stream can be joined with, read once when a run begins."""

    content: str | Callable[[Any], Any] | Sequence[Any]
    """A path (relative to the application's file), a function of the Spark session that gives a
    DataFrame, or the rows themselves as tuples."""
    schema: str
    """DDL of the rows."""
    format: str = "csv"
    """Of a path: csv, json, parquet or what else Spark reads."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of a path: passed to Spark's reader, e.g. `{"header": "true"}`."""

    def __post_init__(self) -> None:
        if not isinstance(self.schema, str) or not self.schema.strip():
            raise BadInputError(
                "needs a schema", where="Table", hint='such as "id bigint, name string"'
            )

    def read(self, spark: Any) -> Any:
        """The rows as they are now, as a DataFrame."""
        if callable(self.content):
            return self.content(spark)
        if isinstance(self.content, str):
            reader = spark.read.format(self.format).schema(self.schema).options(**self.options)
            return reader.load(self._place(self.content))
        return spark.createDataFrame(list(self.content), self.schema)

    @staticmethod
    def _place(path: str) -> str:
        # Java knows only the directory it was started in; this process may have gone elsewhere.
        return path if _SCHEME.match(path) else str(Path(path).absolute())


@dataclass(frozen=True, slots=True)
class StaticTable:
    """A table of a pipeline, as its author holds it to join streams with."""

    name: str
    table: Table


class WithTables:
    """A function of streams and tables, called with the streams alone."""

    def __init__(self, function: Callable[..., Any], tables: tuple[StaticTable, ...]) -> None:
        self.function = function
        self.tables = tables
        self.copies: dict[str, str] = {}
        """Where the run keeps the tables; before a run begins they are read where they are."""
        self.given: tuple[Any, ...] = ()
        """The tables as the function was last called with them, to tell them from what else it
        reads."""

    def __call__(self, *frames: Any) -> Any:
        spark = frames[0].sparkSession
        self.given = tuple(self._frame(spark, table) for table in self.tables)
        return self.function(*frames, *self.given)

    def __getstate__(self) -> dict[str, Any]:
        # DataFrames stay where their session is.
        return {**self.__dict__, "given": ()}

    def _frame(self, spark: Any, table: StaticTable) -> Any:
        copy = self.copies.get(table.name)
        if copy is None:
            return table.table.read(spark)
        return spark.read.schema(table.table.schema).parquet(copy)
