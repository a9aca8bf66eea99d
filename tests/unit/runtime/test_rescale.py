"""Changes that rescale: which blocks are split and merged, whoever else asks at the same time."""

import json
from dataclasses import replace

import pytest
from tests.unit.runtime.deployments import COUNT, COUNTED, LINES

from holdfast.deployment import UnitId
from holdfast.deployment.blocks import even_blocks
from holdfast.deployment.slicefiles import GroupPart, SliceFile
from holdfast.errors import BadInputError
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.rescale import (
    announce,
    as_it_is,
    check_restating,
    heat,
    needs_restating,
    outcome,
    rescale,
    scalable,
    shape_of,
    split,
    under_way,
)
from holdfast.storage.memory import MemoryStorage
from holdfast.streams.handover import Birth
from holdfast.streams.records import Floor, Range, Seal, Slice
from holdfast.streams.steps import Delete, Put, RaiseFloor, changes, ranges, slices

pytestmark = pytest.mark.unit


def opened(store=None):
    log = SliceLog("run", store or MemoryStorage())
    begin(log, COUNTED)
    return log


def shape(log):
    return [(block.first, block.count) for block in sorted(shape_of(log, COUNT))]


def test_a_unit_is_split_into_blocks():
    """Each child owns its own ranks, and is named by the change."""
    log = opened()
    (change,) = rescale(log, COUNT, 2, reason="test")
    assert change.parents == ("count.0#0",)
    assert [(c.unit, c.groups) for c in change.children] == [
        ("count.1#0", (0, 64)),
        ("count.1#1", (64, 128)),
    ]
    assert shape(log) == [(0, 4), (4, 4)]
    assert rescale(log, COUNT, 2, reason="again") == []


def test_another_change_may_follow_before_the_first_is_done():
    """It goes on from the shape that will be: parents that are not born yet."""
    log = opened()
    rescale(log, COUNT, 2, reason="test")
    (change,) = rescale(log, COUNT, 3, reason="test", load=lambda block: -block.first)
    assert change.parents == ("count.1#0",)
    assert shape(log) == [(0, 2), (2, 2), (4, 4)]
    changes = rescale(log, COUNT, 1, reason="test")
    assert [set(change.parents) for change in changes] == [{"count.1#1", "count.2#0", "count.2#1"}]


def test_two_who_ask_at_once_do_not_disagree():
    """One's change takes the number; the other works out what is left to do."""
    store = MemoryStorage()
    mine, other = opened(store), opened(store)
    decided = rescale(other, COUNT, 4, reason="other")
    assert rescale(mine, COUNT, 4, reason="mine") == []
    assert len(decided) == 1
    assert len(decided[0].children) == 4


def test_a_change_that_comes_between_two_looks_is_heeded(monkeypatch):
    """Whoever has seen the shape before it must not take the number behind it."""
    store = MemoryStorage()
    mine, other = opened(store), opened(store)
    rescale(mine, COUNT, 4, reason="first")
    looks = []

    def look(log, segment):
        found = shape_of(log, segment)
        if log is mine and not looks:
            looks.append(log)
            rescale(other, COUNT, 3, reason="other")
        return found

    monkeypatch.setattr("holdfast.runtime.rescale.shape_of", look)
    rescale(mine, COUNT, 1, reason="mine")
    parents = [
        parent for change in mine.run(mine.steps().changes_of("count")) for parent in change.parents
    ]
    assert looks
    assert len(parents) == len(set(parents))


def test_given_blocks_are_taken_as_they_are():
    """An autoscaler says which; parts that do not depend on each other are changes of their own."""
    log = opened()
    rescale(log, COUNT, 4, reason="test")
    first, second = even_blocks(2, 8)
    changes = rescale(log, COUNT, [*first.halves, second], reason="test")
    assert [len(change.parents) for change in changes] == [2]
    assert shape(log) == [(0, 2), (2, 2), (4, 4)]


def hot(first):
    """All rows come to one partition."""
    return lambda block: float(block.first <= first < block.stop)


