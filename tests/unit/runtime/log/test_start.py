"""Whether a unit can begin: decided from floors, ranges and slices, without Spark."""

from __future__ import annotations

import pytest
from tests.unit.runtime.deployments import a_sink, a_source, deployed

from holdfast.deployment import Boundary, Deployment, Segment, UnitId
from holdfast.errors import BadInputError
from holdfast.runtime.log.anew import begin_anew, first_epoch
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.start import (
    find_gap,
    first_whole_epoch,
    rebuilt_start,
    refusal,
    require_start,
    thread_start,
    upstream_to_reset,
)
from holdfast.runtime.log.trim import Trimmer
from holdfast.runtime.log.wiring import begin
from holdfast.storage.memory import MemoryStorage
from holdfast.streams.reading import ProtocolError
from holdfast.streams.records import Change, Child, Floor, Range, Seal, Slice
from holdfast.streams.steps import Delete, Put, RaiseFloor, ranges, slices

pytestmark = pytest.mark.unit


def segment(name, kind, *inputs, **options):
    outputs = () if kind == "exporter" else (Boundary(operator=name),)
    return Segment(
        name=name, kind=kind, operators=(name,), inputs=inputs, outputs=outputs, **options
    )


DEPLOYMENT = Deployment(
    pipeline="p",
    epoch_s=1.0,
    fingerprints={},
    segments=(
        segment("a", "source", shards=2),
        segment("b", "inner", "a"),
        segment("c", "inner", "b", stateful=True),
        segment("out", "exporter", "c"),
        segment("late", "exporter", "c"),
    ),
)
B, C, OUT, LATE = (UnitId(segment=name, shard=0) for name in ("b", "c", "out", "late"))


@pytest.fixture
def log():
    """Forty epochs went through, one a batch; nothing is trimmed."""
    made = SliceLog("/none", MemoryStorage())
    begin(made, DEPLOYMENT)
    for number in range(40):
        for unit in ("a.0#0", "a.0#1", "b.0#0", "c.0#0"):
            made.publish(Slice(unit=unit, number=number, after=number - 1, upto=number))
        for unit in ("b.0#0", "c.0#0", "out.0#0"):
            record = Range(unit=unit, number=number, after=number - 1, upto=number)
            made.records.execute(Put(ranges(unit), number, record))
    return made


def trim(log, *boundaries, units=(), below=30):
    """Raise floors and remove what is below."""
    logs = [
        slices(f"{name}.0#{shard}")
        for name in boundaries
        for shard in range(DEPLOYMENT.segment(name).shards)
    ]
    for folder in (*logs, *(ranges(str(unit)) for unit in units)):
        log.records.execute(RaiseFloor(folder, Floor(number=below, epoch=below - 1)))
        for number in range(below):
            log.records.execute(Delete(folder, number))


def test_what_is_whole_can_be_begun_anywhere(log):
    """A lost checkpoint is rebuilt from batch 0 as long as nothing is trimmed."""
    for unit in (B, C, OUT):
        for first in (0, 1, 39, 40):
            assert find_gap(log, DEPLOYMENT, unit, first=first) is None
    assert find_gap(log, DEPLOYMENT, LATE, first=thread_start(log, LATE)) is None


def test_units_that_go_on_are_not_refused(log):
    """Trimming leaves what the newest checkpoint and the newest range record need."""
    trim(log, "a", "b", "c", units=(B, C, OUT))
    for unit in (B, C):
        assert find_gap(log, DEPLOYMENT, unit, first=39) is None
    assert thread_start(log, OUT) == 39
    assert find_gap(log, DEPLOYMENT, OUT, first=39) is None


def test_a_vanished_checkpoint_is_refused_with_what_can_be_done(log):
    """What is missing, the first epoch that is there, and every way out, in one line."""
    trim(log, "a", "b", "c", units=(B, C, OUT))
    with pytest.raises(BadInputError) as found:
        require_start(log, DEPLOYMENT, C, first=0, checkpointed=True)
    assert str(found.value) == (
        "c.0#0: its checkpoint is gone, and it cannot begin with batch 0: its own batches before "
        "30 are trimmed; all of its input is there from epoch 30 on; put checkpoints/c.0#0 back, "
        "or run with --reset c --from 30, or choose another --run-dir; under --keep-input any "
        "operator can be reset later"
    )
    assert "\n" not in str(found.value)


