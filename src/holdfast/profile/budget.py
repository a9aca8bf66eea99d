"""How long a profile may take, and how long it still will; pure.

What a profile does comes in stages whose length is known from experience, but for operators, of
which there may be two or twenty: each gets an equal share of what is left when the takeovers at the
end have theirs. How long is left is told by the operators that are done.
"""

from __future__ import annotations

from dataclasses import dataclass

LIMIT_S = 175.0
"""A profile of ten operators on a known machine."""
OPERATORS = 10
EACH_S = 10.0
"""More time for each operator beyond ten."""
SPARE_S = 22.0
"""Starting a spare and rehearsing."""
TAKEOVER_S = 2.5
LEAST_S = 3.0
"""What an operator gets however little is left: less measures nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The time of one profile, seconds."""

    total_s: float
    operators: int
    """That are measured one by one."""

    @property
    def takeovers_s(self) -> float:
        """What comes after the operators."""
        return SPARE_S + TAKEOVER_S * self.operators

    def each_s(self, spent_s: float, done: int) -> float:
        """What the next operator may take."""
        left = self.total_s - self.takeovers_s - spent_s
        return max(LEAST_S, left / max(1, self.operators - done))

    def left_s(self, spent_s: float, done: int, operators_s: float) -> float:
        """How long it will take from here; `operators_s` is what those done have taken."""
        each = operators_s / done if done else self.each_s(spent_s, done)
        return each * (self.operators - done) + self.takeovers_s


def budget_for(operators: int) -> Budget:
    """What a profile of so many operators may take on a machine that is known."""
    return Budget(total_s=LIMIT_S + EACH_S * max(0, operators - OPERATORS), operators=operators)


def left_words(seconds: float) -> str:
    """Time left, as people say it."""
    if seconds < 55:
        return f"about {max(5, 5 * round(seconds / 5))} s left"
    minutes, rest = divmod(15 * round(seconds / 15), 60)
    return f"about {minutes} min{f' {rest} s' if rest else ''} left"
