"""Chores wait while a unit makes up for a loss, and not for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.runtime.units.chores import MOST_BATCHES, Chores

pytestmark = pytest.mark.unit


def test_a_unit_that_keeps_up_does_them_when_they_are_due():
    """Nothing waits where nothing was missed."""
    chores = Chores()
    chores.made_batch(behind=False)
    assert not chores.take("trim", due=False)
    assert chores.take("trim", due=True)
    assert not chores.take("trim", due=False)


def test_what_came_due_while_it_was_behind_is_done_once():
    """After the first batch that leaves nothing to do, however often it was due before."""
    chores = Chores()
    for _ in range(3):
        chores.made_batch(behind=True)
        assert not chores.take("trim", due=True)
    chores.made_batch(behind=False)
    assert chores.take("trim", due=False)
    assert not chores.take("trim", due=False)
    assert not chores.take("size", due=False)


def test_once_it_has_caught_up_load_does_not_hold_them_up():
    """A busy hour is no recovery."""
    chores = Chores()
    chores.made_batch(behind=False)
    chores.made_batch(behind=True)
    assert chores.take("trim", due=True)


@given(st.lists(st.booleans(), min_size=MOST_BATCHES, max_size=60))
def test_a_unit_that_never_catches_up_does_them_all_the_same(due):
    """At most so many batches late, and each that was due is done."""
    chores = Chores()
    owed = 0
    for number, now in enumerate(due, start=1):
        chores.made_batch(behind=True)
        owed = 1 if now else owed
        done = chores.take("trim", due=now)
        assert done == bool(owed and number >= MOST_BATCHES)
        owed = 0 if done else owed
