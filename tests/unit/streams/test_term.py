"""Terms of the coordinator."""

from __future__ import annotations

import pytest

from holdfast.streams.steps import TERMS, Newest, Put, drive
from holdfast.streams.term import Terms, admits, journal_to_read, journals_to_remove
from holdfast.testing.hands.memory import Memory

pytestmark = pytest.mark.unit


def test_every_coordinator_gets_a_term_of_its_own():
    """Numbers rise, only the newest leads, and older terms are removed."""
    memory = Memory()
    first = drive(Terms("a").begin(), memory.execute)
    second = drive(Terms("b").begin(), memory.execute)
    assert (first.number, second.number) == (0, 1)
    assert not drive(Terms("a").leads(first), memory.execute)
    assert drive(Terms("b").leads(second), memory.execute)
    assert list(memory.folders[TERMS]) == [1]


@pytest.mark.parametrize("others", [1, 3])
def test_a_sleeper_that_claims_an_old_number_does_not_lead(others):
    """It looked for the newest term, slept, and finds its number free: old ones go."""
    memory = Memory()
    steps = Terms("sleeper").begin()
    operation = next(steps)
    assert operation == Newest(TERMS)
    operation = steps.send(memory.execute(operation))
    assert isinstance(operation, Put)
    for name in range(others):
        assert drive(Terms(f"c{name}").begin(), memory.execute) is not None
    assert drive(_from(operation, steps), memory.execute) is None
    assert list(memory.folders[TERMS]) == [others - 1]


def _from(operation, steps):
    """The rest of a decision that was stopped before an operation."""
    while True:
        result = yield operation
        try:
            operation = steps.send(result)
        except StopIteration as done:
            return done.value


def test_a_node_takes_no_command_of_an_older_term():
    """The same term, or a newer one."""
    assert admits(-1, 0)
    assert admits(3, 3)
    assert not admits(3, 2)


def test_a_term_goes_on_from_the_newest_journal_with_a_snapshot():
    """One without was begun by a coordinator that had decided nothing yet."""
    journals = {0: True, 1: True, 2: False, 3: False}
    assert journal_to_read(journals, 3) == 1
    assert journal_to_read({0: False}, 1) is None
    assert journals_to_remove(journals, 3) == []
    assert journals_to_remove({**journals, 3: True}, 3) == [0, 1, 2]
