"""Autoscaling of a run: looks at its units every few seconds, and rescales as the policy says.

Nothing here needs to survive: the changes are on record, and another one that looks later sees the
shape that is there.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from holdfast.clock import Clock, SystemClock
from holdfast.control.elastic.load import Limits, LoadReport, Rescale, ScalingPolicy, Stuck
from holdfast.control.elastic.meter import Meter, UnitSample
from holdfast.control.elastic.scaler import Autoscaler
from holdfast.control.status import RunView, UnitView
from holdfast.deployment import Deployment, Segment
from holdfast.deployment.blocks import Block
from holdfast.errors import HoldfastError
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.rescale import HEAT_S, arrived, outcome, rescale, shape_of
from holdfast.streams.records import Change

log = logging.getLogger("holdfast.autoscale")

EVERY_S = 5.0
"""Between two looks, seconds: as in SPATE."""


@dataclass(slots=True)
class _Watched:
    segment: Segment
    meter: Meter
    pending: list[Change] = field(default_factory=list)


class Rescaler:
    """Looks, decides and puts changes, one round at a time."""

    def __init__(
        self,
        records: SliceLog,
        deployment: Deployment,
        policy: ScalingPolicy,
        *,
        most_in_all: int,
        announce: Callable[[list[Change]], None],
        tell: Callable[[str], None],
        clock: Clock | None = None,
    ) -> None:
        """Args:
        records: the run's.
        deployment: what runs.
        policy: when to change what.
        most_in_all: shards of all operators that may scale.
        announce: has the children of changes started.
        tell: says a line to people.
        clock: measures time.
        """
        self._log, self._deployment = records, deployment
        self._announce, self._tell = announce, tell
        self._clock = clock or SystemClock()
        self._watched = {
            segment.name: _Watched(
                segment,
                Meter(segment.name, interval_s=deployment.epoch_s * segment.batch_epochs),
            )
            for segment in deployment.segments
            if segment.scales
        }
        limits = {
            name: Limits(most=item.segment.max_shards) for name, item in self._watched.items()
        }
        self._scaler = Autoscaler(policy, limits, most_in_all=most_in_all)

    def look(self, view: RunView) -> list[Rescale | Stuck]:
        """One round; gives what was decided."""
        reports = []
        for item in self._watched.values():
            if item.pending and not self._settled(item):
                continue
            report = self._report(item, view)
            if report is not None:
                reports.append(report)
        decided = self._scaler.report(reports)
        for decision in decided:
            self._carry_out(decision)
        return decided

    def _settled(self, item: _Watched) -> bool:
        if any(outcome(self._log, change) is None for change in item.pending):
            return False
        item.pending = []
        self._scaler.changed(item.segment.name, self._clock.now())
        return True

    def _carry_out(self, decision: Rescale | Stuck) -> None:
        name, text = decision.operator, decision.reason.text
        if isinstance(decision, Stuck):
            self._tell(f"{name} cannot be scaled further: {text}")
            return
        item = self._watched[name]
        self._tell(f"{name} gets {len(decision.shape)} shards: {text}")
        try:
            item.pending = rescale(self._log, item.segment, decision.shape, reason=text)
        except HoldfastError as error:
            self._tell(f"{name} keeps its shards: {error}")
            self._scaler.refused(name)
            return
        if not item.pending:
            self._scaler.refused(name)
        self._announce(item.pending)

    def _report(self, item: _Watched, view: RunView) -> LoadReport | None:
        shape = shape_of(self._log, item.segment)
        known = {unit.unit: unit for unit in view.units}
        samples = self._samples(item.segment, shape, known)
        if samples is None:
            return None
        newest = max((known[name].epoch or 0 for name in shape.values()), default=0)
        after = newest - max(1, round(HEAT_S / self._deployment.epoch_s))
        rates = arrived(self._log, self._deployment, item.segment, after, newest)
        return item.meter.report(samples, rates, at=self._clock.now())

    def _samples(
        self, segment: Segment, shape: Mapping[Block, str], known: Mapping[str, UnitView]
    ) -> list[UnitSample] | None:
        """What all units say; None while one of them is not heard of, or is not running."""
        found = []
        for block, name in shape.items():
            unit = known.get(name)
            if unit is None or unit.phase != "running" or unit.batch is None or unit.batch < 0:
                return None
            behind = max(0, (unit.waiting or 0) - segment.batch_epochs)
            found.append(
                UnitSample(
                    unit=name,
                    block=block,
                    batch=unit.batch,
                    rows_in=unit.rows_in or 0,
                    batch_s=(unit.batch_ms or 0.0) / 1000.0,
                    behind_s=behind * self._deployment.epoch_s,
                )
            )
        return found


class AutoscaleThread:
    """Looks again and again until it is stopped, whatever a look comes to."""

    def __init__(
        self,
        rescaler: Rescaler,
        status: Callable[[], RunView | None],
        *,
        tell: Callable[[str], None],
        every_s: float = EVERY_S,
    ) -> None:
        """Args:
        rescaler: decides and acts.
        status: the run as it is; None: not to be had now.
        tell: says a line to people.
        every_s: between two looks.
        """
        self._rescaler, self._status, self._every_s = rescaler, status, every_s
        self._tell, self._told = tell, ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="autoscale", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(timeout=self._every_s)

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s):
            try:
                view = self._status()
                if view is not None:
                    self._rescaler.look(view)
            except (HoldfastError, OSError) as error:
                log.warning("no decision this time: %s", error)
            except Exception as error:
                # A fault of ours. The run goes on with the shards it has, and people are told once.
                log.exception("autoscaling failed")
                line = (
                    f"autoscaling failed, shards stay as they are: {type(error).__name__}: {error}"
                )
                if line != self._told:
                    self._told = line
                    self._tell(line)
