"""Runs a path on a share of its input to see whether it is sound again.

The path runs as the very unit it would be, over copies of some of the newest slices, in a log of
its own that is removed afterwards: it holds nobody up, and nobody reads what it makes. It is sound
if every batch ends, without an exception, in time, and if its Python workers do not grow. The first
batch is for warming up.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.control.events import ProbeReport, ProbeState
from holdfast.deployment import Deployment, Segment
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.spark.units.life import worker_memory
from holdfast.runtime.spark.units.rehearse import BATCHES, MakeUnit, laid_out
from holdfast.runtime.spark.units.unit import SparkUnit

log = logging.getLogger("holdfast.spark")

WAIT_S = 0.02
JOIN_S = 10.0
LEAST_S = 2.0
"""A batch may take this long, however short the batch interval: a query that begins is slower, and
one that falls behind takes more at once."""
MOST_GROWTH = 48 * 2**20
"""Bytes by which Python workers may grow after the first batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    good: bool
    why: str


class Probe:
    """One probe of one path; `report` says how it does."""

    def __init__(self, *, split: str, path: str, number: int) -> None:
        self._told = ProbeReport(split=split, path=path, probe=number, state="running")
        self._stopping = threading.Event()

    @property
    def report(self) -> ProbeReport:
        return self._told

    def stop(self) -> None:
        self._stopping.set()

    def run(
        self,
        segment: Segment,
        deployment: Deployment,
        real: SliceLog,
        folder: Path,
        make: MakeUnit,
        *,
        share: float,
    ) -> None:
        """Run to the end; what goes wrong on the way is a bad probe."""
        limit_s = max(LEAST_S, 2 * segment.batch_epochs * deployment.epoch_s)
        try:
            every = max(1, round(1 / share))
            with laid_out(segment, deployment, real, folder, every=every) as (context, rows):
                if not rows:
                    self._tell("good", "no rows came to try it with")
                    return
                seen = self._watch(make(context), limit_s)
        except Exception as error:  # noqa: BLE001 - whatever it is, the path does not work
            seen = _Seen(good=False, why=f"{type(error).__name__}: {error}")
        self._tell("good" if seen.good else "bad", seen.why)

    def _tell(self, state: ProbeState, why: str) -> None:
        told = self._told
        log.info("probe=%d of %s:%s %s: %s", told.probe, told.split, told.path, state, why)
        self._told = ProbeReport(
            split=told.split, path=told.path, probe=told.probe, state=state, why=why
        )

    def _watch(self, unit: SparkUnit, limit_s: float) -> _Seen:
        unit.start()
        try:
            return self._seen(unit, limit_s)
        finally:
            unit.stop()
            unit.join(JOIN_S)

    def _seen(self, unit: SparkUnit, limit_s: float) -> _Seen:
        last, since, used = -1, time.monotonic(), 0
        while not self._stopping.wait(WAIT_S):
            told = unit.progress.report
            if told.state in ("failed", "stopped", "ended"):
                why = (told.error or told.state).rstrip().rpartition("\n")[2]
                return _Seen(good=False, why=why)
            if told.batch > last:
                took_ms = told.batch_ms
                if last >= 0 and took_ms > 1000 * limit_s:
                    return _Seen(good=False, why=_slow(took_ms / 1000, limit_s))
                used = worker_memory(unit.run_id) if last < 0 else used
                last, since = told.batch, time.monotonic()
                if last >= BATCHES - 1:
                    return self._grown(unit, used)
            elif last >= 0 and time.monotonic() - since > limit_s + LEAST_S:
                return _Seen(good=False, why=_slow(time.monotonic() - since, limit_s))
        return _Seen(good=False, why="it was stopped")

    def _grown(self, unit: SparkUnit, before: int) -> _Seen:
        grown = worker_memory(unit.run_id) - before
        if grown > MOST_GROWTH:
            why = f"its workers grew by {grown / 2**20:.0f} MB in {BATCHES - 1} batches"
            return _Seen(good=False, why=why)
        return _Seen(good=True, why=f"{BATCHES} batches ended in time")


def _slow(took_s: float, limit_s: float) -> str:
    return f"a batch took {took_s:.1f} s (limit {limit_s:.1f} s)"


class Probes:
    """The probes of one node."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], Probe] = {}

    def begin(self, probe: Probe, run: Callable[[Probe], None]) -> None:
        """Run a probe on a thread of its own; one that is there already goes on."""
        told = probe.report
        with self._lock:
            known = self._known.get((told.split, told.path))
            if known is not None:
                if known.report.probe >= told.probe:
                    return
                known.stop()
            self._known[told.split, told.path] = probe
        threading.Thread(target=run, args=(probe,), name="probe", daemon=True).start()

    def end(self, split: str, path: str, number: int) -> None:
        with self._lock:
            known = self._known.get((split, path))
            if known is not None and known.report.probe == number:
                known.stop()
                del self._known[split, path]

    def close(self) -> None:
        with self._lock:
            for probe in self._known.values():
                probe.stop()

    def reports(self) -> list[ProbeReport]:
        with self._lock:
            return [probe.report for probe in self._known.values()]
