"""Parquet files are read directly only where Spark would give the same rows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.runtime.spark.io.files import read_parquet

pytestmark = pytest.mark.unit

WANTED = pa.schema([("ts", pa.timestamp("us", "UTC")), ("word", pa.string()), ("n", pa.int64())])


def write(folder, **columns):
    path = folder / "f.parquet"
    pq.write_table(pa.table(columns), path)
    return str(path)


def test_columns_are_taken_by_name(tmp_path):
    """Order and further columns of the file do not matter; a coarser time unit is converted."""
    times = pa.array([1, 2]).cast(pa.timestamp("ms", "UTC"))
    path = write(tmp_path, n=[7, 8], other=[0.5, 0.5], word=["a", None], ts=times)
    table = read_parquet(path, WANTED)
    assert table.schema == WANTED
    assert table.column("word").to_pylist() == ["a", None]
    assert table.column("ts").cast(pa.int64()).to_pylist() == [1000, 2000]


def test_a_missing_column_is_null(tmp_path):
    """As Spark reads files that were written before a column was added."""
    table = read_parquet(write(tmp_path, n=[7]), WANTED)
    assert table.to_pylist() == [{"ts": None, "word": None, "n": 7}]


@pytest.mark.parametrize(
    "columns",
    [
        {"N": [7]},
        {"n": pa.array([7], pa.int32())},
        {"n": ["7"]},
        {"ts": pa.array([1]).cast(pa.timestamp("us"))},
        {"ts": pa.array([1]).cast(pa.timestamp("ns", "UTC"))},
    ],
    ids=["other case", "narrower", "text", "no time zone", "finer"],
)
def test_what_needs_a_conversion_is_left_to_spark(tmp_path, columns):
    """Spark has its own rules for these, and its own error messages."""
    assert read_parquet(write(tmp_path, **columns), WANTED) is None


def test_a_damaged_file_is_left_to_spark(tmp_path):
    """Its message names the file; nothing is skipped."""
    path = write(tmp_path, n=[7])
    with open(path, "r+b") as file:  # noqa: PTH123 - a plain string
        file.truncate(20)
    assert read_parquet(path, WANTED) is None
    assert read_parquet(str(tmp_path / "gone.parquet"), WANTED) is None
