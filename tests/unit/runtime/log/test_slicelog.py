"""The typed log: adoption, nondeterminism, floors, generations and trimming on real files."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.deployment import Boundary, Deployment, Segment
from holdfast.deployment.records import RangeRecord, SkipRecord, SliceRecord
from holdfast.errors import CorruptLogError
from holdfast.runtime.log.protocol import (
    Batching,
    epoch_due,
    next_range,
    output_watermark,
    retained_floor,
    roundest,
)
from holdfast.runtime.log.slicelog import (
    NondeterministicError,
    OtherSkipError,
    SliceLog,
    SupersededError,
)
from holdfast.runtime.log.slices import write_slice_file
from holdfast.runtime.log.trim import Trimmer
from holdfast.storage.memory import MemoryStorage

pytestmark = pytest.mark.unit

DEPLOYMENT = Deployment(
    pipeline="p",
    epoch_s=1.0,
    fingerprints={},
    segments=(
        Segment(name="a", kind="source", operators=("a",), outputs=(Boundary(operator="a"),)),
        Segment(name="x", kind="exporter", operators=("x",), inputs=("a",)),
        Segment(name="y", kind="exporter", operators=("y",), inputs=("a",)),
    ),
)


def publish(log, number, *, value=1):
    name, rows = f"{number:010d}-g0-{value}.arrow", pa.table({"v": [value]})
    hashes = np.array([hash(value)])
    file = write_slice_file(log.data("a", 0), name, rows, np.array([0]), hashes)
    record = SliceRecord(
        boundary="a", shard=0, number=number, after=number - 1, upto=number, files=(file,)
    )
    return log.put_slice(record, unit="a#0")


def put_range(log, unit, number):
    return log.put_range(
        RangeRecord(
            unit=unit, number=number, after=number - 1, upto=number, inputs={"a": (number + 1,)}
        )
    )


def test_losers_adopt_the_range_that_is_there(tmp_path):
    """Two writers of one number end up with the same range."""
    first, second = SliceLog(tmp_path), SliceLog(tmp_path)
    won = put_range(first, "x#0", 0)
    other = replace(won, upto=7, inputs={"a": (8,)})
    assert second.put_range(other) == won


def test_the_same_rows_again_are_accepted_and_others_reported(tmp_path):
    """A redo with the same digest goes on; with another it names the unit and the batch."""
    log = SliceLog(tmp_path)
    publish(log, 0)
    publish(SliceLog(tmp_path), 0)
    with pytest.raises(NondeterministicError, match="a#0: batch 0"):
        publish(SliceLog(tmp_path), 0, value=2)


def test_what_is_stored_can_be_adopted(tmp_path):
    """Where a redo may give other rows, the first ones count and nobody complains."""
    first = publish(SliceLog(tmp_path), 0)
    later = replace(first, generation=1, watermark_us=7)
    assert SliceLog(tmp_path).put_slice(later, unit="a#0", adopt=True) == first


def test_a_slice_made_with_other_rows_left_out_is_told_apart(tmp_path):
    """It is no sign of nondeterminism, so it is not reported as such."""
    stored = publish(SliceLog(tmp_path), 0)
    with pytest.raises(OtherSkipError, match=r"with version 0 .* this run used version 2"):
        SliceLog(tmp_path).put_slice(replace(stored, files=(), skip=2), unit="a#0")


def test_skip_records_of_a_batch_are_numbered(tmp_path):
    """Each version is put once; the newest holds all rows; trimming removes them all."""
    one, two = SliceLog(tmp_path), SliceLog(tmp_path)
    assert one.newest_skip("x#0", 3) is None
    first = one.put_skip(SkipRecord(unit="x#0", number=3, rows={"a": (5,)}))
    assert two.put_skip(SkipRecord(unit="x#0", number=3, rows={"a": (6,)})) == first
    second = two.put_skip(SkipRecord(unit="x#0", number=3, version=2, rows={"a": (5, 9)}))
    assert one.newest_skip("x#0", 3) == second
    assert one.skip("x#0", 3, 1) == first
    assert one.skipping("x#0") == [3]
    Trimmer(log=one, deployment=DEPLOYMENT, retain=3).trim_unit("x#0", 40)
    assert one.skip("x#0", 3, 1) is None
    assert one.skip("x#0", 3, 2) is None
    with pytest.raises(SupersededError):
        two.put_skip(SkipRecord(unit="x#0", number=3, version=3))


def test_a_sink_has_a_life_until_its_records_are_gone(tmp_path):
    """All who ask get the same id; a reset, which removes the unit's records, ends it."""
    log = SliceLog(tmp_path)
    assert log.known_life("x#0") is None
    life = log.life("x#0")
    assert SliceLog(tmp_path).life("x#0") == log.known_life("x#0") == life
    shutil.rmtree(tmp_path / "units" / "x#0")
    assert log.life("x#0") != life


