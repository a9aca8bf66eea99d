"""Hot paths: segments that run all along, each on a node of its own, whether they carry or not.

They need no probe of their own making: one that is on trial is sound when it runs, nothing is found
wrong with it and it has caught up. Whoever says so has watched it for a while: a coordinator that
has just taken over has found nothing, which says nothing. One that is found to fail for long takes
its node down with it: it may leak. One that has failed for good is shut down on the records, or it
would pin its input for ever, and begun again when somebody trusts it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.control.events import UnitReport
from holdfast.deployment import PATH_MARK, Deployment, UnitId

CAUGHT_UP = 2
"""One with at most so many epochs to take has caught up."""
WATCHED_S = 2.0
"""How long one must have been watched, at least, before it is found to be sound."""
ASK_S = 2.0
"""How often the records are asked again to have a path run, or not, if they did not answer."""
ILL_S = 10.0
"""How long one may be found to fail before its node is killed."""

HotPaths = Mapping[str, tuple[str, str]]
"""Segment that is a hot path to its split and the name of the path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watch:
    """Since when a generation of a unit is watched, and the batch it had ended then."""

    generation: int
    since: float
    batch: int


@dataclass(slots=True, kw_only=True)
class _Kept:
    runs: bool | None = None
    """As the records said last; None: not known."""
    asked: bool | None = None
    asked_at: float = 0.0


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
        self._kept: dict[str, _Kept] = {}
        """By segment: whether it runs, on the records."""
        self._watched: dict[str, _Watch] = {}
        """By unit."""
        self._sound: set[str] = set()
        """Units that were so when they were last heard of."""

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

    def of(self, split: str) -> list[tuple[str, str]]:
        """The segments of a split that are paths, with their names."""
        return [(name, path) for name, (of, path) in self.segments.items() if of == split]

    def to_keep(self, segment: str, now: float, *, runs: bool) -> bool:
        """Whether it must be asked for, now, that a path runs or does not."""
        known = self._kept.setdefault(segment, _Kept())
        again = known.asked is not runs or now - known.asked_at >= ASK_S
        if known.runs is runs or not again:
            return False
        known.asked, known.asked_at = runs, now
        return True

    def kept(self, segment: str, *, runs: bool) -> None:
        """The records say that a path runs, or does not."""
        known = self._kept.setdefault(segment, _Kept())
        known.runs = runs

    def heard(
        self, told: UnitReport, now: float, *, ill: bool, beside: Iterable[UnitId]
    ) -> int | None:
        """A unit of a path has told how it does; gives the trial that has ended well with it.

        `beside`: all units of the path, each of which must be sound.
        """
        key = (str(told.unit), told.generation)
        place = self.segments.get(told.unit.segment)
        if place is None:
            return None
        watch = self._watch(told, now)
        if ill:
            self._ill.setdefault(key, now)
        else:
            self._ill.pop(key, None)
        if ill or not _is_sound(told, watch, now):
            self._sound.discard(str(told.unit))
            return None
        self._sound.add(str(told.unit))
        if not all(str(unit) in self._sound for unit in beside):
            return None
        return self._trials.pop(place, None)

    def _watch(self, told: UnitReport, now: float) -> _Watch:
        """Another generation is another process: what was seen of the one before is past."""
        known = self._watched.get(str(told.unit))
        if known is None or known.generation != told.generation:
            known = _Watch(generation=told.generation, since=now, batch=told.batch)
            self._watched[str(told.unit)] = known
            self._sound.discard(str(told.unit))
        return known

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


def _is_sound(told: UnitReport, watch: _Watch, now: float) -> bool:
    """Whether a unit in which nothing is found wrong does its work."""
    if told.batch < 0 or told.waiting > CAUGHT_UP or now - watch.since < WATCHED_S:
        return False
    # Else it has done nothing so far with what it has got.
    return told.batch > watch.batch or told.waiting == 0


def hot_paths(deployment: Deployment) -> dict[str, tuple[str, str]]:
    """The segments of a deployment that are hot paths."""
    found = {item.name: item.path.partition(PATH_MARK) for item in deployment.segments}
    return {name: (split, path) for name, (split, _, path) in found.items() if path}
