"""Spark's rewriting of state, led by an operator's key and to the key groups of one unit.

Spark can lay out the state of a stopped query over another number of partitions
(`OfflineStateRepartitionRunner`): it reads every store as rows of a key, a value and the part of
the key that decides about the partition, moves them, and writes stores. How rows are moved is a
function that its rewriter takes. Ours differs in three things. Rows are placed by the operator's
key alone, where Spark would place a window's by window and key; only those of the unit's key groups
are kept; and the state of several parents is united.

Spark names the columns by which state is kept, but those of a join, which are field0, field1, ...:
one of them can only be the key.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.types import StructType

from holdfast.deployment import KEY_GROUPS
from holdfast.runtime.checkpoint.restate import Rewrite, Stage, UniqueIds, key_fields
from holdfast.runtime.log.crash import Crash
from holdfast.storage import Storage

_PLACING = "partition_key"
"""Spark's name of what of a key decides about the partition."""


def rewriter(
    spark: SparkSession,
    *,
    unit: str,
    operator: str,
    key: Sequence[str],
    groups: Collection[int],
    crash: Crash,
) -> Rewrite:
    """Has Spark write the state of some key groups of an operator, placed by its key.

    Args:
        spark: a session of the unit's own.
        unit: for whom it is written.
        operator: whose state it is.
        key: its columns.
        groups: what is kept.
        crash: where to die.
    """

    def rewrite(storage: Storage, stage: Stage) -> UniqueIds:
        with _plain_path(storage.address(stage.place)) as place:
            moving = _Moving(spark, place, stage, operator, key, groups)
            moving.met = lambda: crash.at("during-restating", unit)
            return _run(spark, place, stage, moving)

    return rewrite


def _run(spark: SparkSession, place: str, stage: Stage, moving: _Moving) -> UniqueIds:
    """Have Spark's rewriter do it; what our function raises is raised as it is."""
    jvm: Any = spark._jvm  # noqa: SLF001 - no public way
    session: Any = spark._jsparkSession  # noqa: SLF001
    _serve_callbacks(spark)
    first, spark_batch = stage.sources[0]
    rewriting = jvm.org.apache.spark.sql.execution.streaming.state.StateRewriter(
        session,
        spark_batch,
        stage.spark_batch,
        f"{place}/{stage.target}",
        session.sessionState().newHadoopConf(),
        jvm.scala.Some(f"{place}/{first}"),
        jvm.scala.Some(moving),
        jvm.scala.Option.empty(),
    )
    try:
        written = rewriting.run()
    except Exception:
        if moving.failure is not None:
            raise moving.failure from None
        raise
    return _unique_ids(written.get())


@contextlib.contextmanager
def _plain_path(place: str) -> Iterator[str]:
    """Another way to a folder, by which Spark finds it.

    Its reader of state turns a path into a URL and takes that for a path again: it does not find
    one with a character that a URL escapes, such as the # in the names of units.
    """
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        link = Path(folder, "stage")
        link.symlink_to(Path(place).resolve())
        try:
            yield str(link)
        finally:
            link.unlink()


class _Moving:
    """Spark's function of a store's rows, called from the JVM."""

    def __init__(
        self,
        spark: SparkSession,
        place: str,
        stage: Stage,
        operator: str,
        key: Sequence[str],
        groups: Collection[int],
    ) -> None:
        self._spark, self._place, self._stage = spark, place, stage
        self._operator, self._key, self._groups = operator, key, groups
        self.failure: Exception | None = None
        self.met: Callable[[], None] = lambda: None
        """Called for each store, before it is written."""

    def apply(self, first: Any) -> Any:
        """The rows that go into a store, given those of the first source's."""
        self.met()
        try:
            return self._moved(first)._jdf  # noqa: SLF001
        except Exception as error:
            self.failure = error
            raise

    def _moved(self, first: Any) -> DataFrame:
        options = first.queryExecution().analyzed().options()
        rows = DataFrame(first, self._spark)
        for name, spark_batch in self._stage.sources[1:]:
            rows = rows.unionAll(self._store(name, spark_batch, options))
        if self._stage.partitions == 1 and len(self._groups) == KEY_GROUPS:
            return rows.repartition(1)  # all of it, wherever it belongs
        columns = self._columns(rows.schema)
        group = F.pmod(F.hash(*columns), F.lit(KEY_GROUPS))
        if len(self._groups) < KEY_GROUPS:
            rows = rows.where(group.isin(sorted(self._groups)))
        return rows.repartition(self._stage.partitions, *columns)

    def _store(self, checkpoint: str, spark_batch: int, options: Any) -> DataFrame:
        """The same store of another source, read with the same options."""
        reading = self._spark.read.format("statestore")
        for pair in options.asCaseSensitiveMap().entrySet():
            reading = reading.option(pair.getKey(), pair.getValue())
        place = f"{self._place}/{checkpoint}"
        return reading.option("path", place).option("batchId", spark_batch).load()

    def _columns(self, schema: StructType) -> list[Column]:
        names = schema[_PLACING].dataType.names  # type: ignore[attr-defined]
        return [
            F.col(f"{_PLACING}.`{name}`") for name in key_fields(names, self._key, self._operator)
        ]

    class Java:
        implements = ["scala.Function1"]  # noqa: RUF012 - py4j's own words


def _serve_callbacks(spark: SparkSession) -> None:
    from pyspark.java_gateway import ensure_callback_server_started  # noqa: PLC0415

    gateway = spark._sc._gateway  # noqa: SLF001 - as foreachBatch does
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]


def _unique_ids(found: Any) -> UniqueIds:
    """Spark's map of operators to arrays, as its commits have it."""
    ids: dict[str, list[Any]] = {}
    pairs = found.iterator()
    while pairs.hasNext():
        pair = pairs.next()
        ids[str(pair._1())] = [list(stores) for stores in pair._2()]  # noqa: SLF001 - Scala's name
    return ids