def test_a_checkpoint_that_the_log_has_left_behind_is_refused(log):
    """One that was put back from long ago would wait for ever as well."""
    trim(log, "a", "b", "c", units=(B, C, OUT))
    with pytest.raises(BadInputError, match="its checkpoint is too old, and it cannot begin with"):
        require_start(log, DEPLOYMENT, C, first=12, checkpointed=True)


@pytest.mark.parametrize("first", [None, 0, 12])
def test_without_state_a_new_checkpoint_goes_on_from_the_records(log, first):
    """A lost one, or one from long ago, says nothing that the newest range record does not."""
    trim(log, "a", "b", "c", units=(B, C, OUT))
    for unit in (B, C):
        stateful = DEPLOYMENT.segment(unit.segment).stateful
        found = rebuilt_start(log, DEPLOYMENT, unit, first=first)
        assert found == (None if stateful else 39), unit
        assert rebuilt_start(log, DEPLOYMENT, unit, first=39) is None
        assert rebuilt_start(log, DEPLOYMENT, unit, first=first, fresh={unit.segment: 0}) is None
    assert rebuilt_start(log, DEPLOYMENT, OUT, first=None) is None


def test_a_checkpoint_whose_input_is_gone_cannot_be_made_anew(log):
    """The newest range record reads slices that somebody removed: then it is refused as before."""
    trim(log, "a", units=(B,), below=40)
    assert rebuilt_start(log, DEPLOYMENT, B, first=None) is None


def test_a_sink_added_later_is_refused(log):
    """Its input began long before it."""
    trim(log, "c", units=(C,))
    gap = find_gap(log, DEPLOYMENT, LATE, first=0, fresh={"late": 0})
    assert gap is not None
    assert gap.epoch == 30
    assert "its input c are trimmed" in str(gap)


def test_an_upstream_reset_is_offered_where_input_is_whole(log):
    """With kept input, what is trimmed can be made again from the first operator on."""
    trim(log, "b", "c", units=(B, C, OUT))
    assert upstream_to_reset(log, DEPLOYMENT, {"c", "out", "late"}) == ("b",)
    assert (
        find_gap(log, DEPLOYMENT, B, first=0, fresh=dict.fromkeys(("b", "c", "out", "late"), 0))
        is None
    )
    assert (
        find_gap(log, DEPLOYMENT, C, first=0, fresh=dict.fromkeys(("b", "c", "out", "late"), 0))
        is None
    )
    with pytest.raises(BadInputError, match="run with --reset b"):
        require_start(log, DEPLOYMENT, B, first=0, checkpointed=True)
    trim(log, "a")
    assert upstream_to_reset(log, DEPLOYMENT, {"c", "out", "late"}) == ()


def test_a_source_without_its_records_does_not_publish_anew(log):
    """What it published was read and trimmed; a second start would wait or contradict it."""
    trim(log, "a")
    for number in range(40):
        log.records.execute(Delete(ranges("a.0#0"), number))
    gap = find_gap(log, DEPLOYMENT, UnitId(segment="a", shard=0), first=0)
    assert gap is not None
    assert "what it published before batch 30" in gap.missing


@pytest.mark.parametrize(
    ("floors", "epoch"), [((30, 30), 30), ((30, 33), 33), ((0, 0), 0), ((0, 7), 7), ((50, 0), None)]
)
def test_the_first_whole_epoch_is_a_common_end(log, floors, epoch):
    """All shards have everything after it, and it cuts no slice."""
    for shard, floor in enumerate(floors):
        record = Floor(number=floor, epoch=floor - 1)
        log.records.execute(RaiseFloor(slices(f"a.0#{shard}"), record))
    assert first_whole_epoch(log, DEPLOYMENT, [DEPLOYMENT.segment("b")]) == epoch


def test_shards_that_never_meet_have_no_whole_epoch():
    """Ends at odd epochs in one shard and at even ones in the other."""
    log = SliceLog("/none", MemoryStorage())
    begin(log, DEPLOYMENT)
    for shard, start in ((0, 0), (1, 1)):
        unit = f"a.0#{shard}"
        log.records.execute(RaiseFloor(slices(unit), Floor(number=0, epoch=start)))
        for number in range(5):
            after = start + 2 * number
            log.publish(Slice(unit=unit, number=number, after=after, upto=after + 2))
    assert first_whole_epoch(log, DEPLOYMENT, [DEPLOYMENT.segment("b")]) is None


