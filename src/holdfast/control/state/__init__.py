"""The coordinator's durable state: one part for each machine, changed by facts alone."""

from holdfast.control.state.node_state import NodeRecord, NodeState
from holdfast.control.state.recovery_state import Outcome, Recovery, RecoveryState
from holdfast.control.state.run_state import RunState
from holdfast.control.state.unit_state import UnitPhase, UnitRecord, UnitState
from holdfast.control.state.whole import IllegalTransitionError, State

__all__ = [
    "IllegalTransitionError",
    "NodeRecord",
    "NodeState",
    "Outcome",
    "Recovery",
    "RecoveryState",
    "RunState",
    "State",
    "UnitPhase",
    "UnitRecord",
    "UnitState",
]
