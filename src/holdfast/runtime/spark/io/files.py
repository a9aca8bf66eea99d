"""Reading the files of a `Files` source into an Arrow table.

Spark reads them, so that a format means what its users know, options included. Parquet files that
need no option are read directly where that gives the same rows: Spark would plan a query, decode
columns into rows and encode rows into columns again, at several times the cost.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.pipeline import Files

_GLOB = re.compile(r"([{}\[\]*?\\])")


def file_reader(source: Files, session: Callable[[], SparkSession]) -> Callable[[list[str]], Any]:
    """A function from paths to rows, in the order of the paths."""
    session()  # Spark parses schemas only once it runs
    schema = cast("StructType", StructType.fromDDL(source.schema))
    wanted = to_arrow_schema(schema, timezone="UTC")
    direct = source.format == "parquet" and not source.options

    def read(paths: list[str]) -> Any:
        if not paths:
            return wanted.empty_table()
        tables = [read_parquet(path, wanted) for path in paths] if direct else []
        if direct and None not in tables:
            return pa.concat_tables(tables)
        reader = session().read.format(source.format).options(**source.options)
        # Spark would take these characters for patterns.
        plain = [_GLOB.sub(r"\\\1", path) for path in paths]
        return reader.schema(source.schema).load(plain).toArrow()

    return read


def read_parquet(path: str, wanted: pa.Schema) -> Any:
    """The wanted columns of a file, or None if only Spark can say what they mean."""
    try:
        with pq.ParquetFile(path) as file:
            there = file.schema_arrow
            if not all(_plain(there, field) for field in wanted):
                return None
            names = [name for name in wanted.names if name in there.names]
            table = file.read(columns=names)
    except (OSError, pa.ArrowException):
        return None
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in names
        else pa.nulls(table.num_rows, field.type)
        for field in wanted
    ]
    return pa.Table.from_arrays(columns, schema=wanted)


def _plain(there: pa.Schema, field: Any) -> bool:
    """Whether a column needs no conversion that Spark might do differently."""
    found = there.get_all_field_indices(field.name)
    if not found:
        # Spark matches names without regard to case, and fills in nulls for missing columns.
        return field.name.lower() not in {name.lower() for name in there.names}
    if len(found) > 1:
        return False
    kind = there.field(found[0]).type
    if pa.types.is_timestamp(field.type):
        return bool(pa.types.is_timestamp(kind) and kind.tz == "UTC" and kind.unit in ("us", "ms"))
    return bool(kind == field.type)
