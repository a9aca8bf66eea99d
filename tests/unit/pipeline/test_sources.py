"""Generated sources: the same rows for the same epoch, whatever the sharding."""

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import BadInputError
from holdfast.pipeline import Generator, Rate
from holdfast.pipeline.schema import arrow_schema, parse_schema

pytestmark = pytest.mark.unit

UTC = dt.UTC


@settings(deadline=None)
@given(
    rate=st.floats(0, 500),
    epoch_s=st.sampled_from([0.2, 0.5, 1.0, 3.0]),
    first=st.integers(0, 2_000_000_000),
    epochs=st.integers(1, 5),
)
def test_consecutive_epochs_number_rows_without_gaps(rate, epoch_s, first, epochs):
    """No row is made twice or left out between epochs, at any rate."""
    source = Rate(rate)
    values = [
        value
        for epoch in range(first, first + epochs)
        for value in source.table(epoch, epoch_s=epoch_s)["value"].to_pylist()
    ]
    assert values == list(range(values[0], values[0] + len(values))) if values else True
    per_epoch = rate * epoch_s
    assert abs(len(values) - per_epoch * epochs) <= 1 + 1e-6 * per_epoch * (first + epochs)


@settings(deadline=None)
@given(shards=st.integers(1, 7), epoch=st.integers(0, 10_000), seed=st.integers(0, 2**63))
def test_shards_together_make_the_rows_of_one(shards, epoch, seed):
    """Sharding a Rate moves rows between shards and changes none."""
    source = Rate(50, seed=seed)
    whole = source.table(epoch, epoch_s=1.0).to_pylist()
    parts = [
        row
        for shard in range(shards)
        for row in source.table(epoch, epoch_s=1.0, shard=shard, shards=shards).to_pylist()
    ]
    assert sorted(parts, key=lambda row: row["value"]) == whole


def test_rate_rows_lie_in_their_epoch_and_depend_on_the_seed():
    """Event time is that of the epoch; another seed gives other keys only."""
    rows = Rate(1000, keys=7).table(10, epoch_s=0.5).to_pylist()
    assert len(rows) == 500
    assert rows[0]["ts"] == dt.datetime.fromtimestamp(5, UTC)
    assert rows[-1]["ts"] < dt.datetime.fromtimestamp(5.5, UTC)
    assert {row["key"] for row in rows} == set(range(7))
    other = Rate(1000, keys=7, seed=1).table(10, epoch_s=0.5).to_pylist()
    assert [row["value"] for row in other] == [row["value"] for row in rows]
    assert [row["key"] for row in other] != [row["key"] for row in rows]


def test_a_rate_is_the_same_on_every_machine():
    """Pinned values: a resumed run must make the rows it made before."""
    assert Rate(3, keys=1000, seed=5).table(2, epoch_s=1.0)["key"].to_pylist() == PINNED


PINNED = [807, 674, 802]


def test_a_generator_takes_tuples_and_mappings_and_is_dealt_out():
    """Shard s of n gets every n-th row from the s-th."""
    rows = [(dt.datetime(2026, 1, 1, tzinfo=UTC), "a"), {"line": "b"}, (None, "c")]
    source = Generator(lambda epoch, seed: rows, "ts timestamp, line string")
    assert source.table(0, epoch_s=1.0)["line"].to_pylist() == ["a", "b", "c"]
    assert source.table(0, epoch_s=1.0, shard=1, shards=2)["line"].to_pylist() == ["b"]
    assert source.table(0, epoch_s=1.0).schema == arrow_schema(parse_schema(source.schema))


def test_a_generator_that_gives_the_wrong_width_is_named():
    """A row must have as many values as the schema has columns."""
    source = Generator(lambda epoch, seed: [(1, 2)], "a int")
    with pytest.raises(BadInputError, match="2 values for 1 columns"):
        source.table(0, epoch_s=1.0)


def test_every_flat_type_has_an_arrow_type():
    """The DDL names of Spark's flat types are understood."""
    ddl = "a string, b boolean, c tinyint, d smallint, e int, f bigint, g float, h double"
    schema = arrow_schema(parse_schema(f"{ddl}, i date, j binary, k timestamp"))
    types = [str(field.type) for field in schema]
    assert types == [
        "string",
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "float",
        "double",
        "date32[day]",
        "binary",
        "timestamp[us, tz=UTC]",
    ]
