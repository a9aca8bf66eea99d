"""Autoscaling of a run: looks at its units every few seconds, and rescales as the policy says.

Nothing here needs to survive: the changes are on record, and another one that looks later sees the
shape that is there.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.clock import Clock, SystemClock
from holdfast.control.elastic.fleet import FleetPolicy, NodeLoad
from holdfast.control.elastic.load import Limits, LoadReport, Rescale, ScalingPolicy, Stuck
from holdfast.control.elastic.meter import Meter, UnitSample
from holdfast.control.elastic.scaler import Autoscaler
from holdfast.control.status import RunView, UnitView
from holdfast.deployment import Deployment, Segment
from holdfast.deployment.blocks import Block
from holdfast.errors import HoldfastError
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.rescale import (
    HEAT_S,
    arrived,
    as_it_is,
    outcome,
    rescale,
    shape_of,
    under_way,
)
from holdfast.streams.records import Change

log = logging.getLogger("holdfast.autoscale")

EVERY_S = 5.0
"""Between two looks, seconds: as in SPATE."""
NODES_S = 60.0
"""How long new shards wait for nodes that are being started; then they go where there is room."""

TOLD = 16
"""Lines that are not told again while they are among the last ones."""


class Fleet(Protocol):
    """Starts nodes and ends them."""

    @property
    def begun_with(self) -> int:
        """Nodes that the run was launched with, spares not counted."""
        ...

    def add_worker(self) -> str:
        """Start one more node; gives its name, or raises OSError."""
        ...

    def retire(self, node: str) -> None:
        """End a node that has no units."""
        ...


@dataclass(slots=True)
class _Watched:
    segment: Segment
    meter: Meter
    pending: list[Change] = field(default_factory=list)
    held: Rescale | None = None
    """Decided, and waiting for nodes."""
    held_until: float = 0.0


class Rescaler:
    """Looks, decides and puts changes, one round at a time."""

    def __init__(
        self,
        records: SliceLog,
        deployment: Deployment,
        policy: ScalingPolicy,
        *,
        most_in_all: int,
        announce: Callable[[list[Change], str], None],
        tell: Callable[[str], None],
        forget: Callable[[], None] = lambda: None,
        fleet: Fleet | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Args:
        records: the run's.
        deployment: what runs.
        policy: when to change what.
        most_in_all: shards of all operators that may scale.
        announce: has the children of changes started, on a node if one is named.
        tell: says a line to people.
        forget: what was told before a change that is done may be told again.
        fleet: adds nodes with shards and retires them; None: the nodes stay as they are.
        clock: measures time.
        """
        self._log, self._deployment = records, deployment
        self._announce, self._tell, self._forget = announce, tell, forget
        self._fleet = fleet
        self._added: set[str] = set()
        """Nodes that were started here and have not ended."""
        self._up: set[str] = set()
        """Nodes that were there at the last look."""
        self._clock = clock or SystemClock()
        self._watched = {
            segment.name: _Watched(
                segment,
                Meter(segment.name, interval_s=deployment.epoch_s * segment.batch_epochs),
            )
            for segment in deployment.segments
            if as_it_is(records, segment).scales
        }
        limits = {
            name: Limits(most=as_it_is(records, item.segment).max_shards)
            for name, item in self._watched.items()
        }
        self._scaler = Autoscaler(policy, limits, most_in_all=most_in_all)

    def look(self, view: RunView) -> list[Rescale | Stuck]:
        """One round; gives what was decided."""
        there = {node.node for node in view.nodes}
        self._added -= self._up - there
        self._up = there
        for item in self._watched.values():
            if item.held is not None and self._has_nodes(item, view):
                self._rescale(item, item.held, view)
        reports = []
        for item in self._watched.values():
            if item.pending and not self._settled(item):
                continue
            shape = shape_of(self._log, item.segment)
            most = as_it_is(self._log, item.segment).max_shards
            self._scaler.has(item.segment.name, len(shape), most=most)
            self._announce_lost(item, shape, view)
            report = self._report(item, shape, view)
            if report is not None:
                reports.append(report)
        decided = self._scaler.report(reports)
        for decision in decided:
            self._carry_out(decision, view)
        if not any(item.pending or item.held for item in self._watched.values()):
            self._retire(view)
        return decided

    def _settled(self, item: _Watched) -> bool:
        if any(outcome(self._log, change) is None for change in item.pending):
            return False
        item.pending = []
        self._forget()
        self._scaler.changed(item.segment.name, self._clock.now())
        return True

    def _carry_out(self, decision: Rescale | Stuck, view: RunView) -> None:
        name, text = decision.operator, decision.reason.text
        if isinstance(decision, Stuck):
            self._tell(f"{name} cannot be scaled further: {text}")
            return
        item = self._watched[name]
        self._tell(f"{name} gets {len(decision.shape)} shards: {text}")
        item.held, item.held_until = decision, self._clock.now() + NODES_S
        if self._add_nodes(item, decision, view):
            return
        self._rescale(item, decision, view)

    def _rescale(self, item: _Watched, decision: Rescale, view: RunView) -> None:
        item.held, name = None, decision.operator
        try:
            fewer = len(decision.shape) < len(shape_of(self._log, item.segment))
            item.pending = rescale(
                self._log, item.segment, decision.shape, reason=decision.reason.text
            )
        except (HoldfastError, OSError) as error:
            self._tell(f"{name} keeps its shards: {error}")
            self._scaler.refused(name)
            return
        if not item.pending:
            self._scaler.refused(name)
        self._announce(item.pending, self._staying(view) if fewer else "")

    def _announce_lost(self, item: _Watched, shape: Mapping[Block, str], view: RunView) -> None:
        """Have units started that nobody has heard of: who put their change died, or failed."""
        if not {unit.unit for unit in view.units}.issuperset(shape.values()):
            self._announce(under_way(self._log, item.segment.name), "")

    # Nodes

    def _add_nodes(self, item: _Watched, decision: Rescale, view: RunView) -> int:
        """Start the nodes that a new shape takes; gives how many."""
        if self._fleet is None:
            return 0
        try:
            more = len(decision.shape) - len(shape_of(self._log, item.segment))
            more *= 2 if item.segment.followers else 1
            policy = self._size(self._fleet)
            missing = policy.missing(len(view.units) + more, _loads(view))
            for _ in range(missing):
                self._added.add(self._fleet.add_worker())
        except (HoldfastError, OSError) as error:
            self._tell(f"no node is added: {error}")
            return 0
        if missing:
            self._tell(f"nodes are added: {missing}")
        return missing

    def _size(self, fleet: Fleet) -> FleetPolicy:
        return FleetPolicy(nodes=fleet.begun_with, units=len(self._deployment.replicas()))

    def _has_nodes(self, item: _Watched, view: RunView) -> bool:
        """Whether those that were added have come up, or are not to be waited for any longer."""
        up = {node.node for node in view.nodes if node.ready}
        return self._added <= up or self._clock.now() >= item.held_until

    def _staying(self, view: RunView) -> str:
        """A node for what is merged: one that is not to be retired, if any are; empty: any node."""
        if not self._added:
            return ""
        there = [node for node in _loads(view) if node.node not in self._added]
        return min(there, key=lambda node: node.units).node if there else ""

    def _retire(self, view: RunView) -> None:
        """End nodes that were added and have nothing to do."""
        if self._fleet is None:
            return
        for node in self._size(self._fleet).idle(_loads(view), self._added):
            self._tell(f"{node} is retired: it has no units")
            self._added.discard(node)
            self._fleet.retire(node)

    def _report(
        self, item: _Watched, shape: Mapping[Block, str], view: RunView
    ) -> LoadReport | None:
        known = {unit.unit: unit for unit in view.units}
        samples = self._samples(item.segment, shape, known)
        if samples is None:
            return None
        newest = max((known[name].epoch or 0 for name in shape.values()), default=0)
        after = newest - max(1, round(HEAT_S / self._deployment.epoch_s))
        segment = as_it_is(self._log, item.segment)
        rates = arrived(self._log, self._deployment, segment, after, newest)
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