def test_a_sum_rounded_otherwise_is_the_same_row_and_the_stored_one_counts(tmp_path):
    """Another last bit of a float is no other row; another float, or key, or number is."""
    log = SliceLog(tmp_path)
    stored = publish(log, 0, value=0.1 + 0.2)
    assert publish(SliceLog(tmp_path), 0, value=0.3) == stored
    with pytest.raises(NondeterministicError, match="a#0: batch 0"):
        publish(SliceLog(tmp_path), 0, value=0.3001)


def test_a_torn_record_is_named(tmp_path):
    """A record cut short is an error that gives its path."""
    log = SliceLog(tmp_path)
    put_range(log, "x#0", 0)
    path = tmp_path / "units" / "x#0" / "ranges" / "t0-0000000000"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CorruptLogError) as error:
        log.range("x#0", 0)
    assert error.value.path == str(path)


def test_a_newer_generation_stops_the_older(tmp_path):
    """Only the newest claim is current."""
    log = SliceLog(tmp_path)
    log.claim("x#0", 1)
    log.check_current("x#0", 1)
    log.claim("x#0", 2)
    log.check_current("x#0", 2)
    with pytest.raises(SupersededError):
        log.check_current("x#0", 1)


def test_trimming_waits_for_the_slowest_consumer(tmp_path):
    """Nothing is removed before every consumer is well past it, then records and files go."""
    log = SliceLog(tmp_path)
    trimmer = Trimmer(log=log, deployment=DEPLOYMENT, retain=3)
    for number in range(40):
        publish(log, number)
        put_range(log, "x#0", number)
    source = DEPLOYMENT.segment("a")
    assert trimmer.trim_outputs(source, 0) == 0  # y has not even started
    for number in range(20):
        put_range(log, "y#0", number)
    removed = trimmer.trim_outputs(source, 0)
    oldest = retained_floor(19, 3)
    assert removed == oldest
    assert log.slice("a", 0, oldest - 1) is None
    assert log.slice("a", 0, oldest) is not None
    assert len(log.data("a", 0).names("")) == 40 - oldest


def test_kept_input_is_never_trimmed(tmp_path):
    """With keep_input what sources published stays."""
    log = SliceLog(tmp_path)
    for number in range(40):
        publish(log, number)
        for unit in ("x#0", "y#0"):
            put_range(log, unit, number)
    trimmer = Trimmer(log=log, deployment=DEPLOYMENT, retain=3, keep_input=True)
    assert trimmer.trim_outputs(DEPLOYMENT.segment("a"), 0) == 0


def test_a_trimmed_number_cannot_be_put_again(tmp_path):
    """A zombie that missed the trim is refused instead of deciding a batch twice."""
    log = SliceLog(tmp_path)
    for number in range(40):
        publish(log, number)
        for unit in ("x#0", "y#0"):
            put_range(log, unit, number)
    trimmer = Trimmer(log=log, deployment=DEPLOYMENT, retain=3)
    assert trimmer.trim_unit("x#0", 39) > 0
    assert trimmer.trim_outputs(DEPLOYMENT.segment("a"), 0) > 0
    with pytest.raises(SupersededError):
        put_range(SliceLog(tmp_path), "x#0", 2)
    with pytest.raises(SupersededError):
        publish(SliceLog(tmp_path), 2)
    assert log.newest_range("x#0") == 39