def test_one_shard_is_split_and_the_others_stay():
    """By its unit, or by its number where only one has it."""
    log = opened()
    rescale(log, COUNT, 2, reason="test")
    assert split(log, COUNT, "count#1", 2, hot(0)) == split(log, COUNT, "count.1#1", 2, hot(0))
    changes = rescale(log, COUNT, split(log, COUNT, "count.1#1", 3, hot(6)), reason="test")
    assert [change.parents for change in changes] == [("count.1#1",)]
    assert shape(log) == [(0, 4), (4, 2), (6, 1), (7, 1)]


@pytest.mark.parametrize(
    ("unit", "shards", "what"),
    [
        ("count.7#0", 2, "no such shard"),
        ("count#1", 2, "several shards are meant"),
        ("count.1#1", 5, "4 state partitions"),
    ],
)
def test_a_shard_that_cannot_be_meant_is_refused(unit, shards, what):
    """In one line that names those there are."""
    log = opened()
    rescale(log, COUNT, 2, reason="test")
    rescale(log, COUNT, split(log, COUNT, "count.1#0", 2, hot(0)), reason="test")
    with pytest.raises(BadInputError, match=what):
        split(log, COUNT, unit, shards, hot(0))


def test_what_is_hot_is_told_by_the_rows_of_the_input():
    """By key group and so by partition; without rows, by the number of partitions."""
    log = opened()
    assert heat(log, COUNTED, COUNT)(even_blocks(1, 8)[0]) > heat(log, COUNTED, COUNT)(
        even_blocks(2, 8)[0]
    )
    part = GroupPart(group=13, rows=40, offset=0, size=1, crc=0, digest=0)
    file = SliceFile(name="f", schema_size=1, schema_crc=0, parts=(part,))
    item = Slice(unit="lines.0#0", number=0, after=-1, upto=3, files={"lines@word": (file,)})
    log.run(_put(Put(slices("lines.0#0"), 0, item)))
    load = heat(log, COUNTED, COUNT)
    assert [load(block) > 1 for block in even_blocks(8, 8)] == [p == 13 % 8 for p in range(8)]


def publish(log, unit, number, after, upto):
    log.run(
        _put(Put(ranges(unit), number, Range(unit=unit, number=number, after=after, upto=upto)))
    )
    item = Slice(unit=unit, number=number, after=after, upto=upto)
    log.run(_put(Put(slices(unit), number, item)))


def _put(operation):
    yield operation


def test_a_change_is_done_when_its_children_publish():
    """Until then nothing is said of it."""
    log = opened()
    publish(log, "count.0#0", 0, -1, 3)
    (change,) = rescale(log, COUNT, 2, reason="test")
    assert under_way(log, "count") == [change]
    announce(log, [change])  # nobody is there to start its children: its parents turn at once
    assert outcome(log, change) is None
    steps = log.steps()
    position = log.run(steps.position_at("count.0#0", 1))
    ended = log.run(steps.next_step("count.0#0", position, (), lambda *_: None))
    assert ended.why == "handed over"
    assert under_way(log, "count") == []
    born = log.run(log.steps().birth("count.1#0"))
    assert isinstance(born, Birth)
    assert (born.epoch, born.parents) == (3, (("count.0#0", 0),))
    assert outcome(log, change) is None
    for child in change.children:
        publish(log, child.unit, 0, 3, 4)
    found = outcome(log, change)
    assert found is not None
    assert found.epoch == 3


def test_a_change_is_done_also_when_its_first_slices_are_read_and_gone():
    """With short epochs that takes a second or two, and who asks looks every few seconds."""
    log = opened()
    publish(log, "count.0#0", 0, -1, 3)
    (change,) = rescale(log, COUNT, 2, reason="test")
    announce(log, [change])
    position = log.run(log.steps().position_at("count.0#0", 1))
    log.run(log.steps().next_step("count.0#0", position, (), lambda *_: None))
    for child in change.children:
        publish(log, child.unit, 0, 3, 4)
    assert outcome(log, change) is not None
    for unit in ("count.0#0", *(child.unit for child in change.children)):
        log.run(_put(RaiseFloor(slices(unit), Floor(number=1, epoch=4))))
        log.run(_put(Delete(slices(unit), 0)))
    found = outcome(log, change)
    assert found is not None
    assert (found.epoch, found.pause_s) == (3, 0.0)


