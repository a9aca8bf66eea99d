"""Whether a number is still what it was expected to be: a two-sided CUSUM with hysteresis.

Given samples v of a number that was expected to be e, let x = (v - e) / e. Evidence that it is
larger is U <- max(0, U + x - k), for smaller the same with -x (Page 1954). The allowance k is what
does not count as a change. An alarm is raised when the evidence exceeds h, and from then on the
same sum counts evidence for the return, so that a number between the two levels does not flicker.

False alarms are bounded by how h is chosen. As long as nothing has changed, U is a random walk with
drift -k that is reflected at 0; by Lundberg's inequality, with normal noise of variance s^2, one
excursion of it exceeds h with probability at most exp(-2 k h / s^2). h is such that this is
`FALSE_ALARM`. The variance is that of successive differences (von Neumann 1941), which a change of
level does not inflate; so a number that is noisy by nature takes longer to be believed, and one
that is not is believed after `ENOUGH` samples.

Linear in the samples. Nothing is stored but the samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

ALLOWANCE = 0.15
"""Share by which a number may differ without being another one."""
FALSE_ALARM = 1e-6
"""Probability that an excursion of an unchanged number raises an alarm, at most."""
ENOUGH = 8
"""Samples of a change below which it is not believed."""
LEAST_EVIDENCE = 0.4
"""Evidence below which nothing is believed, however little noise there is."""

LARGEST = 1e9
"""Times what was expected beyond which nothing is larger: squares of it are still numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A number that is another one now."""

    first: int
    """Position of the first sample that belongs to the change."""
    larger: bool


def changed(
    values: Sequence[float], expected: float, *, least: float = 0.0, most: float = math.inf
) -> Change | None:
    """The change that the samples show at their end, if any.

    `least` is a difference that is nothing by itself, however small the number; no single sample
    counts for more than `most` times what was expected, for numbers that have outliers.
    """
    scale = max(expected, least / ALLOWANCE)
    if len(values) < ENOUGH or scale <= 0:
        return None
    largest = min(most - 1.0, LARGEST)
    shares = [min((value - expected) / scale, largest) for value in values]
    needed = max(LEAST_EVIDENCE, _variance(shares) * -math.log(FALSE_ALARM) / (2 * ALLOWANCE))
    return _last(shares, needed, 1.0) or _last(shares, needed, -1.0)


def _last(shares: Sequence[float], needed: float, sign: float) -> Change | None:
    """The alarm in one direction that is still on at the end."""
    evidence, began = 0.0, 0
    on, back = False, 0.0
    for position, share in enumerate(shares):
        beyond = sign * share - ALLOWANCE
        if on:
            back = max(0.0, back - beyond)
            if back > needed:
                on, evidence, began = False, 0.0, position + 1
            continue
        if evidence + beyond <= 0.0:
            evidence, began = 0.0, position + 1
            continue
        evidence += beyond
        if evidence > needed and position + 1 - began >= ENOUGH:
            on, back = True, 0.0
    return Change(first=began, larger=sign > 0) if on else None


def _variance(shares: Sequence[float]) -> float:
    """Of the noise, whatever the level does."""
    steps = [(b - a) ** 2 for a, b in pairwise(shares)]
    return sum(steps) / (2 * len(steps))
