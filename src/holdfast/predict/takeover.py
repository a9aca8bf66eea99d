"""Units that are lost together and brought back on the same cores, from the kill to the end.

One call of `bring_back` is one failure: every unit that was lost is built anew, plans its first
batch, waits until there is something to make a slice of, opens its state, makes up for what was
lost, and catches up, while all others do the same on the same cores (`sharing`). At most so many
are built at once, in the order given.

**Recovered** is a unit as `holdfast prove` measures it: the last late slice ends the recovery, or
the first one if none was late, and what a unit waited for before anything could be made does not
count. **Complete** counts the waiting for units that were lost too.

**Batches.** A slice that ends with an interval can be made when the interval is over and the slices
that it is made of are there. A batch that was recorded before the kill is made again as it was;
then a unit that is behind takes all that there is in one batch.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from holdfast.predict.sharing import Await, Compute, Sleep, Step, Task, Tell, share

MAX_BATCHES = 40
"""Batches after which a unit counts as one that never catches up."""
TOLERANCE = 0.25
TOLERANCE_S = 0.15
"""By how much a slice may be later than usual, as a share and at least; as `prove` has it."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """One unit that was lost, as one failure finds it; seconds alone on an idle machine, cores."""

    interval: float
    """Batch interval."""
    build: float
    """Until the unit runs."""
    plan: float
    """What its first batch takes longer before it has to have its input."""
    usual: float
    """What every batch takes before it has to have its input."""
    load: float
    """Opening and loading its state."""
    fixed: float
    """What a batch takes after that, whatever is in it."""
    work: float
    """The same per second of input."""
    build_cores: float
    batch_cores: float
    inputs: tuple[int, ...] = ()
    """Positions of the units it reads that were lost too."""
    outside: float = 0.0
    """How long after an interval is over those it reads that were not lost have published."""
    lag: float = 0.0
    """How long it takes as a rule from its input to its slice."""
    behind: float = 0.0
    """How long after an interval is over it has itself published, as a rule."""
    one_interval: bool = False
    """A batch never spans several."""


@dataclass(slots=True, kw_only=True)
class Back:
    """How one unit came back, seconds after the kill; infinite: never."""

    seconds: float = math.inf
    """Until nothing of it was missing, waiting not counted."""
    complete: float = math.inf
    """The same with the waiting for others that were lost too."""
    restore: float = math.inf
    """From the detection until it ran."""
    first: float = math.inf
    """From then until its first slice, waiting not counted."""
    catch_up: float = math.inf
    """From then until nothing was missing."""


@dataclass(slots=True, kw_only=True)
class _Published:
    """What one unit has published since: where its slices end, and when they came."""

    ends: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    settled: bool = False
    behind: float = 0.0

    def when(self, end: float) -> float | None:
        """When a slice was there that ends at or after this; None: it is not yet known."""
        for upto, at in zip(self.ends, self.times, strict=True):
            if upto >= end - _ROUNDING:
                return at
        return end + self.behind if self.settled else None

    def upto(self, now: float, interval: float) -> float:
        """How far it has published by now."""
        last = self.ends[-1] if self.ends else -math.inf
        if not self.settled:
            return last
        return last + max(0.0, _whole(now - self.behind - last, interval))


def bring_back(
    units: Sequence[Lost],
    *,
    detected: float,
    since: float,
    cores: float,
    busy: float = 0.0,
    at_once: float = math.inf,
) -> list[Back]:
    """Bring units back that were lost at time 0.

    Args:
        units: what was lost, in the order of building.
        detected: when the first may be built.
        since: how long before the kill the longest interval was over. Intervals divide one
            another, so it says where in its interval each unit was hit.
        cores: of the machine.
        busy: cores that survivors keep busy.
        at_once: how many may be built at once.
    """
    failure = _Failure(
        units=units,
        detected=detected,
        since=since,
        free=at_once,
        published=[_Published(behind=unit.behind) for unit in units],
        found=[Back() for _ in units],
        read=frozenset(producer for unit in units for producer in unit.inputs),
    )
    share([failure.bring(me) for me in range(len(units))], cores=cores, busy=busy)
    return failure.found


_GATE = "gate"


@dataclass(slots=True, kw_only=True)
class _Failure:
    """One failure of several units."""

    units: Sequence[Lost]
    detected: float
    since: float
    free: float
    """How many more may be built now."""
    published: list[_Published]
    found: list[Back]
    read: frozenset[int]
    """Units that others read which were lost too."""
    next: int = 0
    """Who is to be built next."""

    def bring(self, me: int) -> Task:
        """One unit from the kill until it has caught up."""
        unit, mine = self.units[me], self.published[me]
        yield from self._turn(me)
        runs = yield Compute(unit.build, unit.build_cores)
        self.free += 1
        if self.next < len(self.units):
            yield Tell((_GATE, self.next))
        ago = math.fmod(self.since, unit.interval)
        redo = ago < unit.behind
        upto = -ago - (unit.interval if redo else 0.0)
        seen = _Seen(runs=runs)
        for batch in range(MAX_BATCHES):
            ahead = unit.usual + (0.0 if batch else unit.plan)
            now = yield Compute(ahead, unit.batch_cores if batch else unit.build_cores)
            first_end = upto + unit.interval
            if unit.inputs or first_end + unit.outside > now:
                now = yield from self._input(unit, first_end)
            due, end = self._due(unit, first_end), first_end
            if not unit.one_interval and (batch or not redo):
                end = self._reach(unit, first_end, now)
            if not batch:
                yield Compute(unit.load, unit.build_cores)
            now = yield Compute(unit.fixed + unit.work * (end - upto), unit.batch_cores)
            seen.add(unit, at=now, due=due, end=first_end)
            upto = end
            mine.ends.append(end)
            mine.times.append(now)
            settled = now - self._due(unit, end) <= unit.interval + unit.lag
            mine.settled = settled and now - end <= unit.interval + unit.behind
            if mine.settled:
                seen.tell(self.found[me], self.detected)
            if me in self.read:
                yield Tell(me)
            if mine.settled:
                return

    def _turn(self, me: int) -> Task:
        """Wait until it may be built."""
        if me == 0:
            yield Sleep(self.detected)
        while self.next != me or self.free < 1:
            yield Await((_GATE, me))
        self.next += 1
        self.free -= 1
        if self.free >= 1 and self.next < len(self.units):
            yield Tell((_GATE, self.next))

    def _input(self, unit: Lost, end: float) -> Generator[Step, float, float]:
        """Wait until a slice can be made that ends there."""
        now = yield Sleep(end + unit.outside)
        for producer in unit.inputs:
            while True:
                at = self.published[producer].when(end)
                if at is not None and at <= now:
                    break
                now = yield Await(producer) if at is None else Sleep(at)
        return now

    def _reach(self, unit: Lost, end: float, now: float) -> float:
        """The last end up to which there is input, `end` at least."""
        reach = now - unit.outside
        for producer in unit.inputs:
            other = self.units[producer].interval
            reach = min(reach, self.published[producer].upto(now, other))
        return end + max(0.0, _whole(reach - end, unit.interval))

    def _due(self, unit: Lost, end: float) -> float:
        """When a slice could be made that ends there, as far as it is known."""
        when = end + unit.outside
        for producer in unit.inputs:
            at = self.published[producer].when(end)
            if at is not None:
                when = max(when, at)
        return when


@dataclass(slots=True, kw_only=True)
class _Seen:
    """What its slices tell about one unit."""

    runs: float
    first_at: float = math.nan
    waited: float = 0.0
    waited_alone: float = 0.0
    late_at: float = -math.inf
    late_alone_at: float = -math.inf

    def add(self, unit: Lost, *, at: float, due: float, end: float) -> None:
        """A slice came that was due, and whose first interval was over at `end`."""
        if math.isnan(self.first_at):
            self.first_at = at
            self.waited = max(0.0, due - self.runs)
            self.waited_alone = max(0.0, end - self.runs)
        if at - due > _late(unit.lag):
            self.late_at = at
        if at - end > _late(unit.behind):
            self.late_alone_at = at

    def tell(self, back: Back, detected: float) -> None:
        ended = max(self.first_at, self.late_at)
        back.restore = self.runs - detected
        back.first = self.first_at - self.waited - self.runs
        back.catch_up = ended - self.first_at
        back.seconds = ended - self.waited
        back.complete = max(self.first_at, self.late_alone_at) - self.waited_alone


def _whole(time: float, interval: float) -> float:
    """The whole intervals in it."""
    return math.floor(time / interval + _ROUNDING) * interval


def _late(usual: float) -> float:
    """How long after it was due a slice is late."""
    return usual + max(TOLERANCE_S, TOLERANCE * usual)
