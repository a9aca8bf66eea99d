"""Calls from Java into this process, and Java's classes for calls the other way.

A call there and back costs little; looking a class up costs milliseconds, as Py4J asks Java for
every part of its name, and Java looks for classes of these names in all of Spark's jars. So classes
are looked up by their whole names, once.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

_SOURCES = "org.apache.spark.sql.execution.streaming.sources"
_callbacks = threading.Lock()


def java_class(spark: SparkSession, name: str) -> Any:
    """A class of Java's, by its whole name."""
    return _java_class(spark._jvm, name)  # noqa: SLF001 - the only way to classes


@functools.lru_cache(maxsize=64)
def _java_class(jvm: Any, name: str) -> Any:
    return getattr(jvm, name)


def start_callbacks(spark: SparkSession) -> None:
    """Let Java call Python, through a socket of this process; once, however many units start.

    foreachBatch does the same without a lock: two at once would each start a server, and Java would
    know only one of them. So this comes first.
    """
    from pyspark.java_gateway import ensure_callback_server_started  # noqa: PLC0415 - as there

    with _callbacks:
        ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]  # noqa: SLF001


def each_batch(
    writer: DataStreamWriter, spark: SparkSession, function: Callable[[DataFrame, int], None]
) -> DataStreamWriter:
    """`writer.foreachBatch(function)`, but that PySpark would make a session for every batch.

    That is a dozen calls, with classes looked up by name: as long as all that is ours of an empty
    batch.
    """
    start_callbacks(spark)
    helper = java_class(spark, f"{_SOURCES}.PythonForeachBatchHelper")
    helper.callForeachBatch(writer._jwrite, _EachBatch(spark, function))  # noqa: SLF001 - as there
    return writer


class _EachBatch:
    def __init__(self, spark: SparkSession, function: Callable[[DataFrame, int], None]) -> None:
        self._spark, self._function = spark, function

    def call(self, frame: Any, number: int) -> None:
        """Called by Java with the rows of one of Spark's batches."""
        self._function(DataFrame(frame, self._spark), number)

    class Java:
        """What Java takes it for."""

        implements: ClassVar = [f"{_SOURCES}.PythonForeachBatchFunction"]