class SleepyStore(MemoryStorage):
    """Its next writer falls asleep just before the put, while something else happens."""

    meanwhile = None

    def put_if_absent(self, name, data):
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return super().put_if_absent(name, data)


@pytest.mark.parametrize("what", ["range", "slice", "skip"])
def test_a_writer_that_slept_past_the_floor_has_put_nothing(tmp_path, what):
    """It looked at the floor, slept, put; looked at afterwards, its record does not exist."""
    store = SleepyStore()
    log = SliceLog(tmp_path, store)
    floors = log.layout.slice_floors("a", 0) if what == "slice" else log.layout.unit_floors("x#0")
    store.meanwhile = lambda: log.raise_floor(floors, 7)
    put = {
        "range": lambda: put_range(log, "x#0", 3),
        "slice": lambda: publish(log, 3),
        "skip": lambda: log.put_skip(SkipRecord(unit="x#0", number=3)),
    }
    with pytest.raises(SupersededError, match="floor 7"):
        put[what]()
    for folder in ("units/x#0/ranges", "units/x#0/skips", "log/a/0/slices"):
        assert store.names(folder) == []


def test_what_is_found_below_the_floor_does_not_exist(tmp_path):
    """Between such a put and its removal nobody may go by it."""
    log = SliceLog(tmp_path)
    put_range(log, "x#0", 3)
    publish(log, 3)
    log.raise_floor(log.layout.unit_floors("x#0"), 7)
    log.raise_floor(log.layout.slice_floors("a", 0), 7)
    assert log.range("x#0", 3) is None
    with pytest.raises(SupersededError):
        log.need_slice("a", 0, 3)


@pytest.mark.parametrize("floor", [0, 3])
def test_a_missing_record_is_not_called_trimmed(tmp_path, floor):
    """What is not below the floor was removed or never put; the file is named."""
    log = SliceLog(tmp_path)
    log.raise_floor(log.layout.unit_floors("x#0"), floor)
    log.raise_floor(log.layout.slice_floors("a", 0), floor)
    with pytest.raises(CorruptLogError, match=r"ranges/t0-0000000003: is not there, .* never put"):
        log.need_range("x#0", 3)
    with pytest.raises(CorruptLogError, match=r"slices/t0-0000000003: is not there, .* never put"):
        log.need_slice("a", 0, 3)
    if floor:
        with pytest.raises(SupersededError, match="was trimmed"):
            log.need_range("x#0", 2)


def test_claims_do_not_pile_up(tmp_path):
    """However often a unit is taken over, one claim is left, and it is the newest."""
    for generation in range(1, 50):
        SliceLog(tmp_path).claim("x#0", generation)
    log = SliceLog(tmp_path)
    assert log.store.names("units/x#0/generations") == ["t0-0000000049"]
    log.claim("x#0", 40)  # a zombie that starts late
    with pytest.raises(SupersededError):
        log.check_current("x#0", 40)
    log.check_current("x#0", 49)


def slices(*ends, watermark=None):
    return [
        SliceRecord(
            boundary="b", shard=0, number=n, after=(-1, *ends)[n], upto=end, watermark_us=watermark
        )
        for n, end in enumerate(ends)
    ]


def test_a_batch_ends_where_every_shard_has_ended_a_slice():
    """The end of a batch is an end of every shard of every input, so a consistent cut."""
    unread = {"p": [slices(0, 1, 2, 5), slices(1, 5)], "q": [slices(0, 1, 3)]}
    found = next_range(None, unread, Batching(), unit="u")
    assert found is not None
    assert found.upto == 1
    assert found.inputs == {"p": (2, 1), "q": (2,)}
    assert next_range(None, {"p": [slices(4), []]}, Batching(), unit="u") is None
    assert next_range(None, {"p": [slices(4), slices(3, 5)]}, Batching(), unit="u") is None


