"""The phases of a recovery: failed, detected, restored, caught up.

A recovery belongs to one unit. It begins when its failure is detected, is restored when the new
generation is seen to run, and has caught up when the unit's log goes beyond where it was at the
failure. "Where it was" is the larger of the last reported epoch and the log's end that the new
generation found, so a slice published unseen just before the failure does not count as progress.
A unit that fails again supersedes its recovery with another one.
"""

from __future__ import annotations

from holdfast.control.events import UnitReport
from holdfast.control.facts import DownReason, RecoveryBegan, RecoveryCaughtUp, RecoveryRestored
from holdfast.control.state import UnitRecord
from holdfast.control.turn import Turn


def begin(
    turn: Turn, record: UnitRecord, *, reason: DownReason, node: str, failed_at: float
) -> None:
    """A failure of a unit was detected."""
    earlier = turn.state.open_recovery(record.unit)
    turn.record(
        RecoveryBegan(
            at=turn.now,
            cause=turn.cause,
            recovery=turn.state.next_recovery,
            unit=record.unit,
            reason=reason,
            node=node,
            failed_at=min(failed_at, turn.now),
            # What an earlier, unfinished recovery had to come back to is still owed.
            epoch=max(turn.vitals.epoch(record.unit), earlier.epoch if earlier else -1),
        )
    )


def observe(turn: Turn, record: UnitRecord, report: UnitReport) -> None:
    """The current generation reported while running."""
    recovery = turn.state.open_recovery(record.unit)
    if recovery is None or record.node is None:
        return
    if recovery.restored_at is None:
        turn.record(
            RecoveryRestored(
                at=turn.now,
                cause=turn.cause,
                recovery=recovery.id,
                unit=record.unit,
                generation=record.generation,
                node=record.node,
                epoch=report.epoch,
            )
        )
    elif report.epoch > recovery.epoch:
        turn.record(
            RecoveryCaughtUp(
                at=turn.now,
                cause=turn.cause,
                recovery=recovery.id,
                unit=record.unit,
                epoch=report.epoch,
            )
        )
