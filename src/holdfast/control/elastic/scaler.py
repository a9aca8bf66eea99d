"""The autoscaler as a machine: load reports in, decisions out, limits over all operators.

It remembers per operator the reports that its policy needs and when the shape last changed. A
decision is answered by `changed` once it is carried out, or by `refused`; until then nothing more
is decided for that operator. Shards in all are bounded: an operator that would go beyond gets as
many as are left, those that free some come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.control.elastic.load import (
    Decision,
    Limits,
    LoadReport,
    Reason,
    Rescale,
    ScalingPolicy,
    Stuck,
)


@dataclass(slots=True)
class _Known:
    reports: list[LoadReport] = field(default_factory=list)
    changed_at: float | None = None
    pending: bool = False
    stuck: bool = False
    """It was told that no shape holds the load, and that still is so."""


class Autoscaler:
    """One per run."""

    def __init__(
        self, policy: ScalingPolicy, limits: Mapping[str, Limits], *, most_in_all: int
    ) -> None:
        self._policy = policy
        self._limits = dict(limits)
        self._most_in_all = most_in_all
        self._known = {name: _Known() for name in limits}
        self._shards: dict[str, int] = {}

    def report(self, reports: Iterable[LoadReport]) -> list[Rescale | Stuck]:
        """Take the reports of one round, and say what to change."""
        decided: list[Rescale | Stuck] = []
        for report in reports:
            known = self._known.get(report.operator)
            if known is None:
                continue
            self._shards[report.operator] = len(report.shards)
            oldest = report.at - self._policy.memory_s
            known.reports = [one for one in known.reports if one.at >= oldest]
            known.reports.append(report)
            if known.pending:
                continue
            decision = self._policy.decide(
                known.reports, self._limits[report.operator], changed_at=known.changed_at
            )
            decided += self._news(known, decision)
        return self._within_all(decided)

    def changed(self, operator: str, at: float) -> None:
        """The operator has its new shape."""
        known = self._known[operator]
        known.pending, known.stuck, known.changed_at = False, False, at

    def refused(self, operator: str) -> None:
        """The shape stays as it was: look again with the next report."""
        self._known[operator].pending = False

    def _news(self, known: _Known, decision: Decision) -> list[Rescale | Stuck]:
        """A decision that was not told before."""
        told, known.stuck = known.stuck, isinstance(decision, Stuck)
        if decision is None or (told and known.stuck):
            return []
        return [decision]

    def _within_all(self, decided: list[Rescale | Stuck]) -> list[Rescale | Stuck]:
        """Those that free shards first, then those that take some while there are any."""
        total = sum(self._shards.values())

        def more(one: Rescale | Stuck) -> int:
            grown = len(one.shape) if isinstance(one, Rescale) else 0
            return grown - self._shards[one.operator]

        kept: list[Rescale | Stuck] = []
        for one in sorted(decided, key=more):
            if isinstance(one, Rescale):
                if total + more(one) > self._most_in_all and more(one) > 0:
                    text = f"{one.reason.text}; the run has {total} of {self._most_in_all} shards"
                    reason = Reason(kind=one.reason.kind, text=text, hot=one.reason.hot)
                    kept.append(Stuck(operator=one.operator, reason=reason))
                    self._known[one.operator].stuck = True
                    continue
                total += more(one)
                self._known[one.operator].pending = True
            kept.append(one)
        return kept
