"""The coordinator's durable state: one slice for each machine, changed by facts alone."""

from holdfast.control.state.nodes import NodeRecord, NodeState
from holdfast.control.state.recoveries import Outcome, Recovery, RecoveryState
from holdfast.control.state.run import RunState
from holdfast.control.state.units import UnitPhase, UnitRecord, UnitState
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
