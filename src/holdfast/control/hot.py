"""Hot paths: segments that run all along, each on a node of its own, whether they carry or not.

They need no probe of their own making: one that is on trial is sound when it runs, nothing is found
wrong with it and it has caught up. One that is found to fail for long takes its node down with it:
it may leak.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.control.events import UnitReport
from holdfast.deployment import PATH_MARK, Deployment, UnitId

CAUGHT_UP = 2
"""One with at most so many epochs to take has caught up."""
ILL_S = 10.0
"""How long one may be found to fail before its node is killed."""

HotPaths = Mapping[str, tuple[str, str]]
"""Segment that is a hot path to its split and the name of the path."""


class HotLife:
    """Which segments are paths, which are on trial, which keep failing."""

    def __init__(self, segments: HotPaths) -> None:
        self.segments = segments
        self._places = set(segments.values())
        self._splits = {split for split, _ in segments.values()}
        self._trials: dict[tuple[str, str], int] = {}
        """With the number of the probe that each is."""
        self._ill: dict[tuple[str, int], float] = {}
        """Since when generations of units have been found to fail."""

    def has(self, split: str) -> bool:
        """Whether the paths of a split are hot."""
        return split in self._splits

    def place(self, unit: UnitId) -> tuple[str, str] | None:
        """The split and the path that a unit is of."""
        return self.segments.get(unit.segment)

    def try_out(self, place: tuple[str, str], number: int) -> bool:
        """A path is on trial from now on; False: it is none of these."""
        if place in self._places:
            self._trials[place] = number
        return place in self._places

    def end_trial(self, place: tuple[str, str]) -> None:
        self._trials.pop(place, None)

    def heard(
        self, place: tuple[str, str], told: UnitReport, now: float, *, ill: bool
    ) -> int | None:
        """A path that runs has told how it does; gives the trial that has ended well with it."""
        key = (str(told.unit), told.generation)
        if ill:
            self._ill.setdefault(key, now)
            return None
        self._ill.pop(key, None)
        if told.batch < 0 or told.waiting > CAUGHT_UP:
            return None
        return self._trials.pop(place, None)

    def keeps_failing(self, told: UnitReport, now: float) -> bool:
        """Whether it is time to kill the node of a path; said once."""
        key = (str(told.unit), told.generation)
        if now - self._ill.get(key, now) < ILL_S:
            return False
        del self._ill[key]
        return True

    def forget(self, before: float) -> None:
        """What was found before then, and is not heard of any more, is remembered no longer."""
        for key in [key for key, since in self._ill.items() if since < before]:
            del self._ill[key]


def hot_paths(deployment: Deployment) -> dict[str, tuple[str, str]]:
    """The segments of a deployment that are hot paths."""
    found = {item.name: item.path.partition(PATH_MARK) for item in deployment.segments}
    return {name: (split, path) for name, (split, _, path) in found.items() if path}
