"""Units that are started at once take turns, in order."""

from __future__ import annotations

import threading

import pytest

from holdfast.runtime.units.turns import Turns

pytestmark = pytest.mark.unit

WAIT_S = 10.0


def entering(turns: Turns, ticket: int, order: list[int]) -> threading.Thread:
    def enter() -> None:
        turns.enter(ticket)
        order.append(ticket)

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    return thread


def test_whoever_asked_first_enters_first() -> None:
    """With one place each waits for the one before, whoever comes to the door first."""
    turns, order = Turns(1), list[int]()
    tickets = [turns.ask() for _ in range(3)]
    threads = [entering(turns, ticket, order) for ticket in reversed(tickets)]
    threads[-1].join(WAIT_S)
    assert order == [0]
    for thread in (threads[1], threads[0]):
        turns.leave()
        thread.join(WAIT_S)
    assert order == [0, 1, 2]


def test_whoever_withdraws_keeps_nobody_waiting() -> None:
    """A unit that needs no query, or failed before, gives up its turn."""
    turns, order = Turns(1), list[int]()
    first, second = turns.ask(), turns.ask()
    thread = entering(turns, second, order)
    assert thread.is_alive()
    turns.withdraw(first)
    thread.join(WAIT_S)
    assert order == [second]


def test_as_many_as_there_are_places_enter_at_once() -> None:
    """The third of three waits where there are two places."""
    turns, order = Turns(2), list[int]()
    threads = [entering(turns, turns.ask(), order) for _ in range(3)]
    for thread in threads[:2]:
        thread.join(WAIT_S)
    assert order == [0, 1] or order == [1, 0]  # noqa: PLR1714 - both have entered
    turns.leave()
    threads[2].join(WAIT_S)
    assert order[-1] == 2
