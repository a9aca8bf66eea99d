"""Statistics from slice records that were made up."""

from __future__ import annotations

import pytest

from holdfast.deployment.slicefiles import GroupPart, SliceFile
from holdfast.pipeline import Parquet, Pipeline, Rate, deploy
from holdfast.predict.statistics import Measure
from holdfast.profile.observe import ShardState, batches_of, operator_statistics
from holdfast.runtime.checkpoint.state import Snapshot
from holdfast.streams.records import Slice

pytestmark = pytest.mark.unit


def pipeline(shards=1, output="append"):
    p = Pipeline("made-up", event_time=("ts", "1 second"), epoch="2s")
    rows = p.source("rows", Rate(rows_per_second=5))
    counts = rows.map("split", lambda frame: frame).aggregate(
        "count", lambda frame: frame, key="key", shards=shards, output=output
    )
    p.sink("out", counts, Parquet("out"))
    return p


def record(boundary, number, rows, *, span=1, after=None, shard=0, late=0):
    """A slice with so many rows per key group."""
    parts = tuple(
        GroupPart(group=group, rows=count, offset=0, size=10 * count, crc=0, digest=0)
        for group, count in rows.items()
    )
    start = number * span - 1 if after is None else after
    return Slice(
        unit=f"{boundary.partition('@')[0]}.0#{shard}",
        number=number,
        after=start,
        upto=start + span,
        files={boundary: (SliceFile(name="x", schema_size=0, schema_crc=0, parts=parts),)},
        rows=sum(rows.values()),
        late_rows=late,
        spark_batch=number,
    )


def statistics(p, records, operator, *, state=None, sizes=None):
    deployment = deploy(p, cuts="all")
    return operator_statistics(
        p,
        deployment,
        deployment.segment(operator),
        records,
        sizes=sizes or {},
        state=state,
    )


def made(p, counts, *, shards=1, batches=12):
    """Records of a run: `counts(number)` rows come out of the last operator."""
    key = {"split.0#0": [], "rows.0#0": []}
    records = {**key, **{f"count.0#{shard}": [] for shard in range(shards)}}
    for number in range(batches):
        records["rows.0#0"].append(record("rows", number, {0: 9}, late=1))
        groups = {3: 20, 70: 10}
        records["split.0#0"].append(record("split@key", number, groups))
        for shard in range(shards):
            rows = {0: counts(number)}
            records[f"count.0#{shard}"].append(record("count", number, rows, shard=shard))
    return records


def test_a_source_counts_its_late_rows_as_input():
    """Late rows came in and did not go out."""
    p = pipeline()
    found = statistics(p, made(p, lambda _: 1), "rows")
    assert found.input_rate.value == pytest.approx(5.0)
    assert found.output_rate.value == pytest.approx(4.5)
    assert found.selectivity.value == pytest.approx(0.9)
    assert found.thread
    assert not statistics(p, made(p, lambda _: 1), "split").thread


def test_a_map_is_matched_with_what_it_read():
    """Selectivity is that of matched batches, and time is counted in epochs of two seconds."""
    p = pipeline()
    sizes = {"rows": Measure(value=8.0, samples=3), "split@key": Measure(value=5.0, samples=4)}
    found = statistics(p, made(p, lambda _: 1), "split", sizes=sizes)
    assert found.input_rate.value == pytest.approx(4.5)
    assert found.selectivity.value == pytest.approx(30 / 9)
    assert found.selectivity.error == pytest.approx(0)
    assert (found.tuple_size.value, found.output_size.value) == (8.0, 5.0)


def test_windows_are_counted_over_whole_bursts():
    """An operator that puts out 12 rows every fourth batch puts out 3 a batch."""
    p = pipeline()
    found = statistics(p, made(p, lambda number: 12 if number % 4 == 2 else 0), "count")
    assert found.selectivity.value == pytest.approx(12 / (4 * 30))
    assert found.output_rate.value == pytest.approx(12 / 8)


def test_output_trails_input_by_a_batch():
    """Rows that a window puts out belong to the batch before, however large that was."""
    p = pipeline()
    records = made(p, lambda _: 0, batches=0)
    spans = [1, 8, 1, 1, 8, 1, 1]
    after = -1
    for number, span in enumerate(spans):
        records["rows.0#0"].append(record("rows", number, {0: 9}, span=span, after=after))
        rows = {3: 10 * span}
        records["split.0#0"].append(record("split@key", number, rows, span=span, after=after))
        out = {0: 2 * spans[number - 1]} if number else {}
        records["count.0#0"].append(record("count", number, out, span=span, after=after))
        after += span
    found = statistics(p, records, "count")
    assert found.selectivity.value == pytest.approx(0.2)
    assert found.selectivity.error == pytest.approx(0)


def test_shards_take_only_their_key_groups():
    """Two shards divide the rows, their rates add up, and the busier one is known."""
    p = pipeline(shards=2)
    records = made(p, lambda _: 1, shards=2)
    deployment = deploy(p, cuts="all")
    first = batches_of(deployment, deployment.segment("count"), 0, records)
    second = batches_of(deployment, deployment.segment("count"), 1, records)
    assert (first[3].rows_in, second[3].rows_in) == (20, 10)
    found = statistics(p, records, "count")
    assert found.input_rate.value == pytest.approx(15.0)
    assert found.skew.value == pytest.approx(20 / 15)


def test_state_that_grows_is_told_from_state_that_stays():
    """Growth is per second of input, change too; the size is the newest or the usual one."""
    p = pipeline(output="upsert")
    records = made(p, lambda _: 1)
    sizes = range(1, 11)
    grows = ShardState(
        changes=dict.fromkeys(sizes, 50),
        snapshots=[Snapshot(version=v, size=1000 * v, keys=v) for v in sizes],
    )
    found = statistics(p, records, "count", state={0: grows})
    assert found.state_growth.value == pytest.approx(500.0)
    assert found.state_size.value == 10_000
    assert found.state_change.value == pytest.approx(25.0)
    stays = ShardState(
        changes={1: 50}, snapshots=[Snapshot(version=v, size=900 + v % 2, keys=1) for v in sizes]
    )
    found = statistics(p, records, "count", state={0: stays})
    assert found.state_growth.value == 0
    assert found.state_size.value == pytest.approx(900.4)


def test_without_a_snapshot_changelogs_stand_for_the_state():
    """A young state is what its changelogs hold, and that is said."""
    p = pipeline(output="upsert")
    young = ShardState(changes={1: 50, 2: 70}, snapshots=[])
    found = statistics(p, made(p, lambda _: 1), "count", state={0: young})
    assert found.state_size.value == 120
    assert "no snapshot" in found.state_size.how
    assert found.state_growth is None
