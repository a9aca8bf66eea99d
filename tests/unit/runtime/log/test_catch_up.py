"""Planning the batches of a unit that is behind: what is chosen, and how much is looked at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.deployment.records import GroupPart, RangeRecord, SliceFile, SliceRecord, encode
from holdfast.rundir.layout import member
from holdfast.runtime.log.backlog import Backlog
from holdfast.runtime.log.protocol import MAX_BATCH_EPOCHS, Batching, next_range
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.storage.memory import MemoryStorage

pytestmark = pytest.mark.unit

HOUR = 3600


def slice_of(number, after, upto, *, rows=0, shard=0, boundary="b", watermark=None):
    part = GroupPart(group=0, rows=rows, offset=0, size=0, crc=0, digest=0)
    file = SliceFile(name="f", schema_size=0, schema_crc=0, parts=(part,))
    return SliceRecord(
        boundary=boundary,
        shard=shard,
        number=number,
        after=after,
        upto=upto,
        files=(file,) if rows else (),
        watermark_us=watermark,
    )


def by_definition(previous, unread, batching):
    """The end of the next batch as the rule says it, whatever that costs.

    The first end in each batch interval is a candidate. Those that would make the batch too large,
    or lie too far ahead, are none, but for the first. The roundest interval wins, then the latest.
    """
    shards = [slices for name in unread for slices in unread[name]]
    after = previous.upto if previous else -1
    span = batching.batch_epochs
    ends = set.intersection(*[{item.upto for item in slices} for slices in shards])
    candidates, cell = [], (after + 1) // span
    reach = 1
    while 2 * reach * span <= batching.max_epochs:
        reach *= 2
    last = cell + reach
    for end in sorted(ends):
        if (end + 1) // span == cell:
            continue
        cell = (end + 1) // span
        rows = sum(item.rows for slices in shards for item in slices if item.upto <= end)
        if candidates and (rows > batching.max_rows or cell > last):
            break
        candidates.append((cell & -cell, end))
        if batching.one_epoch_per_batch:
            break
    return max(candidates)[1] if candidates else None


@st.composite
def backlogs(draw):
    """A range and what several shards of two boundaries have published since."""
    after = draw(st.integers(-1, 40))
    counts = {"p": draw(st.integers(1, 3)), "q": draw(st.integers(0, 2))}
    first = draw(st.integers(0, 5))
    common = draw(st.sets(st.integers(after + 1, after + 60), max_size=40))
    unread, inputs = {}, {}
    for name, count in counts.items():
        if not count:
            continue
        shards = []
        for shard in range(count):
            own = draw(st.sets(st.integers(after + 1, after + 60), max_size=8))
            ends = sorted(common | own)
            # The newest may not be there yet.
            ends = ends[: draw(st.integers(0, len(ends)))] if draw(st.booleans()) else ends
            shards.append(
                [
                    slice_of(
                        first + at,
                        ([after, *ends])[at],
                        end,
                        rows=draw(st.integers(0, 5)),
                        shard=shard,
                        boundary=name,
                        watermark=draw(st.none() | st.integers(0, 9)),
                    )
                    for at, end in enumerate(ends)
                ]
            )
        unread[name] = shards
        inputs[name] = (first,) * count
    previous = RangeRecord(unit="u", number=3, after=-2, upto=after, inputs=inputs)
    return previous, unread


@given(
    backlogs(),
    st.integers(1, 5),
    st.booleans(),
    st.integers(-1, 80) | st.just(10**6),
    st.integers(1, 70) | st.just(10**6),
)
def test_the_end_of_a_batch_is_what_the_rule_says(backlog, span, single, rows, epochs):
    """One pass chooses the end, the inputs and the watermark that the definition gives."""
    previous, unread = backlog
    batching = Batching(
        batch_epochs=span, one_epoch_per_batch=single, max_rows=rows, max_epochs=epochs
    )
    found = next_range(previous, unread, batching, unit="u")
    upto = by_definition(previous, unread, batching)
    if upto is None:
        assert found is None
        return
    assert found is not None
    assert (found.number, found.after, found.upto) == (4, previous.upto, upto)
    taken = {
        name: [[item for item in slices if item.upto <= upto] for slices in shards]
        for name, shards in unread.items()
    }
    assert found.inputs == {
        name: tuple(
            first + len(items) for first, items in zip(previous.inputs[name], shards, strict=True)
        )
        for name, shards in taken.items()
    }
    marks = [items[-1].watermark_us for shards in taken.values() for items in shards]
    assert found.watermark_us == (None if None in marks else min(marks))


class Counted(list):
    """Slices that count how often one is looked at."""

    looked = 0

    def __iter__(self):
        for item in super().__iter__():
            self.looked += 1
            yield item


def behind(slices, shards=2, rows=0):
    return [
        [slice_of(n, n - 1, n, rows=rows, shard=shard) for n in range(slices)]
        for shard in range(shards)
    ]


@pytest.mark.parametrize("slices", [MAX_BATCH_EPOCHS, 2 * MAX_BATCH_EPOCHS, HOUR])
def test_planning_a_batch_costs_the_same_however_far_behind(slices):
    """Every slice is looked at once, and none beyond what one batch may take."""
    unread = {"b": [Counted(items) for items in behind(slices)]}
    found = next_range(None, unread, Batching(), unit="u")
    assert found is not None
    assert found.upto == MAX_BATCH_EPOCHS - 1
    assert sum(items.looked for items in unread["b"]) <= 2 * MAX_BATCH_EPOCHS


def test_a_batch_full_of_rows_ends_the_search():
    """Rows end it before epochs do."""
    unread = {"b": [Counted(items) for items in behind(HOUR, rows=10)]}
    found = next_range(None, unread, Batching(max_rows=20 * 40), unit="u")
    assert found is not None
    assert found.upto == 31
    assert sum(items.looked for items in unread["b"]) <= 2 * 42


def test_a_batch_interval_longer_than_the_look_ahead_is_taken():
    """The first end is taken however far it is; the second must be within reach."""
    batching = Batching(batch_epochs=2 * MAX_BATCH_EPOCHS)
    found = next_range(None, {"b": behind(4 * MAX_BATCH_EPOCHS)}, batching, unit="u")
    assert found is not None
    assert found.upto == 2 * MAX_BATCH_EPOCHS - 1


class CountingStore(MemoryStorage):
    """Records in memory that count how often they are read or looked for."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.looks = 0

    def get(self, name):
        self.reads += 1
        return super().get(name)

    def exists(self, name):
        self.looks += 1
        return super().exists(name)


