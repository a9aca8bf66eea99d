"""A segment's rows against the watermark that it has promised."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from holdfast.pipeline import Parquet, Pipeline, Rate, deploy
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.slices import write_slice_file

promise = pytest.importorskip("holdfast.runtime.spark.units.promise")

pytestmark = pytest.mark.unit


def written(log, name, *times):
    """A slice file with one row per event time, microseconds."""
    rows = pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC"))})
    groups = np.arange(len(times), dtype=np.uint8)
    return write_slice_file(folder_of(log), name, rows, groups, np.zeros(len(times)))


def folder_of(log):
    return log.data("own.0#0", "own")


def kept(log, watermark_us, *files):
    checked = promise.Promise(operator="own", column="ts", reader="window")
    checked.check(watermark_us, folder_of(log), files)


def test_rows_down_to_what_was_promised_pass(tmp_path):
    """The promised time itself, no rows, no times and no promise break nothing."""
    log = SliceLog(tmp_path)
    kept(log, 2_000_000, written(log, "a", 3_000_000, 2_000_000, None))
    kept(log, 2_000_000, written(log, "b", None))
    kept(log, 2_000_000)
    kept(log, None, written(log, "c", 0))


def test_an_older_row_is_named_with_operator_and_times(tmp_path):
    """The line says whose row, what had been promised, and who would drop it."""
    log = SliceLog(tmp_path)
    files = [written(log, "a", 5_000_000), written(log, "b", 7_000_000, 1_999_999)]
    with pytest.raises(promise.OperatorError) as failed:
        kept(log, 2_000_000, *files)
    assert failed.value.operator == "own"
    assert str(failed.value).startswith(
        "operator 'own': gave out a row with ts = 1970-01-01 00:00:01.999999 UTC, after its "
        "earlier output has ruled out rows older than 1970-01-01 00:00:02 UTC, so 'window' would "
        "drop it; give out no 'ts' behind the watermark"
    )


def same(frame):
    return frame


@pytest.mark.parametrize("follows", [False, True])
def test_only_who_is_read_by_time_has_something_to_keep(follows):
    """A sink, or a map before it, takes rows of any time."""
    p = Pipeline("p", event_time=("ts", "1 second"))
    own = p.source("rows", Rate(1)).map("first", same).stateful("own", same, key="key")
    last = own.map("then", same)
    if follows:
        last = last.aggregate("window", same, key="key")
    p.sink("out", last, Parquet("out"))
    deployment = deploy(p)
    segment = next(item for item in deployment.segments if "own" in item.operators)
    found = promise.promise_of(p, segment, "ts")
    if follows:
        assert found == promise.Promise(operator="own", column="ts", reader="window")
        assert promise.promise_of(p, segment, None) is None
        window = deployment.segment("window")
        assert promise.promise_of(p, window, "ts") is None
    else:
        assert found is None
