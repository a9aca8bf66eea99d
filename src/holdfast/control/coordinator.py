"""The coordinator: one method mutates, and its result is data.

`handle(event, now)` gives the commands to carry out, in order. It composes the machines of this
package: run (its beginning and end), membership (nodes), units (failures and budgets), recovery
(phases), replication (followers), handover (heirs), paths (breakers), forking (tentative results),
placement (where). Each is given its own part of the state and an outlet for its own facts and
commands; what it sees of another's is a Protocol in its own file. A shell feeds it events and the
time; the simulator feeds the same code from a virtual world.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from holdfast.control import events as e
from holdfast.control.commands import Command
from holdfast.control.facts import Fact
from holdfast.control.forking import Forking
from holdfast.control.handover import HandoverLife
from holdfast.control.hot import HotPaths
from holdfast.control.membership import Membership
from holdfast.control.outlet import Ledger, Moment
from holdfast.control.paths import PathLife, Splits
from holdfast.control.placement import Placement
from holdfast.control.pool import Pool
from holdfast.control.recovery import RecoveryLife
from holdfast.control.replication import Replication
from holdfast.control.residents import Residents
from holdfast.control.run import RunLife
from holdfast.control.state import State
from holdfast.control.units import UnitLife
from holdfast.control.vitals import Vitals
from holdfast.deployment import UnitId
from holdfast.health.nexus.classify import Nexus, default_rules
from holdfast.health.policy import Policy


class Coordinator:
    """Places units on nodes and repairs what fails."""

    def __init__(
        self,
        *,
        pipeline: str,
        units: tuple[UnitId, ...],
        policy: Policy | None = None,
        intervals: Mapping[str, float] | None = None,
        splits: Splits | None = None,
        hot: HotPaths | None = None,
        nexus: Nexus | None = None,
        reads: Mapping[str, tuple[str, ...]] | None = None,
        slack: int = 2,
    ) -> None:
        """Args:
        pipeline: its name.
        units: what is to run, upstream first.
        policy: how failures are detected and answered.
        intervals: the batch interval of each segment, seconds.
        splits: the paths of each split.
        hot: segments that are paths, if these run along.
        nexus: judges them; None: by the rules that come with Holdfast.
        reads: the segments that each segment reads, upstream first.
        slack: epochs that a sink may lie behind another and have caught up with it.
        """
        self.policy = policy or Policy()
        self.units = units
        self.intervals = dict(intervals or {})
        self.splits = splits or {}
        self.hot = hot or {}
        self._nexus = nexus or Nexus(default_rules())
        self._reads, self._slack = dict(reads or {}), slack
        self._last_event_at: float | None = None
        self._compose(State.new(pipeline))

    def _compose(self, state: State) -> None:
        """Give each machine what is its own."""
        self.state = state
        self.vitals = vitals = Vitals(pool=Pool(room=self.policy.max_units_per_node))
        self._out = ledger = Ledger(state)
        state.unit_state.alone = frozenset(self.policy.alone)
        recovery = RecoveryLife(state=state.recovery_state, out=ledger)
        self._handover = self._handover_life(ledger)
        replicas = Replication(
            units=state.unit_state,
            signs=vitals.unit_signs,
            nodes=state.node_state,
            policy=self.policy,
            out=ledger,
        )
        self.paths = self._path_life(ledger)
        self._units = UnitLife(
            state=state.unit_state,
            signs=vitals.unit_signs,
            recovery=recovery,
            handover=self._handover,
            connections=vitals.node_signs,
            loads=vitals.pool,
            run=state.run,
            replicas=replicas,
            paths=self.paths,
            policy=self.policy,
            intervals=self.intervals,
            out=ledger,
        )
        self.forks = Forking(
            state=state.fork_state,
            units=state.unit_state,
            recoveries=state.recovery_state,
            signs=vitals.unit_signs,
            connections=vitals.node_signs,
            run=state.run,
            policy=self.policy.tentative,
            reads=self._reads,
            intervals=self.intervals,
            slack=self._slack,
            out=ledger,
        )
        self._membership = Membership(
            state=state.node_state,
            signs=vitals.node_signs,
            units=Residents(units=self._units, forks=self.forks),
            candidates=vitals.pool,
            run=state.run,
            policy=self.policy,
            out=ledger,
        )
        self._placement = self._placer(ledger, replicas)
        self._run = RunLife(
            state=state.run,
            nodes=self._membership,
            units=self._units,
            wanted=self.units,
            out=ledger,
        )

    def _handover_life(self, ledger: Ledger) -> HandoverLife:
        return HandoverLife(
            state=self.state.unit_state,
            signs=self.vitals.unit_signs,
            loads=self.vitals.pool,
            # The units of a split have a node each; those of another path have no followers.
            replicated={unit.segment for unit in self.units if unit.replica} - set(self.splits),
            out=ledger,
        )

    def _path_life(self, ledger: Ledger) -> PathLife:
        return PathLife(
            splits=self.splits,
            hot=self.hot,
            state=self.state.path_state,
            units=self.state.unit_state,
            signs=self.vitals.unit_signs,
            loads=self.vitals.pool,
            heirs=self._handover,
            nexus=self._nexus,
            policy=self.policy,
            out=ledger,
        )

    def _placer(self, ledger: Ledger, replicas: Replication) -> Placement:
        return Placement(
            waiting=self.state.unit_state,
            pool=self.vitals.pool,
            run=self.state.run,
            units=self._units,
            replicas=replicas,
            guests=self.paths,
            policy=self.policy,
            out=ledger,
        )

    def replay(self, state: State | None, facts: Iterable[Fact]) -> None:
        """Take over from a journal: the last snapshot, if any, and what followed."""
        if state is not None:
            self._compose(state)
        for fact in facts:
            self.state.apply(fact)

    def handle(self, event: e.Event, now: float) -> list[Command]:
        """Decide what follows from one event. Facts come before the commands they cause."""
        self._out.take()  # an event that raised may have left some
        moment = Moment(now, event.cause)
        last = self._last_event_at
        if last is not None and now - last > self.policy.pause_s:
            self.vitals.node_signs.forgive(now)
            self.vitals.unit_signs.forgive(now)
        self._last_event_at = now
        match event:
            case e.Heartbeat():
                self._heartbeat(moment, event)
            case e.Tick():
                self._membership.sweep(moment)
                self.paths.tick(moment)
            case e.NodeHello():
                self._membership.hello(moment, event)
            case e.NodeDisconnected():
                self._membership.disconnected(moment, event)
            case e.NodeExited():
                self._membership.exited(moment, event)
            case e.KillRequested():
                self._membership.kill(moment, event)
            case e.RetryRequested():
                self._units.release(moment, event)
            case e.HandoverRequested():
                self._handover.begin(moment, event)
            case e.LaunchOpened():
                anew = event.launch != self.state.run.launch
                self.forks.opened(moment, anew=anew)
                self._run.open_launch(moment, event)
                self.paths.begin(moment, anew=anew)
            case e.PathCarried():
                self.paths.carried(moment, event)
            case e.PathKept():
                self.paths.kept(moment, event)
            case e.PathAsked():
                self.paths.ask(moment, event)
            case e.LauncherTroubled():
                self._run.troubled(moment, event)
            case e.ScalingSaid():
                self._run.note(moment, event)
            case e.StopRequested():
                self._run.stop(moment)
            case _:
                assert_never(event)
        for unit in self.paths.revived():
            self._units.release(moment, e.RetryRequested(cause=event.cause, unit=unit))
        self._placement.place(moment)
        if isinstance(event, e.Tick):
            self.forks.look(moment)
        self._run.finish(moment)
        return self._out.take()

    def _heartbeat(self, moment: Moment, event: e.Heartbeat) -> None:
        if not self._membership.heartbeat(moment, event):
            return
        self.paths.heard(moment, event)
        why = self.paths.lingering(moment, event.node, event.reports)
        if why is not None:
            self._membership.give_up(moment, event.node, why)
