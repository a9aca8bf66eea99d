"""The leader's seat on real files: terms are claimed once, journals go from hand to hand."""

from dataclasses import replace

import pytest

from holdfast.control.commands import EndFork, PutFork
from holdfast.control.facts import Opened, TermBegan
from holdfast.control.shell.journal import HEADER, encode, read
from holdfast.control.shell.seat import DeposedError, Seat, newest_term
from holdfast.deployment import UnitId
from holdfast.rundir.contents import journal_path, journals
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.streams.fork import ForkSteps, find_fork

pytestmark = pytest.mark.unit


def seat(run_dir, holder):
    return Seat(run_dir, pipeline="p", holder=holder)


def opened(launch):
    return Opened(at=1.0, cause="c", launch=launch)


def test_the_first_leader_begins_with_nothing(tmp_path):
    """It has term 0, and a journal of its own that only its owner may read."""
    first = seat(tmp_path, "a")
    state = first.take()
    assert state.run.launch == ""
    assert first.term == newest_term(tmp_path) == 0
    assert journal_path(tmp_path, 0).stat().st_mode & 0o777 == 0o600
    first.leave()


def test_a_successor_goes_on_from_what_was_decided(tmp_path):
    """Its snapshot has it, and the journal before is removed."""
    first, second = seat(tmp_path, "a"), seat(tmp_path, "b")
    first.take()
    first.decide([opened("L1")])
    state = second.take()
    assert state.run.launch == "L1"
    assert list(journals(tmp_path)) == [1]
    assert read(journal_path(tmp_path, 1)).state == state
    for one in (first, second):
        one.leave()


def test_a_deposed_leader_is_told_before_it_acts(tmp_path):
    """What it still writes is in no journal that anyone reads."""
    first, second, third = (seat(tmp_path, name) for name in "abc")
    first.take()
    first.check()
    second.take()
    with pytest.raises(DeposedError, match="term 0 is over, 1 has begun"):
        first.check()
    with pytest.raises(DeposedError, match="term 0 is over, 1 has begun"):
        first.decide([opened("late")])
    assert third.take().run.launch == ""
    for one in (first, second, third):
        one.leave()


def test_a_deposed_leader_that_compacts_changes_nothing(tmp_path):
    """Its journal may come back under its old name; nobody reads it."""
    first, second, third = (seat(tmp_path, name) for name in "abc")
    state = first.take()
    second.take()
    second.decide([opened("L2")])
    state.apply(TermBegan(at=1.0, cause="c", term=7, coordinator="a"))
    first._journal.compact(state)
    assert list(journals(tmp_path)) == [0, 1]
    assert third.take().run.launch == "L2"
    assert list(journals(tmp_path)) == [2]
    for one in (first, second, third):
        one.leave()


def test_a_run_from_before_terms_is_gone_on_with(tmp_path):
    """Its only journal is read, and replaced by that of the first term."""
    path = journal_path(tmp_path, -1)
    path.parent.mkdir()
    fact = {"kind": "opened", "at": 1.0, "cause": "c", "launch": "old"}
    path.write_bytes(HEADER + encode(0, {"facts": [fact]}))
    first = seat(tmp_path, "a")
    assert first.take().run.launch == "old"
    assert list(journals(tmp_path)) == [0]
    first.leave()


def test_nothing_is_decided_without_a_term(tmp_path):
    """One that never led cannot write."""
    with pytest.raises(DeposedError, match="no term"):
        seat(tmp_path, "a").decide([opened("L")])


def test_forks_are_put_where_units_look_for_them(tmp_path):
    """The record of a fork, and its end; giving the command again changes nothing."""
    seat = Seat(tmp_path, pipeline="p", holder="c0")
    seat.take()
    put = PutFork(
        cause="e",
        fork=1,
        units=(UnitId.parse("count+1.0#0"),),
        silent=(UnitId.parse("lines.0#1"),),
        patience_s=2.0,
        reason="gone",
    )
    seat.keep(put)
    seat.keep(replace(put, reason="again"))
    log = SliceLog(tmp_path)
    found = log.run(find_fork(1))
    assert found is not None
    assert (found.units, found.silent) == (("count+1.0#0",), ("lines.0#1",))
    assert found.reason == "gone"
    steps = ForkSteps(found, "count+1.0#0")
    assert log.run(steps.ended()) is None
    seat.keep(EndFork(cause="e", fork=1, reason="caught up"))
    assert log.run(steps.ended()).reason == "caught up"
    seat.leave()