def replace_count(**changes):
    return replace(COUNTED, segments=(LINES, replace(COUNT, **changes)))


def test_shards_of_a_new_shape_are_followed_where_some_were():
    """By their names alone: the first shape says which, later ones have other numbers."""
    some = replace(COUNT, shards=2, followers=(1,))
    first = [some.is_followed(UnitId.parse(f"count.0#{shard}")) for shard in (0, 1)]
    assert first == [False, True]
    assert some.is_followed(UnitId.parse("count.3#0"))
    assert not COUNT.is_followed(UnitId.parse("count.3#0"))
    assert replace(some, max_shards=1).is_followed(UnitId.parse("count.3#0"))
    assert not replace(some, paths=("a", "b")).is_followed(UnitId.parse("count.3#0"))


def test_what_cannot_be_scaled_is_refused():
    """Sources, operators without max_shards, numbers out of bounds."""
    assert scalable(COUNTED, "split") == COUNT
    with pytest.raises(BadInputError, match=r"fixed: a source that .*; scalable: count"):
        scalable(COUNTED, "lines")
    with pytest.raises(BadInputError, match="scalable: count"):
        scalable(COUNTED, "cuont")
    assert scalable(replace_count(followers=(0,)), "count").followers == (0,)
    for shards in (0, 9):
        with pytest.raises(BadInputError, match="1 to 8"):
            rescale(opened(), COUNT, shards, reason="test")


FIXED = replace(COUNT, operators=("count",), max_shards=1, key=("word",))


def begun(segment):
    log = SliceLog("run", MemoryStorage())
    begin(log, replace(COUNTED, segments=(LINES, segment)))
    return log


def told(change):
    return [(child.unit, child.groups, child.of) for child in change.children]


def test_beyond_its_partitions_all_of_an_operator_hands_over():
    """To the fewest partitions that will do; from there on shards are split and merged as ever."""
    log = begun(FIXED)
    assert needs_restating(log, FIXED, 3)
    (change,) = rescale(log, FIXED, 3, reason="test")
    blocks = even_blocks(3, 4)
    assert change.parents == ("count.0#0",)
    assert told(change) == [(f"count.1#{n}", b.groups, 4) for n, b in enumerate(blocks)]
    assert not needs_restating(log, FIXED, 4)
    (change,) = rescale(log, FIXED, 2, reason="test")
    assert change.parents == ("count.1#0", "count.1#1")
    assert {of for _, _, of in told(change)} == {4}
    (change,) = rescale(log, FIXED, 5, reason="test")
    assert set(change.parents) == {"count.1#2", "count.2#0"}
    assert [of for _, _, of in told(change)] == [8] * 5
    assert as_it_is(log, FIXED).max_shards == 8
    assert rescale(log, FIXED, 5, reason="test") == []


def passes_back(log, unit):
    return log.run(log.steps().passes_back(unit))


def test_what_is_asked_for_and_not_begun_is_taken_back():
    """By as many shards as there are: they get back what they had, however often others asked."""
    log = begun(FIXED)
    for shards in (3, 2, 5):
        rescale(log, FIXED, shards, reason="test")
    last = [child.unit for child in log.carriers("count")]
    assert not any(passes_back(log, unit) for unit in last)
    (change,) = rescale(log, FIXED, 1, reason="test")
    assert list(change.parents) == last
    assert told(change) == [(change.children[0].unit, (0, 128), 1)]
    assert rescale(log, FIXED, 1, reason="test") == []
    assert as_it_is(log, FIXED).max_shards == 1
    (change,) = rescale(log, FIXED, 2, reason="test")
    assert [of for _, _, of in told(change)] == [2, 2]


