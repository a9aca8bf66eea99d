"""The rules that come with Holdfast, one class each; `profile` has the one that learns.

A rule looks at one operator's history and says in a few words what is wrong, or nothing. It asks
for a while to be bad, not for a moment, and never rests on a single sample. The first four are
Pathfinder's; errors, trends and leaks are ours.
"""

from __future__ import annotations

import abc
import itertools
from dataclasses import dataclass

from holdfast.health.nexus.history import History, Sample

MB = 2**20
STEPS = 3
"""In so many steps memory must have grown for that to be a leak."""
STEPS_S = 0.35
"""And from the first to the last of them, so long: one allocation is seen in many steps where it is
measured often."""


class Rule(abc.ABC):
    """Judges operators; entry points of the group `holdfast.nexus` name subclasses or instances."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """One or two words, unlike those of other rules."""

    @abc.abstractmethod
    def judge(self, operator: str, history: History) -> str | None:
        """What is wrong with an operator, or None."""

    def learn(self, operator: str, history: History) -> None:  # noqa: B027 - most learn nothing
        """All rules have found the operator sound at the last sample."""

    def forget(self, operator: str) -> None:  # noqa: B027 - most remember nothing
        """The operator is another one from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog(Rule):
    """Items wait above a maximum while the processor is idle: suspended, or waiting for someone."""

    most_waiting: int = 10
    least_cpu: float = 0.05
    hold_s: float = 2.0

    @property
    def name(self) -> str:
        return "backlog"

    def judge(self, operator: str, history: History) -> str | None:
        del operator
        idle = history.held(
            self.hold_s,
            lambda x: (
                x.waiting > self.most_waiting and x.cpu is not None and x.cpu < self.least_cpu
            ),
        )
        last = history.last
        if not idle or last is None:
            return None
        return f"{last.waiting} items wait while it uses {last.cpu or 0:.0%} of a core"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds(Rule):
    """Processor or memory use outside given bounds; without bounds it finds nothing."""

    least_cpu: float | None = None
    most_cpu: float | None = None
    most_memory_bytes: int | None = None
    hold_s: float = 1.0

    @property
    def name(self) -> str:
        return "bounds"

    def judge(self, operator: str, history: History) -> str | None:
        del operator
        last = history.last
        if last is None:
            return None
        if self._beyond(history, "cpu", self.most_cpu, 1):
            return f"uses {last.cpu:.2f} cores, the most is {self.most_cpu:.2f}"
        if self._beyond(history, "cpu", self.least_cpu, -1):
            return f"uses {last.cpu:.2f} cores, the least is {self.least_cpu:.2f}"
        if self._beyond(history, "memory_bytes", self.most_memory_bytes, 1):
            most_mb = (self.most_memory_bytes or 0) / MB
            return f"uses {(last.memory_bytes or 0) / MB:.0f} MB, the most is {most_mb:.0f} MB"
        return None

    def _beyond(self, history: History, field: str, bound: float | None, sign: int) -> bool:
        if bound is None:
            return False
        limit = bound

        def is_beyond(sample: object) -> bool:
            value = getattr(sample, field)
            return value is not None and sign * (value - limit) > 0

        return history.held(self.hold_s, is_beyond)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOutput(Rule):
    """Nothing comes out while items wait, for much longer than it usually takes.

    What waits at once, more than has come evenly meanwhile, may take as long as it took to arrive:
    one that has fallen behind, or whose input comes in a burst, takes much at once.
    """

    hold_s: float = 0.8
    usual: float = 3.0
    """How many times the longest pause between two outputs that it has shown before."""
    first_s: float = 60.0
    """How long an operator may take to its first output."""
    early_s: float = 10.0
    """Limit while it has given out less than `early` times in sight: it is warming up."""
    early: int = 8

    @property
    def name(self) -> str:
        return "no output"

    def judge(self, operator: str, history: History) -> str | None:
        del operator
        samples = history.recent(history.span_s)
        if len(samples) < 2:
            return None
        silent_s, longest_s, outputs = self._pauses(samples)
        least_s = self.hold_s if outputs >= self.early else max(self.hold_s, self.early_s)
        usual_s = max(least_s, self.usual * longest_s) + _backlog_s(samples, silent_s)
        limit_s = usual_s if outputs else self.first_s
        if silent_s < limit_s:
            return None
        return f"gave out nothing for {silent_s:.1f} s while items waited (limit {limit_s:.1f} s)"

    def _pauses(self, samples: list[Sample]) -> tuple[float, float, int]:
        """How long nothing has come out with items waiting; the longest before; outputs seen."""
        pause_s = longest_s = 0.0
        outputs = 0
        for before, after in itertools.pairwise(samples):
            if after.given > before.given:
                # The pause that led to the first output in sight began out of sight.
                longest_s = max(longest_s, pause_s) if outputs else longest_s
                outputs, pause_s = outputs + 1, 0.0
            elif before.waiting > 0 and after.waiting > 0:
                pause_s += after.at - before.at
            else:
                pause_s = 0.0
        return pause_s, longest_s, outputs


