"""State that changes hands by whole partitions: split and merged queries give what one gives."""

import json
from collections import Counter

import pandas as pd
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from tests.spark.state_kinds import MORE, Sums

from holdfast.deployment.blocks import Block, even_blocks
from holdfast.runtime.checkpoint.blocks import Part, compose_checkpoint
from holdfast.runtime.spark.start.session import start_session, unit_session
from holdfast.storage.local import LocalStorage

pytestmark = pytest.mark.spark

MOST = 4
ROWS = 40
"""Rows of the clock source per batch."""


@pytest.fixture(scope="module")
def spark():
    return start_session("test-blocks", memory_mb=800)


def windows(frame):
    """A groupBy by more than the key: state is placed by the key all the same."""
    return frame.groupBy(F.window("ts", "10 seconds"), "word").agg(F.sum("n").alias("n"))


def running_sums(frame):
    def add(key, parts, state):
        total = sum(int(part["n"].sum()) for part in parts)
        total += state.get[0] if state.exists else 0
        state.update((total,))
        yield pd.DataFrame({"word": [key[0]], "n": [total]})

    return frame.groupBy("word").applyInPandasWithState(
        add, "word string, n bigint", "n bigint", "append", "NoTimeout"
    )


def processor(frame):
    return frame.groupBy("word").transformWithStateInPandas(
        Sums(), "word string, n bigint, listed bigint", "Append", "None"
    )


def first_seen(frame):
    return frame.select("ts", "word", "n").dropDuplicatesWithinWatermark(["word", "n"])


def pairs(frame, other):
    right = other.select(
        F.col("ts").alias("at"), F.col("word").alias("name"), F.col("n").alias("m")
    )
    near = "word = name and at >= ts - interval 3 seconds and at <= ts + interval 3 seconds"
    return frame.join(right, F.expr(near)).select("word", "ts", "at", "n", "m")


KINDS = {
    "aggregate": windows,
    "applyInPandasWithState": running_sums,
    "transformWithState": processor,
    "deduplication": first_seen,
    "join": pairs,
}
LATEST = {"applyInPandasWithState", "transformWithState", "lifetimes"}
"""Kinds that say their whole state with every batch: only the newest row of a key counts."""


def rows(session, block, per_batch, *, odd):
    """Rows made of the clock alone, those of a block, laid out as its state is."""
    clock = (
        session.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", per_batch)
        .option("numPartitions", 1)
        .load()
    )
    frame = clock.select(
        F.expr(f"timestamp_seconds((value + {odd}) div 8)").alias("ts"),
        F.expr(f"concat('w', value * {5 + odd} % 37)").alias("word"),
        F.expr("value % 11").alias("n"),
    ).withWatermark("ts", "5 seconds")
    place = f"pmod(hash(word), {block.of})"
    mine = frame.where(f"{place} >= {block.first} and {place} < {block.stop}")
    return mine.repartition(block.count, "word")


def run(spark, store, name, kind, block, *, upto, per_batch=ROWS):
    """What a query gives until its clock has come so far; its last planned batch is not committed.

    Returns the part that it can give away, and its rows by batch.
    """
    session = unit_session(spark, snapshot_batches=3, partitions=block.count)
    inputs = [rows(session, block, per_batch, odd=0)]
    if "join" in kind:
        inputs.append(rows(session, block, per_batch, odd=1))
    found = {}

    def take(frame, batch):
        end = json.loads(store.read(f"{name}/offsets/{batch}").decode().splitlines()[2])["offset"]
        if end > upto:
            raise RuntimeError("far enough")
        found[batch] = [tuple(row) for row in frame.collect()]

    query = (
        (KINDS | MORE)[kind](*inputs)
        .writeStream.foreachBatch(take)
        .outputMode("append")
        .option("checkpointLocation", store.address(name))
        .start()
    )
    with pytest.raises(StreamingQueryException, match="far enough"):
        query.awaitTermination(120)
    return Part(checkpoint=name, block=block, spark_batch=max(found)), found


def heir(store, name, parts, block, *, at):
    """A checkpoint of a block that goes on where the clock stands."""
    offset = json.dumps({"offset": at, "timestamp": at // ROWS * 1000}, separators=(",", ":"))
    compose_checkpoint(store, name, parts, block, source_offset=offset)


def told(kind, *runs):
    """What all of them say together."""
    if kind not in LATEST:
        return Counter(row for found in runs for batch in found.values() for row in batch)
    latest = {}
    for found in runs:
        for _, batch in sorted(found.items()):
            latest |= {row[0]: row for row in batch}
    return latest


@pytest.mark.sample(kind="aggregate")
@pytest.mark.parametrize("kind", KINDS)
def test_split_and_merged_state_gives_what_one_query_gives(spark, tmp_path, kind):
    """One query, then three with blocks of their own, uneven, then two, at other paces."""
    store = LocalStorage(tmp_path)
    (whole,) = even_blocks(1, MOST)
    low, high = whole.halves
    _, expected = run(spark, store, "alone/1", kind, whole, upto=14 * ROWS)

    first, before = run(spark, store, "a/1", kind, whole, upto=4 * ROWS)
    split = [low, *high.halves]
    parts, after = [], []
    for number, block in enumerate(split):
        name = f"b{number}/1"
        heir(store, name, [first], block, at=4 * ROWS)
        # The second runs half as many batches, so its versions are behind.
        pace = ROWS * (2 if number == 1 else 1)
        part, found = run(spark, store, name, kind, block, upto=10 * ROWS, per_batch=pace)
        parts.append(part)
        after.append(found)
    assert len({part.spark_batch for part in parts}) == 2

    heir(store, "c/1", parts[1:], high, at=10 * ROWS)
    _, merged = run(spark, store, "c/1", kind, high, upto=14 * ROWS)
    _, kept = run(spark, store, "b0/1", kind, low, upto=14 * ROWS)
    assert told(kind, before, *after, kept, merged) == told(kind, expected)


def test_state_is_placed_by_the_key_alone(spark, tmp_path):
    """With a grouping by more than the key too, a key's state is in the partition of its hash."""
    store = LocalStorage(tmp_path)
    block = Block(first=0, count=MOST, of=MOST)
    run(spark, store, "a/1", "aggregate", block, upto=3 * ROWS)
    state = spark.read.format("statestore").load(store.address("a/1"))
    placed = state.selectExpr(
        "partition_id", f"pmod(hash(key.word), {MOST}) as wanted", "key.word as word"
    ).collect()
    assert len({row.word for row in placed}) > MOST
    assert all(row.partition_id == row.wanted for row in placed)
