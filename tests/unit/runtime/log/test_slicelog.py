"""The log on real files: adoption, nondeterminism, floors, generations and trimming."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from tests.unit.runtime.log.logs import (
    DEPLOYMENT,
    A,
    X,
    Y,
    publish,
    put_range,
    put_ranges,
    raise_floor,
)

from holdfast.errors import CorruptLogError
from holdfast.runtime.log.slicelog import (
    EndedError,
    NondeterministicError,
    OtherSkipError,
    SliceLog,
    SupersededError,
)
from holdfast.runtime.log.trim import Trimmer
from holdfast.runtime.log.wiring import begin
from holdfast.storage.memory import MemoryStorage
from holdfast.streams.reading import TrimmedError
from holdfast.streams.records import Change, Child, Seal, Skip
from holdfast.streams.steps import Put, changes, ranges, slices
from holdfast.streams.unit import Ended

pytestmark = pytest.mark.unit


def test_losers_adopt_the_range_that_is_there(tmp_path):
    """Two writers of one number end up with the same range."""
    won = put_range(SliceLog(tmp_path), X, 0)
    assert won.upto == 0
    assert put_range(SliceLog(tmp_path), X, 0, upto=7) == won


def test_the_same_rows_again_are_accepted_and_others_reported(tmp_path):
    """A redo with the same digest goes on; with another it names the unit and the batch."""
    publish(SliceLog(tmp_path), 0)
    publish(SliceLog(tmp_path), 0)
    with pytest.raises(NondeterministicError, match=r"a\.0#0: batch 0"):
        publish(SliceLog(tmp_path), 0, value=2)


def test_what_is_stored_can_be_adopted(tmp_path):
    """Where a redo may give other rows, the first ones count and nobody complains."""
    first = publish(SliceLog(tmp_path), 0)
    assert publish(SliceLog(tmp_path), 0, value=2, adopt=True) == first


@pytest.mark.parametrize("adopt", [False, True], ids=["", "chance"])
def test_a_slice_made_with_other_rows_left_out_is_told_apart(tmp_path, adopt):
    """It is no sign of nondeterminism, nor of chance: the state before it is another as well."""
    stored = publish(SliceLog(tmp_path), 0)
    with pytest.raises(OtherSkipError, match=r"with version 0 .* this run used version 2"):
        SliceLog(tmp_path).publish(replace(stored, files={}, digest="", skip="2"), adopt=adopt)


def test_a_slice_that_finds_a_seal_is_the_end_of_its_unit(tmp_path):
    """Nothing is published past a seal; the error says who goes on."""
    log = SliceLog(tmp_path)
    begin(log, DEPLOYMENT)
    child = Child(unit="a.1#0", segment="a", groups=(0, 128))
    change = Change(stream="a", number=1, how="halt", children=(child,))
    log.records.execute(Put(changes("a"), 1, change))
    seal = Seal(unit=A, number=0, change=1, how="halt")
    log.records.execute(Put(slices(A), 0, seal))
    with pytest.raises(EndedError, match=r"a\.0#0 was ended to a\.1#0: change 1") as error:
        publish(log, 0)
    assert error.value.heirs == ("a.1#0",)
    assert error.value.ended == Ended(why="sealed", change=1)


def test_skip_records_of_a_batch_are_numbered(tmp_path):
    """Each version is put once; the newest holds all rows; trimming removes them all."""
    one, two = SliceLog(tmp_path), SliceLog(tmp_path)
    begin(one, DEPLOYMENT)
    put_ranges(one, X, 4)
    assert one.newest_skip(X, 3) is None
    first = one.put_skip(Skip(unit=X, number=0, batch=3, rows={"a": (5,)}))
    assert two.put_skip(Skip(unit=X, number=0, batch=3, rows={"a": (6,)})) == first
    second = two.put_skip(Skip(unit=X, number=0, batch=3, version=2, rows={"a": (5, 9)}))
    assert one.newest_skip(X, 3) == second
    assert one.skip(X, 3, 1) == first
    assert one.skipping(X) == [3]
    put_ranges(one, X, 40)
    Trimmer(one, DEPLOYMENT, retain=3).trim(X)
    assert one.skip(X, 3, 1) is None
    assert one.skip(X, 3, 2) is None
    with pytest.raises(SupersededError):
        two.put_skip(Skip(unit=X, number=0, batch=3, version=3))


def test_a_sink_has_a_life_until_its_records_are_gone(tmp_path):
    """All who ask get the same id; a reset, which removes the unit's records, ends it."""
    log = SliceLog(tmp_path)
    assert log.known_life(X) is None
    life = log.life(X)
    assert SliceLog(tmp_path).life(X) == log.known_life(X) == life
    shutil.rmtree(tmp_path / "units" / X)
    assert log.life(X) != life


def test_a_sum_rounded_otherwise_is_the_same_row_and_the_stored_one_counts(tmp_path):
    """Another last bit of a float is no other row; another float, or key, or number is."""
    stored = publish(SliceLog(tmp_path), 0, value=0.1 + 0.2)
    assert publish(SliceLog(tmp_path), 0, value=0.3) == stored
    with pytest.raises(NondeterministicError, match=r"a\.0#0: batch 0"):
        publish(SliceLog(tmp_path), 0, value=0.3001)


