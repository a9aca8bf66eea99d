"""Late rows are the same ones however a generated source is sharded."""

from __future__ import annotations

import datetime as dt

import pytest

from holdfast.deployment.blocks import Block
from holdfast.pipeline import EventTime, Generator, Rate
from holdfast.runtime.units.sources import GeneratedRows, split_late
from holdfast.streams.records import Range

pytestmark = pytest.mark.unit

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
RECORD = Range(unit="s.0#0", number=0, after=-1, upto=9)
EVENT_TIME = EventTime(column="ts", delay_s=2)


def uneven(epoch, seed):
    """The newest row of an epoch comes first, a row that is late only for its sake second."""
    del seed
    if epoch % 4 == 3:
        return []
    times = [0.9, -2.5, 0.1, None] if epoch % 3 else [0.9]
    return [
        (None if at is None else START + dt.timedelta(seconds=epoch + at), 10 * epoch + index)
        for index, at in enumerate(times)
    ]


def outcome(source, shards):
    """Rows in time, late rows and the joint watermark after each epoch."""
    kept, late, joint = [], [], []
    marks = [None] * shards
    for epoch in range(10):
        for shard in range(shards):
            rows = GeneratedRows(
                source=source, epoch_s=1.0, block=Block(first=shard, count=1, of=shards)
            )
            table, heeded = rows.tables(RECORD, epoch)
            good, bad, marks[shard] = split_late(table, EVENT_TIME, marks[shard], heeded=heeded)
            kept += good.column(1).to_pylist()
            late += bad.column(1).to_pylist()
        joint.append(None if None in marks else min(marks))
    return sorted(kept), sorted(late), joint


@pytest.mark.parametrize(
    "source", [Generator(uneven, "ts timestamp, n bigint"), Rate(3)], ids=["generator", "rate"]
)
def test_lateness_does_not_depend_on_the_shards_of_a_generated_source(source):
    """Kept rows, late rows and watermarks of two and three shards are those of one."""
    whole = outcome(source, 1)
    assert outcome(source, 2) == whole
    assert outcome(source, 3) == whole
    assert whole[1] or isinstance(source, Rate)


def test_a_source_that_has_seen_no_time_has_no_watermark():
    """Unknown stays unknown, so that it holds back what reads it."""
    source = Generator(lambda epoch, seed: [(None, epoch)], "ts timestamp, n bigint")
    kept, late, marks = outcome(source, 2)
    assert len(kept) == 10
    assert not late
    assert marks == [None] * 10