def _loads(view: RunView) -> list[NodeLoad]:
    """The nodes that work."""
    return [
        NodeLoad(node=node.node, units=len(node.units))
        for node in view.nodes
        if not node.spare or node.units
    ]


class Told:
    """Says what an autoscaler has to say: at once to who runs it, and in the run's timeline.

    What was just said is not said again: a change that is refused, or a look that fails, is so
    every few seconds. Once a change is done, the next one is news, be its reason the same.
    """

    def __init__(self, note: Callable[[str], None], keep: Callable[[str], None]) -> None:
        """Args:
        note: says a line to people.
        keep: puts it into the timeline.
        """
        self._note, self._keep = note, keep
        self._last: deque[str] = deque(maxlen=TOLD)

    def forget(self) -> None:
        """Whatever is said next is said, be it what was said before."""
        self._last.clear()

    def tell(self, line: str) -> None:
        if line in self._last:
            return
        self._last.append(line)
        self._note(line)
        try:
            self._keep(line)
        except (HoldfastError, OSError) as error:  # the coordinator is being started again
            log.warning("not in the timeline: %s: %s", line, error)


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
        self._tell = tell
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
                # A fault of ours. The run goes on with the shards it has, and people are told.
                log.exception("autoscaling failed")
                what = f"{type(error).__name__}: {error}"
                self._tell(f"autoscaling failed, shards stay as they are: {what}")
