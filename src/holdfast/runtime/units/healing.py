"""Slices whose files were lost, made again by whoever finds them so.

No coordinator is asked and nobody is told: what a repair needs is on record and in checkpoints that
every node can read. The reader that fails on a slice clones the state of the unit that made it,
runs the batch again and puts a repair (`holdfast.streams.repair`). Several may do so at once: the
first repair counts, and the others have worked in vain. What the batch itself reads may be lost as
well; then that is made again first, and so on upstream, as far as records and inputs are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from holdfast.errors import CheckFailedError
from holdfast.runtime.log.damage import Inputs

Tell: TypeAlias = Callable[[str], object]
"""Says what is being done, for who looks at the unit that waits for it."""


class NotHealedError(CheckFailedError):
    """A slice is lost for good, or until a person puts its files back."""

    def __init__(self, unit: str, number: int, what: str, why: str) -> None:
        super().__init__(f"{unit}: slice {number} is lost ({what}) and cannot be made again: {why}")


class NotCommittedError(CheckFailedError):
    """State that others are to go on with is not there and cannot be made."""

    def __init__(self, unit: str, batch: int, why: str) -> None:
        super().__init__(
            f"{unit}: its state after batch {batch} was never committed and cannot be made: {why}"
        )


class Healer(Protocol):
    """Makes again what was lost: slices, and state that was never committed."""

    def heal(self, inputs: Inputs, after: int, upto: int, *, heeded: int, tell: Tell) -> int | None:
        """See that the slices of a range are whole on these boundaries.

        Gives the epoch up to which the reader has to look for repairs; None if nothing was damaged
        and it has looked far enough, up to `heeded`. Raises `NotHealedError`.
        """
        ...

    def commit(self, unit: str, batch: int, *, tell: Tell) -> None:
        """See that some checkpoint of a unit has the state after a batch that it has published.

        It may have died before it had committed that. Then the batch is run again from its recorded
        range, and gives the rows that were published. Raises `NotCommittedError`.
        """
        ...


class NoHealer:
    """Where slices are only read, as in tests of a unit alone."""

    def heal(self, inputs: Inputs, after: int, upto: int, *, heeded: int, tell: Tell) -> int | None:  # noqa: ARG002 - as told
        return None

    def commit(self, unit: str, batch: int, *, tell: Tell) -> None:
        """Whoever needs the state says what is missing."""
