"""Static tables as a run keeps them: read once, by the first node, the same for all that follow.

A copy is a folder of Parquet files that Spark writes; it counts once the record beside it names it,
and whoever comes second takes what is named there. It belongs to one operator, so that resetting
that operator reads it anew.
"""

from __future__ import annotations

from typing import cast

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from holdfast.errors import BadInputError
from holdfast.pipeline import Pipeline, StaticTable
from holdfast.pipeline.tables import WithTables
from holdfast.rundir.layout import Layout
from holdfast.storage import Storage
from holdfast.storage.identity import new_id

CHOSEN = "chosen"
"""Name of the record that names the copy which counts."""


def fix_tables(pipeline: Pipeline, spark: SparkSession, store: Storage) -> None:
    """Let every operator join with the run's own copy of its tables."""
    for operator in pipeline.operators:
        function = operator.function
        if not isinstance(function, WithTables):
            continue
        for table in function.tables:
            folder = Layout().table(operator.name, table.name)
            chosen = store.get(f"{folder}/{CHOSEN}")
            name = chosen.decode() if chosen else _copy(table, operator.name, spark, store, folder)
            function.copies[table.name] = store.address(f"{folder}/{name}")


def _copy(
    table: StaticTable, operator: str, spark: SparkSession, store: Storage, folder: str
) -> str:
    """Keep the table as it is now; gives the name of the copy that counts, maybe another's."""
    frame = table.table.read(spark)
    declared = cast("StructType", StructType.fromDDL(table.table.schema))
    found = {field.name: field.dataType for field in frame.schema}
    if found != {field.name: field.dataType for field in declared}:
        raise BadInputError(
            f"table {table.name!r} is {frame.schema.simpleString()} and not {table.table.schema}",
            where=operator,
            hint="give the schema it has",
        )
    mine = new_id()
    place = f"{folder}/{mine}"
    frame.select(*declared.names).coalesce(1).write.parquet(store.address(place))
    # Spark syncs nothing, and whatever is made of the table must not outlive it.
    store.sync(place, *store.names(place))
    chosen = store.put_if_absent(f"{folder}/{CHOSEN}", mine.encode()).decode()
    if chosen != mine:
        store.remove_folder(place, aside=Layout().removed(new_id()))
    return chosen