def _backlog_s(samples: list[Sample], silent_s: float) -> float:
    """How long what waits at once in a silence takes to arrive evenly; 0: not known."""
    first, last = samples[0], samples[-1]
    if first.arrived is None or last.arrived is None:
        return 0.0
    rate = (last.arrived - first.arrived) / (last.at - first.at)
    if rate <= 0:
        return 0.0
    start = last.at - silent_s
    silence = [sample for sample in samples if sample.at >= start]
    return max(0.0, *(sample.waiting / rate - (sample.at - start) for sample in silence))


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspended(Rule):
    """A process of it is stopped: it will do nothing until somebody wakes it."""

    hold_s: float = 0.25

    @property
    def name(self) -> str:
        return "suspended"

    def judge(self, operator: str, history: History) -> str | None:
        del operator
        if not history.held(self.hold_s, lambda x: x.suspended > 0):
            return None
        last = history.last
        return f"{last.suspended if last else 0} of its processes are stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overload(Rule):
    """More comes than is processed, what waits has a rising trend, and it soon is too much."""

    span_s: float = 4.0
    margin: float = 0.3
    """How much more must come than is processed, as a share of what is processed."""
    least_waiting: int = 10
    """What waits must be above this at the end."""
    horizon_s: float = 10.0
    """What waits, at the present rates, takes longer than this to work off."""
    outputs: int = 2
    """It must have given out so often in the span: what is done is known batch by batch."""

    @property
    def name(self) -> str:
        return "overload"

    def judge(self, operator: str, history: History) -> str | None:
        del operator
        last = history.last
        if last is None or last.arrived is None or not history.covers(self.span_s):
            return None
        samples = history.recent(self.span_s)
        span_s = samples[-1].at - samples[0].at
        if any(sample.arrived is None for sample in samples) or span_s <= 0:
            return None
        outputs = sum(b.given > a.given for a, b in itertools.pairwise(samples))
        if outputs < self.outputs:
            return None
        came = history.gained(self.span_s, lambda x: x.arrived or 0) / span_s
        done = history.gained(self.span_s, lambda x: x.taken) / span_s
        trend = history.slope(self.span_s, lambda x: x.waiting)
        half = history.slope(self.span_s / 2, lambda x: x.waiting)
        if last.waiting <= self.least_waiting or min(trend, half) <= 0:
            return None
        if came <= done * (1 + self.margin) or last.waiting < done * self.horizon_s:
            return None
        return f"{came:.0f} items a second come, {done:.0f} are processed, {last.waiting} wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRate(Rule):
    """Too many errors in a while."""

    most: int = 3
    span_s: float = 60.0

    @property
    def name(self) -> str:
        return "errors"

    def judge(self, operator: str, history: History) -> str | None:
        del operator
        found = history.errors(self.span_s)
        return f"{found} errors in {self.span_s:.0f} s" if found > self.most else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak(Rule):
    """Memory that only grows, by much in a short time, after it has long been less."""

    span_s: float = 1.0
    gain: float = 0.4
    """Growth in the span, as a share of the most that was used before it."""
    least_bytes: int = 64 * MB
    """Growth in the span."""
    settled_s: float = 30.0
    """How long an operator must have been watched: what starts grows."""

    @property
    def name(self) -> str:
        return "leak"

    def judge(self, operator: str, history: History) -> str | None:
        del operator
        if not history.covers(self.settled_s):
            return None
        measured = [
            (sample.at, sample.memory_bytes)
            for sample in history.recent(history.span_s)
            if sample.memory_bytes is not None
        ]
        if not measured:
            return None
        start = measured[-1][0] - self.span_s
        before = [used for at, used in measured if at < start]
        span = [(at, used) for at, used in measured if at >= start]
        if not before or not _grows(span):
            return None
        last, most = span[-1][1], max(before)
        grown = last - span[0][1]
        if grown < self.least_bytes or grown < self.gain * most or last <= most:
            return None
        return f"memory grew by {grown / MB:.0f} MB in {self.span_s:.1f} s to {last / MB:.0f} MB"


def _grows(measured: list[tuple[float, int]]) -> bool:
    """Whether memory only grows, in several steps and for a while; one large step is no leak."""
    steps = [(after[0], after[1] - before[1]) for before, after in itertools.pairwise(measured)]
    # Two heartbeats may tell of one measurement: a step of 0.
    grown = [at for at, step in steps if step > 0]
    if any(step < 0 for _, step in steps) or len(grown) < STEPS:
        return False
    return grown[-1] - grown[0] >= STEPS_S
