"""The autoscaler as a machine: load reports in, decisions out, limits over all operators.

It remembers per operator the reports that its policy needs and when the shape last changed. A
decision is answered by `changed` once it is carried out, or by `refused`; until then nothing more
is decided for that operator. A shape that somebody else has changed is kept for a while like one
that was decided here. Shards in all are bounded: an operator that would go beyond gets as
many as are left, those that free some come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from holdfast.control.elastic.load import (
    Decision,
    Limits,
    LoadReport,
    Reason,
    Rescale,
    ScalingPolicy,
    Stuck,
)
from holdfast.deployment.blocks import Block


@dataclass(slots=True)
class _Known:
    reports: list[LoadReport] = field(default_factory=list)
    changed_at: float | None = None
    shape: tuple[Block, ...] | None = None
    """What was last reported; None: whatever comes next is no surprise."""
    shards: int = 0
    wanted: int | None = None
    """Shards of a change that is under way; None: there is none."""
    stuck: bool = False
    """It was told that no shape holds the load, and that still is so."""

    @property
    def taken(self) -> int:
        """Shards that it has, or may have at any moment."""
        return max(self.shards, self.wanted or 0)

    def remember(self, report: LoadReport, *, since: float) -> None:
        """Forget what is older, but for one report: it shows that all the time since is known.

        So are reports of other state partitions: nothing in them is about those there are now.
        """
        if self.shape not in (None, report.shape):
            self.changed_at = report.at
        if self.reports and len(self.reports[-1].rates) != len(report.rates):
            self.reports = []
        self.shape = report.shape
        older = [one for one in self.reports if one.at < since]
        self.reports = [*older[-1:], *self.reports[len(older) :], report]


class Autoscaler:
    """One per run."""

    def __init__(
        self, policy: ScalingPolicy, limits: Mapping[str, Limits], *, most_in_all: int
    ) -> None:
        self._policy = policy
        self._limits = dict(limits)
        self._most_in_all = most_in_all
        self._known = {name: _Known() for name in limits}

    def has(self, operator: str, shards: int, *, most: int) -> None:
        """An operator has so many shards, reported or not: they count among those in all.

        `most` it can have: its state may have been laid out over other partitions.
        """
        self._known[operator].shards = shards
        self._limits[operator] = replace(self._limits[operator], most=most)

    def report(self, reports: Iterable[LoadReport]) -> list[Rescale | Stuck]:
        """Take the reports of one round, and say what to change."""
        decided: list[Rescale | Stuck] = []
        for report in reports:
            known = self._known.get(report.operator)
            if known is None:
                continue
            known.shards = len(report.shards)
            known.remember(report, since=report.at - self._policy.memory_s)
            if known.wanted is not None:
                continue
            decision = self._decide(report.operator, self._limits[report.operator])
            if decision is None:
                known.stuck = False
            else:
                decided.append(decision)
        return self._within_all(decided)

    def changed(self, operator: str, at: float) -> None:
        """The operator has its new shape."""
        known = self._known[operator]
        if known.wanted is not None:
            known.shards = known.wanted
        known.wanted, known.stuck, known.changed_at = None, False, at
        known.shape = None

    def refused(self, operator: str) -> None:
        """The shape stays as it was: look again with the next report."""
        self._known[operator].wanted = None

    def _decide(self, operator: str, limits: Limits) -> Decision:
        known = self._known[operator]
        return self._policy.decide(known.reports, limits, changed_at=known.changed_at)

    def _within_all(self, decided: list[Rescale | Stuck]) -> list[Rescale | Stuck]:
        """Those that free shards first, then those that take some while there are any."""
        kept: list[Rescale | Stuck] = []
        total = sum(known.taken for known in self._known.values())
        for asked in sorted(decided, key=self._more):
            one = self._fitting(asked, total)
            known = self._known[one.operator]
            if isinstance(one, Rescale):
                total += self._more(one)
                known.wanted, known.stuck = len(one.shape), False
            elif known.stuck:
                continue  # it was told
            else:
                known.stuck = True
            kept.append(one)
        return kept

    def _more(self, one: Rescale | Stuck) -> int:
        """Shards that a decision takes beyond those that there are."""
        return len(one.shape) - self._known[one.operator].shards if isinstance(one, Rescale) else 0

    def _fitting(self, one: Rescale | Stuck, total: int) -> Rescale | Stuck:
        """The same with as many shards as are left, where it asks for more."""
        left = self._most_in_all - total
        if isinstance(one, Stuck) or self._more(one) <= max(0, left):
            return one
        name = one.operator
        limits = self._limits[name]
        most = min(limits.most, self._known[name].shards + max(0, left))
        again = self._decide(name, Limits(least=limits.least, most=most)) if left > 0 else None
        text = f"{one.reason.text}; the run has {total} of {self._most_in_all} shards"
        reason = Reason(kind=one.reason.kind, text=text, hot=one.reason.hot)
        if isinstance(again, Rescale) and 0 < self._more(again) <= left:
            return Rescale(operator=name, shape=again.shape, reason=reason)
        return Stuck(operator=name, reason=reason)
