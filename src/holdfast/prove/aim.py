"""Where and when a proof strikes: every unit in turn, at all points of its batch interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """The target of one fault."""

    unit: str
    phase: float
    """Share of the unit's batch interval that is to pass after a slice of it, in [0, 1)."""


def aims(units: Sequence[str], faults: int, rng: np.random.Generator) -> list[Aim]:
    """Units in turn; the phases of each unit fill [0, 1) evenly, in random order.

    With n faults on a unit, one falls into each n-th of its batch interval.
    """
    phases: dict[str, list[float]] = {}
    for i, unit in enumerate(units):
        count = len(range(i, faults, len(units)))
        strata = (rng.permutation(count) + rng.random(count)) / max(1, count)
        phases[unit] = [min(float(phase), math.nextafter(1.0, 0.0)) for phase in strata]
    return [
        Aim(unit=units[k % len(units)], phase=phases[units[k % len(units)]][k // len(units)])
        for k in range(faults)
    ]
