"""Dividing rows until those are found on which a function fails; free of Spark.

Problem: of n rows some make a run fail; find those that do so on their own, with few runs, each of
which tells only whether it failed. Failing parts are divided until they are one row, a few parts at
a time: k bad rows take O(k log n) runs.

The time is bounded. A search that is stopped has found some of the rows, each of them for certain:
leaving them out is a step forward that lasts, and the next search goes on with the others. One that
finds nothing is given up, as rows that fail only together are never found; and so is one in which
rows from all over the batch fail, as then the function fails on everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

WAYS = 8
"""Into how many parts failing rows are divided: a failing run costs a Python worker, so several
times as much as one that succeeds; many small parts need few failing runs."""
TOGETHER = 4
"""Runs at a time: planning a run is work for one core."""
SEARCH_S = 120.0
"""A search that has found something ends after this long; far below what counts as a stall."""
MAX_RUNS = 400
"""A search that has found nothing in so many runs is given up."""
SUSPICIOUS = 20
"""After so many bad rows the search looks whether there are good ones."""
SAMPLE = 12
"""Rows that it looks at for that, from all over the batch."""

_GOLDEN = (5**0.5 - 1) / 2

Place = tuple[str, int]
"""Boundary, and position of a row in reading order."""


class SearchEndedError(Exception):
    """The search was given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """How far a search has come."""

    found: int
    left: int
    """Rows in parts that failed or were not looked at yet."""
    runs: int


def isolate(
    places: Sequence[Place],
    fail: Callable[[Sequence[Sequence[Place]]], Sequence[bool]],
    *,
    now: Callable[[], float],
    tell: Callable[[Reached], None] | None = None,
    max_runs: int = MAX_RUNS,
) -> list[Place]:
    """Rows that fail on their own, sorted; empty if they fail only together.

    `fail` runs several parts and tells which of them fail; `now` is a clock, in seconds.
    """
    began, runs = now(), 0
    found: list[Place] = []
    pending: list[Sequence[Place]] = [places] if places else []
    sampled = len(places) <= SUSPICIOUS + SAMPLE
    while pending:
        if found and now() - began > SEARCH_S:
            break
        if not found and runs >= max_runs:
            raise SearchEndedError(f"no row fails on its own in {runs} runs")
        if not sampled and len(found) >= SUSPICIOUS:
            sampled = True
            # At golden steps: bad rows may come at regular ones.
            spread = [[places[int(at * _GOLDEN % 1 * len(places))]] for at in range(SAMPLE)]
            if all(fail(spread)):
                raise SearchEndedError("the function fails on rows from all over the batch")
        if tell is not None:
            tell(Reached(found=len(found), left=sum(map(len, pending)), runs=runs))
        # From the end, where the first rows are: single ones are reached early.
        parts, pending = pending[: -TOGETHER - 1 : -1], pending[:-TOGETHER]
        runs += len(parts)
        failing = [part for part, failed in zip(parts, fail(parts), strict=True) if failed]
        found += [part[0] for part in failing if len(part) == 1]
        for part in reversed([part for part in failing if len(part) > 1]):
            size = -(-len(part) // WAYS)
            divided = [part[at : at + size] for at in range(0, len(part), size)]
            pending += reversed(divided)
    return sorted(found)
