"""A pipeline said in the words of the checker."""

import pytest

from holdfast.pipeline import Console, Files, Parquet, Pipeline, Rate, Sqlite
from holdfast.pipeline.claims import claims
from holdfast.verify.claims import ParquetFolder, SqliteTable

pytestmark = pytest.mark.unit


def same(frame):
    return frame


def pipeline():
    p = Pipeline("p")
    made, read = p.source("made", Rate(10)), p.source("read", Files("in"))
    sums = made.aggregate("sum", same, key="key", output="upsert")
    p.sink("table", sums, Sqlite("out.db", "sums"))
    p.sink("files", made.union("both", read.map("parse", same)), Parquet("out"))
    p.sink("screen", read, Console())
    p.expected("table")(lambda rows: rows["made"])
    p.expected("files", closes="ts")(lambda rows: rows["read"])
    return p


def test_sinks_come_with_their_place_their_key_and_what_leads_to_them():
    """Only sinks with an expected computation are claimed."""
    table, files = claims(pipeline()).sinks
    assert (table.place, table.key) == (SqliteTable(path="out.db", table="sums"), ("key",))
    assert table.upstream == {"table", "sum", "made"}
    assert (files.place, files.key) == (ParquetFolder(path="out"), ())
    assert files.upstream == {"files", "both", "made", "parse", "read"}
    assert (table.closes, files.closes) == (None, "ts")


def test_generated_rows_can_be_made_again_and_others_not():
    """The rows of a shard are those the source itself makes."""
    p = pipeline()
    made, read = claims(p).sources
    assert read.made is None
    table = p.operator("made").source.table(3, epoch_s=2.0, shard=1, shards=2)
    assert made.made(3, epoch_s=2.0, shard=1, shards=2) == table.to_pylist()
