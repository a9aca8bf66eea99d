"""An agenda gives what is due, once, and does not grow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.health.agenda import SLACK, Agenda

pytestmark = pytest.mark.unit


def test_what_is_due_is_given_once():
    """An entry comes up at its moment and is gone until it is set again."""
    agenda = Agenda()
    agenda.set("a", 2.0)
    assert agenda.due(1.9) == []
    assert agenda.due(2.0) == ["a"]
    assert agenda.due(9.0) == []
    assert "a" not in agenda


def test_the_earliest_moment_counts():
    """A later moment changes nothing, an earlier one does, and a dropped entry never comes up."""
    agenda = Agenda()
    agenda.set("a", 5.0)
    agenda.set("a", 9.0)
    agenda.set("b", 5.0)
    agenda.set("b", 1.0)
    agenda.set("c", 1.0)
    agenda.drop("c")
    assert agenda.due(1.0) == ["b"]
    assert agenda.due(5.0) == ["a"]
    assert len(agenda) == 0


def test_no_more_than_asked_for_are_given():
    """The most overdue come first, the others next time."""
    agenda = Agenda()
    for at in (3.0, 1.0, 2.0):
        agenda.set(f"at {at:g}", at)
    assert agenda.due(9.0, most=2) == ["at 1", "at 2"]
    assert agenda.due(9.0, most=2) == ["at 3"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["set", "drop", "due"]), st.sampled_from("abc"), st.integers(0, 9)
        )
    )
)
def test_it_agrees_with_a_table_of_moments(steps):
    """After any steps exactly the names whose moment has come are due."""
    agenda, table = Agenda(), {}
    for step, name, at in steps:
        if step == "set":
            agenda.set(name, float(at))
            table[name] = min(at, table.get(name, at))
        elif step == "drop":
            agenda.drop(name)
            table.pop(name, None)
        else:
            expected = {key for key, moment in table.items() if moment <= at}
            assert sorted(agenda.due(float(at))) == sorted(expected)
            table = {key: moment for key, moment in table.items() if key not in expected}


def test_earlier_and_earlier_moments_leave_no_heap():
    """Entries out of date are forgotten."""
    agenda = Agenda()
    for step in range(5000):
        agenda.set("a", 10_000.0 - step)
    assert len(agenda._heap) <= SLACK + 3
