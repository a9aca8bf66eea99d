"""The coordinator: one method mutates, and its result is data.

`handle(event, now)` gives the commands to carry out, in order. It composes the machines of this
package: membership (nodes), units (failures and budgets), recovery (phases), placement (where). A
shell feeds it events and the time; the simulator feeds the same code from a virtual world.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from holdfast.control import events as e
from holdfast.control import membership, placement, units
from holdfast.control.commands import Command, Dismiss, Finish
from holdfast.control.facts import Fact, StopBegan
from holdfast.control.pool import Pool
from holdfast.control.state import State
from holdfast.control.turn import Turn
from holdfast.control.vitals import Vitals
from holdfast.deployment import UnitId
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
    ) -> None:
        """Args:
        pipeline: its name.
        units: what is to run, upstream first.
        policy: how failures are detected and answered.
        intervals: the batch interval of each segment, seconds.
        """
        self.policy = policy or Policy()
        self.units = units
        self.intervals = dict(intervals or {})
        self.state = State(pipeline=pipeline)
        self.vitals = Vitals(pool=Pool(room=self.policy.max_units_per_node))

    def replay(self, state: State | None, facts: Iterable[Fact]) -> None:
        """Take over from a journal: the last snapshot, if any, and what followed."""
        if state is not None:
            self.state = state
        for fact in facts:
            self.state.apply(fact)

    def handle(self, event: e.Event, now: float) -> list[Command]:
        """Decide what follows from one event. Facts come before the commands they cause."""
        turn = Turn(
            now=now,
            cause=event.cause,
            policy=self.policy,
            state=self.state,
            vitals=self.vitals,
            intervals=self.intervals,
        )
        last = self.vitals.last_event_at
        if last is not None and now - last > self.policy.pause_s:
            self.vitals.forgive(now)
        self.vitals.last_event_at = now
        match event:
            case e.LaunchOpened():
                membership.open_launch(turn, event, self.units)
            case e.NodeHello():
                membership.hello(turn, event)
            case e.Heartbeat():
                membership.heartbeat(turn, event)
            case e.NodeDisconnected():
                membership.disconnected(turn, event)
            case e.NodeExited():
                membership.exited(turn, event)
            case e.LauncherTroubled():
                membership.troubled(turn, event)
            case e.KillRequested():
                membership.kill(turn, event)
            case e.RetryRequested():
                units.release(turn, event)
            case e.StopRequested():
                self._stop(turn)
            case e.Tick():
                membership.sweep(turn)
            case _:
                assert_never(event)
        placement.place(turn)
        if self.state.stopping and not self.state.nodes and not self.vitals.finished:
            self.vitals.finished = True
            turn.send(Finish(cause=turn.cause))
        return turn.commands

    def _stop(self, turn: Turn) -> None:
        if self.state.stopping:
            return
        turn.record(StopBegan(at=turn.now, cause=turn.cause))
        for node in self.state.nodes.values():
            if self.vitals.is_connected(node.node):
                turn.send(
                    Dismiss(
                        cause=turn.cause,
                        node=node.node,
                        incarnation=node.incarnation,
                        reason="stop",
                    )
                )
