"""How long a profile may take and still will."""

from __future__ import annotations

import pytest

from holdfast.profile.budget import LEAST_S, LIMIT_S, Budget, budget_for, left_words

pytestmark = pytest.mark.unit


def test_operators_share_what_takeovers_leave():
    """Whatever was spent before, operators and takeovers end within the total."""
    budget = budget_for(10)
    spent = 60.0
    for done in range(10):
        spent += budget.each_s(spent, done)
    assert spent + budget.takeovers_s == pytest.approx(LIMIT_S)


def test_an_operator_gets_something_however_late_it_is():
    """A budget that is used up still lets every operator be measured."""
    assert budget_for(10).each_s(1000.0, 3) == LEAST_S


def test_more_operators_get_more_time():
    """Ten operators have the limit, each one more has its own share."""
    assert budget_for(4).total_s == LIMIT_S
    assert budget_for(12).total_s > LIMIT_S


def test_what_is_left_follows_those_that_are_done():
    """Slow operators make the estimate longer."""
    budget = Budget(total_s=200.0, operators=4)
    assert budget.left_s(100.0, 2, 20.0) == 20.0 + budget.takeovers_s
    assert budget.left_s(100.0, 2, 60.0) == 60.0 + budget.takeovers_s


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "about 5 s left"),
        (42, "about 40 s left"),
        (61, "about 1 min left"),
        (80, "about 1 min 15 s left"),
        (150, "about 2 min 30 s left"),
    ],
)
def test_time_left_is_rounded(seconds, words):
    """Nobody wants to know the second."""
    assert left_words(seconds) == words
