"""What Java is told to read: every part of every task, and which rows to leave out."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.deployment.slicefiles import GroupPart, SliceFile
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.spark.io.native import told
from holdfast.runtime.spark.io.reader import InputSpec, PlannedInput
from holdfast.streams.records import Slice

pytestmark = pytest.mark.unit

ITEM = InputSpec(boundary="b", stream="b", schema="{}")
LOG = SliceLog("/run")


def record(number, shard, files):
    return Slice(
        unit=f"b.0#{shard}",
        number=number,
        after=number - 1,
        upto=number,
        files={
            "b": tuple(
                SliceFile(
                    name=f"{number}-{index}.arrow",
                    schema_size=100,
                    schema_crc=7,
                    parts=tuple(
                        GroupPart(group=group, rows=rows, offset=place, size=8, crc=place, digest=0)
                        for place, (group, rows) in enumerate(parts)
                    ),
                )
                for index, parts in enumerate(files)
            )
        },
    )


def planned(slices, groups, skipped=()):
    return PlannedInput(
        slices=tuple(slices), groups=tuple(groups), skipped=frozenset(skipped), tick_us=None
    )


def test_tasks_share_the_parts_in_reading_order():
    """Each has a run of about as many rows; of groups that others own, nothing is read."""
    slices = [record(0, 0, [[(0, 2), (5, 3), (90, 9)], [(5, 1)]]), record(4, 1, [[(64, 6)]])]
    found = told(ITEM, planned(slices, [range(90)]), LOG, 2)
    first, second = found["tasks"]
    folder = LOG.data("b.0#0", "b").address("")
    assert [file["path"] for file in first] == [f"{folder}/0-0.arrow", f"{folder}/0-1.arrow"]
    assert [file["parts"] for file in first] == [[[2, 0, 8, 0], [3, 1, 8, 1]], [[1, 0, 8, 0]]]
    assert [file["parts"] for file in second] == [[[6, 0, 8, 0]]]
    assert second[0]["path"] == f"{LOG.data('b.0#1', 'b').address('4-0.arrow')}"
    assert (found["tick"], first[0]["schema"]) == (None, [100, 7])
    assert told(ITEM, planned(slices[:0], [range(90)]), LOG, 3)["tasks"] == [[], [], []]


@given(st.lists(st.lists(st.integers(1, 40), max_size=5), max_size=6), st.integers(1, 5))
def test_however_many_tasks_there_are_the_order_stays(files, tasks):
    """One after the other they read what one would, and none has much more than its share."""
    item = record(0, 0, [[(place, rows) for place, rows in enumerate(parts)] for parts in files])
    alone = told(ITEM, planned([item], [range(128)]), LOG, 1)["tasks"][0]
    shared = told(ITEM, planned([item], [range(128)]), LOG, tasks)["tasks"]
    assert len(shared) == tasks

    def parts(share):
        return [(file["path"], part) for file in share for part in file["parts"]]

    assert [part for share in shared for part in parts(share)] == parts(alone)
    rows = [sum(part[0] for _, part in parts(share)) for share in shared]
    largest = max((part[0] for _, part in parts(alone)), default=0)
    assert max(rows) <= sum(rows) / tasks + largest


def test_positions_become_places_in_their_parts():
    """Positions count the rows of the unit's own groups, over all slices, in reading order."""
    chance = random.Random(3)
    for _ in range(50):
        slices = [
            record(
                number,
                0,
                [
                    [(group, chance.randint(1, 4)) for group in sorted(chance.sample(range(8), 3))]
                    for _ in range(chance.randint(0, 2))
                ],
            )
            for number in range(3)
        ]
        owned = range(2, 7)
        rows = [
            (item.number, file.name, part.group, at)
            for item in slices
            for file in item.files["b"]
            for part in file.parts
            if part.group in owned
            for at in range(part.rows)
        ]
        skipped = {at for at in range(len(rows)) if chance.random() < 0.3}
        found = told(ITEM, planned(slices, [owned], skipped), LOG, 1)
        left = [
            at
            for file in found["tasks"][0]
            for rows_in_part, _, _, _, *out in file["parts"]
            for at in out
            if at < rows_in_part
        ]
        assert left == [rows[at][3] for at in sorted(skipped)]