def test_where_logs_handed_over_is_an_end_when_only_their_floors_are_left(log):
    """The first whole epoch is the one behind it, though nothing of theirs is there to be read."""
    change = Change(
        stream="a",
        number=1,
        how="run",
        children=tuple(
            Child(unit=f"a.1#{shard}", segment="a", groups=(0, 64)) for shard in range(3)
        ),
        parents=("a.0#0", "a.0#1"),
    )
    assert log.run(log.steps().decide(change))
    for parent in change.parents:
        seal = Seal(unit=parent, number=40, change=1, how="run", end=39, batch=39)
        log.records.execute(Put(slices(parent), 40, seal))
        log.records.execute(RaiseFloor(slices(parent), Floor(number=39, epoch=38)))
    for child in change.children:
        log.publish(Slice(unit=child.unit, number=0, after=39, upto=43))
    assert first_whole_epoch(log, DEPLOYMENT, [DEPLOYMENT.segment("b")]) == 39


def test_state_that_went_to_another_change_is_not_taken(log):
    """A seal that names another heir is a broken record, not a birth."""
    child = Child(unit="b.1#0", segment="b", groups=(0, 64))
    change = Change(stream="b", number=1, how="run", children=(child,), parents=("b.0#0",))
    assert log.run(log.steps().decide(change))
    seal = Seal(unit="b.0#0", number=40, change=2, how="run", end=39, batch=39)
    log.records.execute(Put(slices("b.0#0"), 40, seal))
    with pytest.raises(ProtocolError, match=r"b\.0#0 handed over to change 2"):
        log.run(log.steps().birth("b.1#0"))


def test_the_newest_slice_stays_for_the_unit_that_made_it():
    """All who read it begin behind it; killed before its commit, its unit runs that batch again."""
    deployment = deployed(a_source(), a_sink("out"))
    log = SliceLog("/none", MemoryStorage())
    begin(log, deployment)
    for number in range(16):
        told = {"unit": "a.0#0", "number": number, "after": number - 1, "upto": number}
        log.records.execute(Put(ranges("a.0#0"), number, Range(**told)))
        log.publish(Slice(**told, watermark_us=number))
    made = begin_anew(log, deployment, {"out": 16})
    Trimmer(log, made).trim("a.0#0")
    assert log.floor(slices("a.0#0")).number == 15
    require_start(log, made, UnitId(segment="a"), first=15)
    assert log.need_slice("a.0#0", 15).watermark_us == 15


JOINED = Deployment(
    pipeline="p",
    epoch_s=1.0,
    fingerprints={},
    segments=(
        segment("a", "source"),
        segment("b", "source"),
        segment("c", "inner", "a", stateful=True),
        segment("d", "inner", "c", "b", stateful=True),
        segment("out", "exporter", "d"),
    ),
)


@pytest.mark.parametrize("fresh", [{}, dict.fromkeys(("c", "d", "out"), 5)])
def test_the_epoch_that_a_refusal_names_holds_for_all_that_is_reset_together(fresh):
    """What reads it too needs all of its other inputs from there on."""
    log = SliceLog("/none", MemoryStorage())
    begin(log, JOINED)
    for number in range(40):
        for unit in ("a.0#0", "b.0#0", "c.0#0", "d.0#0"):
            log.publish(Slice(unit=unit, number=number, after=number - 1, upto=number))
    for name, below in (("a", 10), ("b", 33)):
        log.records.execute(RaiseFloor(slices(f"{name}.0#0"), Floor(number=below, epoch=below - 1)))
    found = find_gap(log, JOINED, UnitId(segment="c", shard=0), first=0, fresh=fresh)
    assert found.epoch == 33
    line = str(refusal(log, JOINED, found, chosen=fresh))
    assert ("run with --from 33," if fresh else "run with --reset c --from 33,") in line
    segments = [item for item in JOINED.segments if item.name in ("c", "d", "out")]
    assert first_epoch(log, JOINED, segments, 33) == 33


def test_a_refusal_among_several_starts_says_which_it_means():
    """A bare `--from` would be for all of them."""
    log = SliceLog("/none", MemoryStorage())
    begin(log, DEPLOYMENT)
    for number in range(40):
        log.publish(Slice(unit="c.0#0", number=number, after=number - 1, upto=number))
    log.records.execute(RaiseFloor(slices("c.0#0"), Floor(number=30, epoch=29)))
    fresh = {"out": 4, "late": 35}
    gap = find_gap(log, DEPLOYMENT, OUT, first=0, fresh=fresh)
    line = str(refusal(log, DEPLOYMENT, gap, chosen=fresh))
    assert "run with --from 30 for what was to begin at epoch 4," in line
