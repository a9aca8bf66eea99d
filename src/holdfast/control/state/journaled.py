"""The whole state as the journal writes it: flat, whichever machine a field belongs to."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.control.events import Unit
from holdfast.control.facts import Fact
from holdfast.control.state.fork_state import ForkRecord, ForkState
from holdfast.control.state.node_state import NodeRecord, NodeState
from holdfast.control.state.path_state import PathState
from holdfast.control.state.recovery_state import Recovery, RecoveryState
from holdfast.control.state.run_state import RunState
from holdfast.control.state.unit_state import UnitRecord, UnitState
from holdfast.control.state.whole import State
from holdfast.health.breaker import SplitState


@dataclass(slots=True, kw_only=True)
class JournaledState(RunState):
    """The fields of a snapshot, the run's own first; shares its tables with its state.

    What a snapshot of an earlier release may not have yet has a default.
    """

    units: dict[str, UnitRecord] = field(default_factory=dict)
    retired: dict[str, int] = field(default_factory=dict)
    deployed: list[str] = field(default_factory=list)
    heirs: dict[str, tuple[Unit, ...]] = field(default_factory=dict)
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    fenced: list[str] = field(default_factory=list)
    open_recoveries: dict[str, Recovery] = field(default_factory=dict)
    closed_recoveries: list[Recovery] = field(default_factory=list)
    next_recovery: int = 1
    splits: dict[str, SplitState] = field(default_factory=dict)
    forks: list[ForkRecord] = field(default_factory=list)
    hopeless_fork: bool = False
    last_at: float = 0.0
    timeline: list[Fact] = field(default_factory=list)


def journaled(state: State) -> JournaledState:
    """To be written at once, before the state changes."""
    return JournaledState(
        pipeline=state.run.pipeline,
        launch=state.run.launch,
        opened_at=state.run.opened_at,
        begun=state.run.begun,
        stopping=state.run.stopping,
        trouble=state.run.trouble,
        term=state.run.term,
        coordinator=state.run.coordinator,
        units=state.unit_state.units,
        retired=state.unit_state.retired,
        deployed=state.unit_state.deployed,
        heirs=state.unit_state.heirs,
        nodes=state.node_state.nodes,
        fenced=state.node_state.fenced,
        open_recoveries=state.recovery_state.under_way,
        closed_recoveries=state.recovery_state.closed,
        next_recovery=state.recovery_state.next_id,
        splits=state.path_state.splits,
        forks=state.fork_state.forks,
        hopeless_fork=state.fork_state.hopeless,
        last_at=state.last_at,
        timeline=state.timeline,
    )


def restored(found: JournaledState) -> State:
    """The state that a snapshot was made of."""
    return State(
        run=RunState(
            pipeline=found.pipeline,
            launch=found.launch,
            opened_at=found.opened_at,
            begun=found.begun,
            stopping=found.stopping,
            trouble=found.trouble,
            term=found.term,
            coordinator=found.coordinator,
        ),
        node_state=NodeState(nodes=found.nodes, fenced=found.fenced),
        unit_state=UnitState(
            units=found.units,
            retired=found.retired,
            deployed=found.deployed,
            heirs=found.heirs,
            at=found.last_at,
        ),
        recovery_state=RecoveryState(
            under_way=found.open_recoveries,
            closed=found.closed_recoveries,
            next_id=found.next_recovery,
        ),
        path_state=PathState(splits=found.splits),
        fork_state=ForkState(forks=found.forks, hopeless=found.hopeless_fork),
        last_at=found.last_at,
        timeline=found.timeline,
    )
