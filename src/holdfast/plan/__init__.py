"""Plans: what each method decides and promises, as frozen values; `document` reads them from files.

Planners make them; drawings, deployments, proofs and the command line read them. Nothing here
computes, so that whoever only reads a plan loads neither solvers nor numpy.
"""

from __future__ import annotations

from holdfast.plan.base import FORMAT, Plan
from holdfast.plan.fastrecover import CheckpointedSegment, FastRecoverPlan
from holdfast.plan.ftc import FtcPlan
from holdfast.plan.joint import JointPlan, Latency, PlannedNode, PlannedSegment, RecoveryPhases
from holdfast.plan.ppa import RecoveryPlan, ReplicationPlan

__all__ = [
    "FORMAT",
    "CheckpointedSegment",
    "FastRecoverPlan",
    "FtcPlan",
    "JointPlan",
    "Latency",
    "Plan",
    "PlannedNode",
    "PlannedSegment",
    "RecoveryPhases",
    "RecoveryPlan",
    "ReplicationPlan",
]