def test_a_torn_record_is_named(tmp_path):
    """A record cut short is an error that gives its path."""
    log = SliceLog(tmp_path)
    put_range(log, X, 0)
    path = tmp_path / "units" / X / "ranges" / "0000000000"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CorruptLogError) as error:
        log.range(X, 0)
    assert error.value.path == str(path)


def test_a_newer_generation_stops_the_older(tmp_path):
    """Only the newest claim is current."""
    log = SliceLog(tmp_path)
    log.claim(X, 1)
    log.check_current(X, 1)
    log.claim(X, 2)
    log.check_current(X, 2)
    with pytest.raises(SupersededError):
        log.check_current(X, 1)


def test_a_claim_counts_for_one_writer(tmp_path):
    """A generation that was handed out twice has one owner; replicas are claimed apart."""
    SliceLog(tmp_path).claim(X, 1)
    with pytest.raises(SupersededError, match="generation 1 was claimed by"):
        SliceLog(tmp_path).claim(X, 1)
    SliceLog(tmp_path).claim(X, 1, replica=1)


def test_trimming_waits_for_the_slowest_consumer(tmp_path):
    """Nothing is removed before every consumer is well past it, then records and files go."""
    log = SliceLog(tmp_path)
    begin(log, DEPLOYMENT)
    trimmer = Trimmer(log, DEPLOYMENT, retain=3)
    for number in range(40):
        publish(log, number)
    put_ranges(log, X, 40)
    trimmer.trim(A)
    assert log.slice(A, 0) is not None  # y has not even started
    put_ranges(log, Y, 20)
    trimmer.trim(A)
    oldest = 19 - 3 - 2
    assert log.slice(A, oldest - 1) is None
    assert log.slice(A, oldest) is not None
    assert len(log.data(A, "a").names("")) == 40 - oldest


def all_read(folder):
    """A log of 40 batches, all of which both readers have taken."""
    log = SliceLog(folder)
    begin(log, DEPLOYMENT)
    for number in range(40):
        publish(log, number)
    for unit in (X, Y):
        put_ranges(log, unit, 40)
    return log


def test_kept_input_is_never_trimmed(tmp_path):
    """With keep_input what sources published stays."""
    log = all_read(tmp_path)
    Trimmer(log, DEPLOYMENT, retain=3, keep_input=True).trim(A)
    assert log.slice(A, 0) is not None


def test_a_trimmed_number_cannot_be_put_again(tmp_path):
    """A zombie that missed the trim is refused instead of deciding a batch twice."""
    log = all_read(tmp_path)
    trimmer = Trimmer(log, DEPLOYMENT, retain=3)
    trimmer.trim(X)
    trimmer.trim(A)
    assert put_range(SliceLog(tmp_path), X, 2) == Ended(why="left behind")
    with pytest.raises(SupersededError):
        publish(SliceLog(tmp_path), 2)
    assert log.newest_batch(X) == 39


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
    if what == "skip":
        put_ranges(log, X, 4)
    folder = slices(A) if what == "slice" else ranges(X)
    store.meanwhile = lambda: raise_floor(log, folder, 7)
    put = {
        "range": lambda: put_range(log, X, 3),
        "slice": lambda: publish(log, 3),
        "skip": lambda: log.put_skip(Skip(unit=X, number=0, batch=3)),
    }
    with pytest.raises((SupersededError, TrimmedError)):
        put[what]()
    assert store.names(f"units/{X}/skips") == []
    assert store.names(f"units/{A}/slices") == []
    assert what == "skip" or store.names(f"units/{X}/ranges") == []


def test_what_is_found_below_the_floor_does_not_exist(tmp_path):
    """Between such a put and its removal nobody may go by it."""
    log = SliceLog(tmp_path)
    put_ranges(log, X, 4)
    publish(log, 3)
    raise_floor(log, ranges(X), 7)
    raise_floor(log, slices(A), 7)
    assert log.range(X, 3) is None
    with pytest.raises(SupersededError):
        log.need_slice(A, 3)


@pytest.mark.parametrize("floor", [0, 3])
def test_a_missing_record_is_not_called_trimmed(tmp_path, floor):
    """What is not below the floor was removed or never put; the file is named."""
    log = SliceLog(tmp_path)
    raise_floor(log, ranges(X), floor)
    raise_floor(log, slices(A), floor)
    with pytest.raises(CorruptLogError, match=r"ranges/0000000003: is not there, .* never put"):
        log.need_range(X, 3)
    with pytest.raises(CorruptLogError, match=r"slices/0000000003: is not there, .* never put"):
        log.need_slice(A, 3)
    if floor:
        with pytest.raises(SupersededError, match="was trimmed"):
            log.need_range(X, 2)


def test_claims_do_not_pile_up(tmp_path):
    """However often a unit is taken over, one claim is left, and it is the newest."""
    for generation in range(1, 50):
        SliceLog(tmp_path).claim(X, generation)
    log = SliceLog(tmp_path)
    assert log.store.names(f"units/{X}/claims-0") == ["0000000049"]
    with pytest.raises(SupersededError):
        log.claim(X, 40)  # a zombie that starts late
    log.check_current(X, 49)
