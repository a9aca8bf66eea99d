"""What readers saw of results that went on without an input, beside what was predicted.

A fork publishes slices of its own, which say what they lack; they are removed when it is over, so
they are read while it lives. The exact slices of the same epochs come later. What the fork was
worth is the share of their rows that it had: of a stream of additions, the share of the results; of
upserts, that of new versions. The prediction is PPA's output fidelity, as the rows themselves say.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.control.status import ForkView
from holdfast.deployment import Deployment, UnitId
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.streams.steps import slices


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A slice of results."""

    after: int
    upto: int
    rows: int
    put_at: float
    """Seconds since 1970."""
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What a fork gave one sink."""

    predicted: float | None
    """Output fidelity, as planned; None: it was not."""
    measured: float | None
    """Share of the exact rows of the same epochs; None: there were none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """One fork, seconds after the fault before it."""

    fault: int
    number: int
    missing: tuple[str, ...]
    began: float
    first: float | None
    """Until the first results that lack something; None: there were none."""
    exact: float | None
    """Until all was exact again; None: that was not seen."""
    sinks: Mapping[str, Worth]

    def to_json(self) -> dict[str, Any]:
        return {
            "fault": self.fault,
            "fork": self.number,
            "missing": list(self.missing),
            "began": self.began,
            "first": self.first,
            "exact": self.exact,
            "sinks": {
                name: {"predicted": worth.predicted, "measured": worth.measured}
                for name, worth in self.sinks.items()
            },
        }


def worth_of(predicted: float | None, tentative: Sequence[Piece], exact: Sequence[Piece]) -> Worth:
    """The share of the exact rows that a fork had, over the epochs in which it lacked something."""
    lacking = [item for item in tentative if item.missing]
    spans = {(item.after, item.upto) for item in lacking}
    whole = sum(
        item.rows for item in exact if any(after < item.upto <= upto for after, upto in spans)
    )
    measured = sum(item.rows for item in lacking) / whole if whole else None
    return Worth(predicted=predicted, measured=measured)


def words(forks: Sequence[Fork]) -> str:
    """All of them, in a line."""
    both = [
        (worth.predicted, worth.measured)
        for fork in forks
        for worth in fork.sinks.values()
        if worth.predicted is not None and worth.measured is not None
    ]
    said = ""
    if both:
        predicted, measured = (statistics.fmean(values) for values in zip(*both, strict=True))
        said = f"; fidelity {predicted:.2f} predicted, {measured:.2f} of the rows"
    return (
        f"tentative results after {len(forks)} faults: the first after "
        f"{_median(fork.first for fork in forks)}, all exact after "
        f"{_median(fork.exact for fork in forks)} in the median{said}"
    )


def _median(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.median(known):.2f} s" if known else "-"


class ForkWatch:
    """Reads the slices that sinks deliver, exact and tentative ones, as they appear."""

    def __init__(self, run_dir: Path, deployment: Deployment) -> None:
        self._log = SliceLog(run_dir)
        self._read = {
            segment.name: [
                unit
                for unit in deployment.units()
                if unit.segment in deployment.streams_read(segment)
            ]
            for segment in deployment.segments
            if segment.kind == "exporter"
        }
        self._seen: dict[str, list[Piece]] = {}
        self._next: dict[str, int] = {}
        self._forks: dict[int, tuple[int, float, ForkView]] = {}
        """Fork to the fault before it, when that was, and what was last heard of it."""

    def poll(self, forks: Iterable[ForkView], fault: int, killed_at: float) -> None:
        """Take in what was published since, and what has become of forks since a fault."""
        for fork in forks:
            if fork.began_at >= killed_at:
                first, at, _ = self._forks.get(fork.fork, (fault, killed_at, fork))
                self._forks[fork.fork] = first, at, fork
        live = [number for number, (_, _, fork) in self._forks.items() if fork.ended_at is None]
        for unit in {unit for units in self._read.values() for unit in units}:
            for name in (unit.name, *(unit.forked(number).name for number in live)):
                self._take(name)

    def _take(self, unit: str) -> None:
        number = max(self._next.get(unit, 0), self._log.floor(slices(unit)).number)
        for record in self._log.slices_from(unit, number):
            self._next[unit] = record.number + 1
            put_at = self._log.put_time(record)
            if put_at is not None:
                self._seen.setdefault(unit, []).append(
                    Piece(
                        after=record.after,
                        upto=record.upto,
                        rows=record.rows,
                        put_at=put_at,
                        missing=record.missing,
                    )
                )

    def found(self) -> tuple[Fork, ...]:
        """What became of every fork."""
        return tuple(
            self._fork(fault, killed_at, fork) for fault, killed_at, fork in self._forks.values()
        )

    def _fork(self, fault: int, killed_at: float, fork: ForkView) -> Fork:
        forked = {UnitId.parse(unit.unit).exact.segment for unit in fork.units}
        sinks = {name: units for name, units in self._read.items() if name in forked}
        given = {
            name: self._pieces(unit.forked(fork.fork) for unit in units)
            for name, units in sinks.items()
        }
        lacking = [piece for found in given.values() for piece in found if piece.missing]
        return Fork(
            fault=fault,
            number=fork.fork,
            missing=tuple(fork.silent),
            began=fork.began_at - killed_at,
            first=min((piece.put_at - killed_at for piece in lacking), default=None),
            exact=None if fork.ended_at is None else fork.ended_at - killed_at,
            sinks={
                name: worth_of(fork.fidelity.get(name), given[name], self._pieces(units))
                for name, units in sinks.items()
            },
        )

    def _pieces(self, units: Iterable[UnitId]) -> list[Piece]:
        return [piece for unit in units for piece in self._seen.get(unit.name, ())]