def test_one_who_goes_back_before_it_has_begun_is_known():
    """Its state need not lie by the key: it never runs a batch. Also while others do the same."""
    log = begun(FIXED)
    for shards in (3, 2, 5):
        rescale(log, FIXED, shards, reason="test")
    between = [f"count.{change}#0" for change in (1, 2, 3)]
    assert not any(passes_back(log, unit) for unit in between)
    rescale(log, FIXED, 1, reason="test")
    assert not any(passes_back(log, unit) for unit in between)  # nobody has run
    publish(log, "count.0#0", 0, -1, 3)
    assert all(passes_back(log, unit) for unit in between)
    log.run(
        _put(Put(slices("count.1#0"), 0, Seal(unit="count.1#0", number=0, change=2, how="run")))
    )
    assert all(passes_back(log, unit) for unit in between)
    assert not passes_back(log, "count.0#0")
    assert not passes_back(log, log.carriers("count")[0].unit)


def test_one_who_goes_on_to_yet_other_partitions_does_not_go_back():
    """Whoever is to run there tries it before anybody hands over."""
    log = begun(FIXED)
    publish(log, "count.0#0", 0, -1, 3)
    for shards in (3, 5, 3):
        rescale(log, FIXED, shards, reason="test")
    assert not any(passes_back(log, f"count.{change}#0") for change in (1, 2, 3))


def test_shards_that_have_begun_are_merged_as_ever():
    """What was laid out anew stays so."""
    log = begun(FIXED)
    rescale(log, FIXED, 3, reason="test")
    publish(log, "count.1#0", 0, 3, 4)
    (change,) = rescale(log, FIXED, 1, reason="test")
    assert told(change) == [("count.2#0", (0, 128), 4)]


def test_shards_of_one_partition_each_are_gone_back_to():
    """With the key groups that each of them had."""
    several = replace(FIXED, shards=3)
    log = begun(several)
    had = [child.groups for child in log.carriers("count")]
    rescale(log, several, 5, reason="test")
    (change,) = rescale(log, several, 3, reason="test")
    assert [(groups, of) for _, groups, of in told(change)] == [(groups, 1) for groups in had]


def test_shards_of_one_partition_each_become_others():
    """As many as there are is nothing to do; one is made of all of them."""
    several = replace(FIXED, shards=3)
    log = begun(several)
    assert len(log.carriers("count")) == 3
    assert rescale(log, several, 3, reason="test") == []
    with pytest.raises(BadInputError, match=r"cannot be split one by one; count=N, or declare"):
        split(log, several, "count#1", 2, hot(0))
    (change,) = rescale(log, several, 1, reason="test")
    assert len(change.parents) == 3
    assert told(change) == [("count.1#0", (0, 128), 1)]
    assert rescale(log, several, 1, reason="test") == []


def test_the_hottest_part_of_what_is_laid_out_anew_gets_most_shards():
    """Load is known by key group, whatever the partitions were."""
    log = begun(FIXED)
    (change,) = rescale(log, FIXED, 3, reason="test", load=lambda block: -block.first)
    assert [groups for _, groups, _ in told(change)] == [(0, 32), (32, 64), (64, 128)]


def test_how_state_lies_must_be_known_to_lay_it_out_anew():
    """Records of earlier versions do not say, and blocks of other partitions are not compared."""
    log = SliceLog("run", MemoryStorage())
    made = begun(FIXED)
    (first,) = made.run(made.steps().changes_of("count"))
    former = replace(first, children=tuple(replace(child, of=None) for child in first.children))
    log.records.execute(Put(changes("count"), 0, former))
    with pytest.raises(BadInputError, match="an earlier version began it"):
        rescale(log, FIXED, 2, reason="test")
    with pytest.raises(BadInputError, match="laid out anew meanwhile"):
        rescale(opened(), COUNT, even_blocks(2, 4), reason="test")


def test_state_without_its_key_is_not_laid_out_anew():
    """As the schema beside it says: it is refused before anything is put."""
    log = begun(FIXED)
    check_restating(log, FIXED)
    home = "checkpoints/count.0#0/000001"
    log.store.make_checkpoint(home)
    for names, fits in ((["window", "word"], True), (["Word"], False), (["field0"], True)):
        fields = [{"name": name, "type": "string"} for name in names]
        schema = json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))
        log.store.replace(f"{home}/state/0/0/_metadata/schema", b"\x00\x02" + schema.encode())
        if fits:
            check_restating(log, FIXED)
        else:
            with pytest.raises(BadInputError, match=r"kept by Word, in which its key \(word\)"):
                check_restating(log, FIXED)
