"""Whether a mistake ends the making of a pipeline, or is put down so that all are told at once.

A pipeline is made by its author's own script, in which the first exception ends everything. To tell
all mistakes at once, `holdfast check` loads the script while problems are collected: whoever finds
one reports it and goes on with something that is good enough to look further.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from holdfast.errors import BadInputError

_COLLECTED: ContextVar[list[BadInputError] | None] = ContextVar("collected", default=None)


@contextmanager
def collecting() -> Iterator[list[BadInputError]]:
    """Within it, `report` puts problems into the list it gives."""
    found: list[BadInputError] = []
    token = _COLLECTED.set(found)
    try:
        yield found
    finally:
        _COLLECTED.reset(token)


def report(problem: BadInputError) -> None:
    """Raise a problem, or put it down while problems are collected: one per place.

    What else is wrong at a place is often a consequence of the first.
    """
    found = _COLLECTED.get()
    if found is None:
        raise problem
    if not problem.where or all(problem.where != other.where for other in found):
        found.append(problem)
