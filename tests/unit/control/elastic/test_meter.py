"""What units report, made into what policies ask."""

import pytest

from holdfast.control.elastic.meter import Meter, UnitSample
from holdfast.deployment.blocks import even_blocks

pytestmark = pytest.mark.unit

BLOCKS = even_blocks(2, 4)


def sample(batch, rows, took, *, shard=0, behind=0.0):
    return UnitSample(
        unit=f"count.0#{shard}",
        block=BLOCKS[shard],
        batch=batch,
        rows_in=rows,
        batch_s=took,
        behind_s=behind,
    )


def test_work_per_row_and_per_batch_are_told_apart():
    """By batches of different sizes: 0.1 s each and 1 ms a row."""
    meter = Meter("count", interval_s=1.0)
    total = 0
    for batch, rows in enumerate([0, 100, 500, 50, 300, 900]):
        total += rows
        found = meter.report([sample(batch, total, 0.1 + rows / 1000)], [1.0] * 4, at=batch)
    assert found is not None
    assert found.row_s == pytest.approx(1e-3)
    assert found.floor == pytest.approx(0.1)


def test_batches_that_are_alike_count_as_work_for_rows():
    """There is no telling what of them a smaller shape would save."""
    meter = Meter("count", interval_s=2.0)
    for batch in range(5):
        found = meter.report([sample(batch, 100 * batch, 0.5)], [1.0] * 4, at=batch)
    assert found is not None
    assert (found.row_s, found.floor) == (pytest.approx(0.005), 0.0)
    assert found.shards[0].cpu == 0.25


def test_backlog_is_counted_in_rows_of_the_shard():
    """What arrives for its block, for as long as it is behind."""
    meter = Meter("count", interval_s=1.0)
    for batch in range(2):
        found = meter.report(
            [sample(batch, batch, 0.5), sample(batch, batch, 0.5, shard=1, behind=3.0)],
            [1.0, 2.0, 3.0, 4.0],
            at=batch,
        )
    assert found is not None
    assert [shard.backlog_rows for shard in found.shards] == [0.0, 21.0]


def test_nothing_is_said_before_a_batch_was_seen():
    """Two looks with a batch in between are needed."""
    meter = Meter("count", interval_s=1.0)
    assert meter.report([sample(3, 10, 0.5)], [1.0] * 4, at=0.0) is None
    assert meter.report([sample(3, 10, 0.5)], [1.0] * 4, at=5.0) is None
    assert meter.report([sample(4, 20, 0.5)], [1.0] * 4, at=9.0) is not None


def test_a_unit_that_was_started_again_does_not_make_rows_seem_free():
    """It counts from nothing: its first batch after that had rows, but nobody knows how many."""
    meter = Meter("count", interval_s=1.0)
    for batch in range(5):
        meter.report([sample(batch, 1000 * batch, 0.8)], [1.0] * 4, at=batch)
    found = meter.report([sample(6, 1000, 0.8)], [1.0] * 4, at=6)
    assert found is not None
    assert (found.row_s, found.floor) == (pytest.approx(8e-4), 0.0)
