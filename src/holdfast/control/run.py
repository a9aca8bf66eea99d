"""The run as a whole: it is launched, told what its launcher and autoscaler say, and ended."""

from __future__ import annotations

from typing import Protocol

from holdfast.control.commands import Finish
from holdfast.control.events import LauncherTroubled, LaunchOpened, ScalingSaid
from holdfast.control.facts import (
    Deployed,
    LaunchTrouble,
    Opened,
    RunFact,
    ScalingNoted,
    StopBegan,
    TermBegan,
)
from holdfast.control.outlet import Moment, Outlet
from holdfast.control.state.run_state import RunState
from holdfast.deployment import UnitId


class Nodes(Protocol):
    """Who takes care of the nodes."""

    def __len__(self) -> int: ...

    def await_return(self, moment: Moment) -> None: ...

    def relaunch(self, moment: Moment) -> None: ...

    def dismiss_all(self, moment: Moment) -> None: ...


class Units(Protocol):
    """Who takes care of the units."""

    def deployed(self) -> list[str]: ...

    def park_failed(self, moment: Moment) -> None: ...


class RunLife:
    """Sees the run's own state; decides its beginning and its end."""

    def __init__(
        self,
        *,
        state: RunState,
        nodes: Nodes,
        units: Units,
        wanted: tuple[UnitId, ...],
        out: Outlet[RunFact, Finish],
    ) -> None:
        """Args as the types say; `wanted`: what is to run, upstream first."""
        self._state = state
        self._nodes = nodes
        self._units = units
        self._wanted = wanted
        self._finished = False
        self._out = out

    def open_launch(self, moment: Moment, event: LaunchOpened) -> None:
        """A coordinator begins to lead. In the same launch everything may still be running."""
        if event.term != self._state.term:
            self._out.record(
                TermBegan(
                    at=moment.now,
                    cause=moment.cause,
                    term=event.term,
                    coordinator=event.coordinator,
                )
            )
        if event.launch == self._state.launch:
            self._nodes.await_return(moment)
            return
        self._nodes.relaunch(moment)
        self._units.park_failed(moment)
        if self._units.deployed() != [str(unit) for unit in self._wanted]:
            self._out.record(Deployed(at=moment.now, cause=moment.cause, units=self._wanted))
        self._out.record(Opened(at=moment.now, cause=moment.cause, launch=event.launch))

    def troubled(self, moment: Moment, event: LauncherTroubled) -> None:
        """The launcher says what it cannot do; it says so again whenever it connects."""
        if event.trouble != self._state.trouble:
            self._out.record(
                LaunchTrouble(at=moment.now, cause=moment.cause, trouble=event.trouble)
            )

    def note(self, moment: Moment, event: ScalingSaid) -> None:
        """For the timeline: whoever looks later sees why shards are what they are."""
        self._out.record(ScalingNoted(at=moment.now, cause=moment.cause, text=event.text))

    def stop(self, moment: Moment) -> None:
        """Someone asks for the end."""
        if not self._state.stopping:
            self._out.record(StopBegan(at=moment.now, cause=moment.cause))
            self._nodes.dismiss_all(moment)

    def finish(self, moment: Moment) -> None:
        """End the run once it is to end and no node is left."""
        if self._state.stopping and not self._finished and not len(self._nodes):
            self._finished = True
            self._out.send(Finish(cause=moment.cause))