def published(slices, shards=2):
    store = CountingStore()
    log = SliceLog("/none", store)
    for shard, items in enumerate(behind(slices, shards)):
        for item in items:
            store.put_if_absent(member(log.layout.slices("b", shard), item.number), encode(item))
    return store, log


def test_a_unit_reads_no_more_records_than_its_next_batch_may_take():
    """An hour behind, the first batch is planned from a bounded number of records."""
    store, log = published(HOUR)
    backlog = Backlog(log, {"b": 2})
    assert next_range(None, backlog.after(None), Batching(), unit="u") is not None
    assert store.reads <= 2 * MAX_BATCH_EPOCHS


def test_catching_up_reads_every_record_once():
    """From an hour behind to the end, each record is read once, in few batches."""
    store, log = published(HOUR)
    backlog, record, batches = Backlog(log, {"b": 2}), None, 0
    while found := next_range(record, backlog.after(record), Batching(), unit="u"):
        first = record.inputs["b"] if record else (0, 0)
        for shard, end in enumerate(found.inputs["b"]):
            for number in range(first[shard], end):
                assert backlog.slice("b", shard, number).number == number
        record, batches = found, batches + 1
    assert record is not None
    assert record.upto == HOUR - 1
    assert batches <= HOUR // MAX_BATCH_EPOCHS + 8
    # The looks that found nothing come on top.
    assert store.reads <= 2 * HOUR + 2 * batches
    assert backlog.missing == (store.address(f"log/b/0/slices/t0-{HOUR:010d}"),)


def test_who_waits_is_told_for_what(tmp_path):
    """A shard that has run out is what a unit waits for, not those that are ahead of it."""
    log = SliceLog(tmp_path)
    for number in range(5):
        log.put_slice(slice_of(number, number - 1, number, shard=0), unit="b#0")
    backlog = Backlog(log, {"b": 2})
    assert next_range(None, backlog.after(None), Batching(), unit="u") is None
    assert backlog.missing == (f"{tmp_path}/log/b/1/slices/t0-0000000000",)
    log.put_slice(slice_of(0, -1, 7, shard=1), unit="b#1")
    assert next_range(None, backlog.after(None), Batching(), unit="u") is None
    assert backlog.missing == (f"{tmp_path}/log/b/0/slices/t0-0000000005",)
    log.put_slice(slice_of(5, 4, 7, shard=0), unit="b#0")
    found = next_range(None, backlog.after(None), Batching(), unit="u")
    assert found is not None
    assert found.inputs == {"b": (6, 1)}


def test_a_backlog_can_go_back():
    """A redo of an earlier batch reads its slices again."""
    _, log = published(6)
    backlog = Backlog(log, {"b": 2})
    later = RangeRecord(unit="u", number=1, after=2, upto=3, inputs={"b": (4, 4)})
    assert next_range(later, backlog.after(later), Batching(), unit="u").inputs == {"b": (6, 6)}
    assert next_range(None, backlog.after(None), Batching(), unit="u").inputs == {"b": (4, 4)}
    assert backlog.slice("b", 1, 2).number == 2


@given(st.lists(st.integers(1, 40), min_size=2, max_size=12), st.data())
def test_units_meet_also_where_the_look_ahead_ends(lags, data):
    """However far they fall behind, two shards share every end at a multiple of the look-ahead."""
    batching = Batching(max_epochs=16)
    horizon = max(64, sum(lags))
    slices = [slice_of(n, n - 1, n) for n in range(horizon)]
    ends = []
    for _ in range(2):
        seen, record, mine = 0, None, set()
        while seen < horizon:
            seen = min(horizon, seen + data.draw(st.sampled_from(lags)))
            while True:
                start = record.inputs["b"][0] if record else 0
                found = next_range(record, {"b": [slices[start:seen]]}, batching, unit="u")
                if found is None:
                    break
                assert found.upto - found.after <= 16
                record = found
                mine.add(found.upto)
        ends.append(mine)
    assert {end for end in range(horizon) if (end + 1) % 16 == 0} <= ends[0] & ends[1]
