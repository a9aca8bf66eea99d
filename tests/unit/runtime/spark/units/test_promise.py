"""A segment's rows against the watermark that it has promised."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.runtime.deployments import COUNT, COUNTED

from holdfast.deployment import UnitId
from holdfast.pipeline import Parquet, Pipeline, Rate, deploy
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.slices import write_slice_file
from holdfast.runtime.log.trim import Trimmer
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.rescale import rescale
from holdfast.runtime.units.threads import UnitContext
from holdfast.streams.records import Range, Slice
from holdfast.streams.steps import Put, ranges, slices

promise = pytest.importorskip("holdfast.runtime.spark.units.promise")

pytestmark = pytest.mark.unit


def written(log, name, *times, folder=None):
    """A slice file with one row per event time, microseconds."""
    rows = pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC"))})
    groups = np.arange(len(times), dtype=np.uint8)
    return write_slice_file(folder or folder_of(log), name, rows, groups, np.zeros(len(times)))


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


def hand_over(log, change, *units):
    """Units that have committed all they were at go on as others."""
    log.run(log.steps().place_turns(log.run(log.steps().change("count", change))))
    for unit in units:
        steps = log.steps()
        position = log.run(steps.position_at(unit, log.newest_batch(unit) + 1))
        log.run(steps.next_step(unit, position, (), lambda *_: None))


@pytest.mark.parametrize("generations", [1, 2])
def test_heirs_keep_what_their_parents_have_promised(tmp_path, generations):
    """Also where these were replaced themselves before they had made anything."""
    log = SliceLog(tmp_path)
    begin(log, COUNTED)
    unit = "count.0#0"
    log.records.execute(Put(ranges(unit), 0, Range(unit=unit, number=0, after=-1, upto=3)))
    told = {"files": {}, "rows": 0, "digest": "", "watermark_us": 2_000_000}
    slice_ = Slice(unit=unit, number=0, after=-1, upto=3, generation=0, **told)
    log.records.execute(Put(slices(unit), 0, slice_))
    rescale(log, COUNT, 2, reason="test")
    hand_over(log, 1, unit)
    heir = "count.1#1"
    if generations == 2:
        rescale(log, COUNT, 1, reason="test")
        hand_over(log, 2, "count.1#0", heir)
        heir = "count.2#0"
    context = UnitContext(
        unit=UnitId.parse(heir),
        generation=0,
        segment=COUNT,
        deployment=COUNTED,
        log=log,
        trimmer=Trimmer(log, COUNTED),
        crash=Crash(),
    )
    checked = promise.Promise(operator="count", column="ts", reader="window")
    folder = log.data(heir, "count")

    def keep(name, time_us):
        files = {"count": (written(log, name, time_us, folder=folder),)}
        promise.keep_promised(checked, context, 0, promise.Written(files=files))

    keep("a", 2_000_000)
    with pytest.raises(promise.OperatorError, match=r"older than 1970-01-01 00:00:02 UTC"):
        keep("b", 1_999_999)


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
