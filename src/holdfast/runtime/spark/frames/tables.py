"""Static tables as a run keeps them: read once, by the first node, the same for all that follow.

A copy is a directory of Parquet files that appears as a whole, by a rename; whoever comes second
takes what is there. It belongs to one operator, so that resetting that operator reads it anew.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from pathlib import Path
from typing import cast

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from holdfast.errors import BadInputError
from holdfast.pipeline import Pipeline, StaticTable
from holdfast.pipeline.tables import WithTables
from holdfast.rundir.paths import table_path
from holdfast.runtime.log.store import sync_folder


def fix_tables(pipeline: Pipeline, spark: SparkSession, run_dir: Path) -> None:
    """Let every operator join with the run's own copy of its tables."""
    for operator in pipeline.operators:
        function = operator.function
        if not isinstance(function, WithTables):
            continue
        for table in function.tables:
            place = table_path(run_dir, operator.name, table.name)
            if not place.exists():
                _copy(table, operator.name, spark, place)
            # Also what another node put there: whatever is made of it must not outlive it.
            for folder in (place.parent, place.parent.parent, run_dir):
                sync_folder(folder)
            function.copies[table.name] = place


def _copy(table: StaticTable, operator: str, spark: SparkSession, place: Path) -> None:
    frame = table.table.read(spark)
    declared = cast("StructType", StructType.fromDDL(table.table.schema))
    found = {field.name: field.dataType for field in frame.schema}
    if found != {field.name: field.dataType for field in declared}:
        raise BadInputError(
            f"table {table.name!r} is {frame.schema.simpleString()} and not {table.table.schema}",
            where=operator,
            hint="give the schema it has",
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f"{place.name}.{os.getpid()}-{threading.get_native_id()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    frame.select(*declared.names).coalesce(1).write.parquet(str(temporary))
    for path in temporary.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    sync_folder(temporary)
    # A directory takes the place of no other that has files in it: the first one counts.
    with contextlib.suppress(OSError):
        temporary.rename(place)
    shutil.rmtree(temporary, ignore_errors=True)
    if not place.is_dir():
        raise BadInputError(f"could not keep the table {table.name!r}", where=operator)
