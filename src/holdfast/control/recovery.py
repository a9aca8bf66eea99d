"""The phases of a recovery: failed, detected, restored, caught up.

A recovery belongs to one unit. It begins when its failure is detected, is restored when the new
generation is seen to run, and has caught up when the unit's log goes beyond where it was at the
failure. "Where it was" is the larger of the last reported epoch and the log's end that the new
generation found, so a slice published unseen just before the failure does not count as progress.
A unit that fails again supersedes its recovery with another one.
"""

from __future__ import annotations

from typing import Never

from holdfast.control.facts import (
    DownReason,
    RecoveryBegan,
    RecoveryCaughtUp,
    RecoveryFact,
    RecoveryRestored,
)
from holdfast.control.outlet import Moment, Outlet
from holdfast.control.state.recovery_state import RecoveryState
from holdfast.deployment import UnitId


class RecoveryLife:
    """Sees recoveries alone, and gives no command."""

    def __init__(self, *, state: RecoveryState, out: Outlet[RecoveryFact, Never]) -> None:
        self._state = state
        self._out = out

    def begin(
        self,
        moment: Moment,
        unit: UnitId,
        *,
        reason: DownReason,
        node: str,
        failed_at: float,
        epoch: int,
    ) -> None:
        """A failure of a unit was detected; `epoch` is its progress as last reported."""
        earlier = self._state.of(unit)
        self._out.record(
            RecoveryBegan(
                at=moment.now,
                cause=moment.cause,
                recovery=self._state.next_id,
                unit=unit,
                reason=reason,
                node=node,
                failed_at=min(failed_at, moment.now),
                # What an earlier, unfinished recovery had to come back to is still owed.
                epoch=max(epoch, earlier.epoch if earlier else -1),
            )
        )

    def observe(
        self, moment: Moment, unit: UnitId, *, generation: int, node: str, epoch: int
    ) -> None:
        """The current generation reported while running."""
        recovery = self._state.of(unit)
        if recovery is None:
            return
        if recovery.restored_at is None:
            self._out.record(
                RecoveryRestored(
                    at=moment.now,
                    cause=moment.cause,
                    recovery=recovery.id,
                    unit=unit,
                    generation=generation,
                    node=node,
                    epoch=epoch,
                )
            )
        elif epoch > recovery.epoch:
            self._out.record(
                RecoveryCaughtUp(
                    at=moment.now,
                    cause=moment.cause,
                    recovery=recovery.id,
                    unit=unit,
                    epoch=epoch,
                )
            )
