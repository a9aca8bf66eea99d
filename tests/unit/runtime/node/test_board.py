"""The board keeps a node's heartbeats truthful and its commands in order."""

import pytest

from holdfast.control.events import UnitReport
from holdfast.deployment import UnitId
from holdfast.errors import BadInputError
from holdfast.runtime.node.board import MAX_ERROR, STUCK_S, Board
from holdfast.runtime.node.hosts import find_host

pytestmark = pytest.mark.unit

UNIT = UnitId(segment="count")


def status(**changes):
    values = {"unit": UNIT, "generation": 1, "state": "running", "batch": 3, "epoch": 3}
    return UnitReport(**{**values, **changes})


def test_a_start_is_taken_once_and_never_backwards():
    """Repeated or older starts are ignored, also after a stop."""
    board = Board()
    assert board.want(UNIT, 2)
    assert not board.want(UNIT, 2)
    assert not board.want(UNIT, 1)
    assert board.unwant(UNIT, 2)
    assert not board.want(UNIT, 2)
    assert board.want(UNIT, 3)


def test_a_stop_concerns_its_generation_only():
    """A stop of an old generation leaves the present one alone."""
    board = Board()
    board.want(UNIT, 2)
    assert not board.unwant(UNIT, 1)
    assert board.reports(0.0) == (UnitReport(unit=UNIT, generation=2, state="starting"),)
    assert board.unwant(UNIT, 2)
    assert board.reports(0.0) == ()
    assert not board.unwant(UNIT, 2)


def test_what_an_old_generation_says_is_not_told():
    """The host may still list the failed generation; only the wanted one is reported."""
    board = Board()
    board.want(UNIT, 2)
    assert board.update([status(generation=1, state="failed")], 0.0) == []
    (changed,) = board.update([status(generation=2)], 0.0)
    assert changed.epoch == 3
    assert board.update([status(generation=2, rows_in=7)], 0.0) == []
    assert board.reports(0.0)[0].rows_in == 7


def test_a_host_that_does_not_answer_is_reported_as_work_undone():
    """After `STUCK_S` without an answer running units count as having an epoch waiting."""
    board = Board()
    board.want(UNIT, 1)
    board.update([status(waiting=0)], 10.0)
    assert board.reports(10.0 + STUCK_S)[0].waiting == 0
    assert board.reports(10.1 + STUCK_S)[0].waiting == 1
    board.update([status(waiting=0)], 20.0)
    assert board.reports(20.0)[0].waiting == 0


def test_a_refused_start_is_a_failure_that_stays():
    """A start that raises is reported, and a later poll without news does not hide it."""
    board = Board()
    board.want(UNIT, 1)
    board.failed(UNIT, 1, "x" * (MAX_ERROR + 10) + "boom", "parse")
    board.update([status(state="starting")], 0.0)
    (report,) = board.reports(0.0)
    assert report.state == "failed"
    assert report.error.endswith("boom")
    assert len(report.error) == MAX_ERROR
    assert report.operator == "parse"


def test_why_a_unit_stopped_is_told_and_stays():
    """A reason is news even if it comes after the state, and a later poll does not lose it."""
    board = Board()
    board.want(UNIT, 1)
    board.update([status()], 0.0)
    assert [told.error for told in board.update([status(state="stopped")], 0.0)] == [None]
    (told,) = board.update([status(state="stopped", error="replaced by 2")], 0.0)
    assert (told.state, told.error) == ("stopped", "replaced by 2")
    assert board.update([status(state="stopped")], 0.0) == []
    assert board.reports(0.0)[0].error == "replaced by 2"


def test_a_report_is_passed_on_as_it_is():
    """What the host tells is what the coordinator hears, but for the beginning of a long error."""
    board = Board()
    board.want(UNIT, 1)
    told = status(rows_in=1, rows_out=2, batch_ms=3.5, waiting=4, work=6, operator="op")
    board.update([told], 0.0)
    assert board.reports(0.0) == (told,)
    long = status(state="failed", error="x" * MAX_ERROR + "boom")
    board.update([long], 0.0)
    (report,) = board.reports(0.0)
    assert (len(report.error), report.error[-4:]) == (MAX_ERROR, "boom")


def test_unknown_hosts_are_refused():
    """A host that does not exist is one clear line."""
    assert callable(find_host("fake"))
    with pytest.raises(BadInputError, match="unknown host 'sparkle'"):
        find_host("sparkle")
    with pytest.raises(BadInputError, match="cannot import nowhere"):
        find_host("nowhere:create")
    with pytest.raises(BadInputError, match="has no function nothing"):
        find_host("holdfast.testing.fake_host:nothing")