def test_one_epoch_per_batch_never_merges():
    """Such a unit takes the next end epoch only, even when far behind."""
    unread = {"p": [slices(0, 1, 2, 3)]}
    merged = next_range(None, unread, Batching(), unit="u")
    single = next_range(None, unread, Batching(one_epoch_per_batch=True), unit="u")
    assert (merged.upto, single.upto) == (3, 0)


def test_a_batch_interval_is_waited_for():
    """A unit that keeps up ends its batches at the first end of each interval."""
    unread = {"p": [slices(0, 1)]}
    assert next_range(None, unread, Batching(batch_epochs=3), unit="u") is None
    unread = {"p": [slices(0, 1, 2)]}
    assert next_range(None, unread, Batching(batch_epochs=3), unit="u").upto == 2
    unread = {"p": [slices(1, 3, 5)]}
    assert next_range(None, unread, Batching(batch_epochs=3), unit="u").upto == 5


def test_a_large_backlog_is_cut():
    """A unit far behind takes bounded batches."""
    log_slices = slices(*range(10))
    found = next_range(None, {"p": [log_slices]}, Batching(max_rows=-1), unit="u")
    assert found.upto == 0


@given(st.lists(st.integers(1, 40), min_size=3, max_size=20), st.data())
def test_units_that_fall_behind_differently_keep_meeting(lags, data):
    """Two shards that see new epochs in different strides share ends all the way."""
    horizon = sum(lags)
    published = slices(*range(horizon))
    ends = []
    for _ in range(2):
        seen, record, mine = 0, None, set()
        while seen < horizon:
            seen = min(horizon, seen + data.draw(st.sampled_from(lags)))
            while True:
                start = record.inputs["p"][0] if record else 0
                found = next_range(record, {"p": [published[start:seen]]}, Batching(), unit="u")
                if found is None:
                    break
                record = found
                mine.add(found.upto)
        ends.append(mine)
    common = sorted(ends[0] & ends[1])
    gaps = [b - a for a, b in zip([-1, *common], common, strict=False)]
    assert common[-1] == horizon - 1
    assert max(gaps) <= 2 * max(lags)


def test_a_stateful_segments_watermark_lags_one_batch():
    """What Spark may still emit bounds the promise; Spark's watermark rules out its own instant."""
    old = RangeRecord(unit="u", number=0, after=-1, upto=0, watermark_us=10)
    new = RangeRecord(unit="u", number=1, after=0, upto=1, watermark_us=20)
    assert output_watermark(old, new, stateful=False) == 20
    assert output_watermark(old, new, stateful=True, lag_us=1) == -1
    assert output_watermark(None, old, stateful=True) is None


@pytest.mark.parametrize(("known", "promised"), [(5001, 5000), (5000, 4000), (5999, 5000)])
def test_a_stateful_segment_promises_whole_milliseconds(known, promised):
    """Spark closes a session that ends within a millisecond only with the next one."""
    old = RangeRecord(unit="u", number=0, after=-1, upto=0, watermark_us=known)
    new = RangeRecord(unit="u", number=1, after=0, upto=1, watermark_us=9000)
    assert output_watermark(old, new, stateful=True) == promised


@given(st.integers(-1, 100), st.integers(-50, 200), st.integers(1, 5), st.integers(1, 9))
def test_epochs_never_run_backwards(last, tick, span, most):
    """Whatever the clock says, a source's next end is later than its last and on its grid."""
    due = epoch_due(last, tick, Batching(batch_epochs=span), max_epochs=most)
    if due is None:
        assert tick < last + 2 * span
        return
    assert last < due <= max(tick, last + 1)
    assert (due + 1) % span == 0
    assert due - last <= max(most, span)


@given(st.integers(1, 1000), st.integers(0, 1000))
def test_the_roundest_number_is_found(low, more):
    """No number in the interval is divisible by a larger power of two."""
    found = roundest(low, low + more)
    assert low <= found <= low + more
    assert all(number & -number <= found & -found for number in range(low, low + more + 1))
