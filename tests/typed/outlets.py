"""What mypy must refuse: a machine that decides or commands what is not its own.

Checked with the sources (`make types`). Each mark says that mypy finds an error there; should it
find none any more, it complains of the mark.
"""

from __future__ import annotations

from typing import Never

from holdfast.control.commands import Dismiss, Fence, Finish, StartUnit, StopUnit
from holdfast.control.facts import (
    NodeFact,
    PlacementFact,
    RecoveryFact,
    RunFact,
    StopBegan,
    UnitFact,
    UnitParked,
    UnitWaiting,
)
from holdfast.control.membership import Membership
from holdfast.control.outlet import Ledger, Outlet
from holdfast.control.placement import Waiting
from holdfast.control.state import State, UnitState
from holdfast.deployment import UnitId

UNIT = UnitId(segment="a")
STOP = StopBegan(at=0.0, cause="x")
PARKED = UnitParked(at=0.0, cause="x", unit=UNIT)
WAITING = UnitWaiting(at=0.0, cause="x", unit=UNIT)
FENCE = Fence(cause="x", node="n", pid=1)
STOP_UNIT = StopUnit(cause="x", node="n", unit=UNIT, generation=1)


def run(out: Outlet[RunFact, Finish]) -> None:
    out.record(STOP)
    out.record(PARKED)  # type: ignore[arg-type]
    out.send(FENCE)  # type: ignore[arg-type]


def membership(out: Outlet[NodeFact, Dismiss | Fence]) -> None:
    out.send(FENCE)
    out.record(PARKED)  # type: ignore[arg-type]
    out.send(STOP_UNIT)  # type: ignore[arg-type]


def units(out: Outlet[UnitFact, StartUnit | StopUnit]) -> None:
    out.record(PARKED)
    out.send(STOP_UNIT)
    out.record(WAITING)  # type: ignore[arg-type]
    out.send(FENCE)  # type: ignore[arg-type]


def placement(out: Outlet[PlacementFact, StartUnit], waiting: Waiting) -> None:
    out.record(WAITING)
    out.record(PARKED)  # type: ignore[arg-type]
    out.send(STOP_UNIT)  # type: ignore[arg-type]
    print(waiting.retired)  # type: ignore[attr-defined]


def recovery(out: Outlet[RecoveryFact, Never]) -> None:
    out.record(PARKED)  # type: ignore[arg-type]
    out.send(FENCE)  # type: ignore[arg-type]


def ledger(state: State) -> None:
    """One ledger serves them all."""
    made = Ledger(state)
    run(made)
    membership(made)
    units(made)
    placement(made, UnitState())
    recovery(made)


def parts(state: State, made: Membership) -> None:
    """Another machine's part is no substitute for its own."""
    Membership(
        state=state.unit_state,  # type: ignore[arg-type]
        signs=made._signs,
        units=made._units,
        candidates=made._candidates,
        run=state.run,
        policy=made._policy,
        out=Ledger(state),
    )
