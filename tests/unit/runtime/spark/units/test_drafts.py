"""Queries that are planned beforehand: one a unit, taken once, closed if nobody does."""

from __future__ import annotations

import threading

import pytest

from holdfast.runtime.spark.units.drafts import Drafts

pytestmark = pytest.mark.unit

WAIT_S = 10.0


class Query:
    """Stands for a planned query."""

    def __init__(self):
        self.closed = False

    def close(self):
        self.closed = True


class Planner:
    """Plans when it may, and counts."""

    def __init__(self, error=None):
        self.may, self.done = threading.Event(), threading.Event()
        self.made, self.error = [], error

    def __call__(self):
        assert self.may.wait(WAIT_S)
        self.made.append(Query())
        if self.error:
            raise self.error
        return self.made[-1]


def settle():
    """Until everything that was asked for is planned."""
    for thread in threading.enumerate():
        if thread.name.startswith("draft-"):
            thread.join(WAIT_S)
            assert not thread.is_alive()


def made(drafts, unit="count.0#0", error=None):
    plan = Planner(error)
    plan.may.set()
    drafts.ask(unit, plan)
    settle()
    return plan


def test_a_query_is_planned_once_and_taken_once():
    """Then another one may be asked for."""
    drafts = Drafts(wanted=True)
    plan = made(drafts)
    assert not made(drafts).made
    assert drafts.take("count.0#0") is plan.made[0]
    assert drafts.take("count.0#0") is None
    again = made(drafts)
    assert drafts.take("count.0#0") is again.made[0]
    assert not plan.made[0].closed


def test_who_needs_it_before_it_is_planned_does_without():
    """It stays for the next fork, and nobody waits."""
    drafts, plan = Drafts(wanted=True), Planner()
    drafts.ask("count.0#0", plan)
    assert drafts.take("count.0#0") is None
    plan.may.set()
    settle()
    assert drafts.take("count.0#0") is plan.made[0]


def test_a_spare_plans_at_once():
    """Whoever waits for it has nothing else to do; once planned, it is not planned again."""
    drafts, plan = Drafts(wanted=True), Planner()
    plan.may.set()
    for _ in range(2):
        drafts.make("count.0#0", plan)
    assert len(plan.made) == 1
    assert drafts.take("count.0#0") is plan.made[0]


def test_what_cannot_be_planned_is_told_and_not_tried_again(caplog):
    """The fork itself says what is wrong."""
    drafts = Drafts(wanted=True)
    made(drafts, error=ValueError("no column"))
    assert "count.0#0 cannot be planned beforehand: no column" in caplog.text
    assert drafts.take("count.0#0") is None
    assert not made(drafts).made


def test_a_unit_that_leaves_takes_its_query_along():
    """Also one that is still being planned."""
    drafts = Drafts(wanted=True)
    plan, late = made(drafts), Planner()
    drafts.drop("count.0#0")
    assert plan.made[0].closed
    drafts.ask("count.0#0", late)
    drafts.drop("count.0#0")
    late.may.set()
    settle()
    assert late.made[0].closed
    assert drafts.take("count.0#0") is None


def test_none_is_planned_where_none_is_wanted():
    """No forks in this run, or the node ends."""
    off = Drafts(wanted=False)
    assert not made(off).made
    ending, late = Drafts(wanted=True), Planner()
    first = made(ending, "a.0#0")
    ending.ask("b.0#0", late)
    ending.close()
    late.may.set()
    settle()
    assert first.made[0].closed
    assert late.made[0].closed
    assert not made(ending, "c.0#0").made


def test_java_that_has_gone_hinders_no_end():
    """Whoever ends goes on to end the rest."""
    drafts = Drafts(wanted=True)
    first, second = made(drafts, "a.0#0"), made(drafts, "b.0#0")

    def gone():
        raise ConnectionRefusedError

    first.made[0].close = gone
    drafts.close()
    assert second.made[0].closed
