"""The slice log as a unit of a fork sees it, see `holdfast.streams.fork`.

Whatever reads and publishes goes through a `SliceLog`, so a unit that is given this one runs in a
fork without knowing: its ranges leave out what is silent, and its slices say what they lack.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from holdfast.clock import Clock, SystemClock
from holdfast.deployment import exact_name, fork_number
from holdfast.errors import HoldfastError
from holdfast.runtime.log.slicelog import EndedError, SliceLog
from holdfast.storage import Storage
from holdfast.storage.identity import new_id
from holdfast.streams.fork import ForkSteps, find_fork
from holdfast.streams.records import Fork, Slice, stream_of
from holdfast.streams.steps import Get, branches
from holdfast.streams.unit import Ended

START_S = 60.0
"""How long a unit of a fork is waited for that has not begun: it clones a checkpoint first."""

Predict: TypeAlias = Callable[[str, Iterable[str]], float | None]
"""The share of the input that a segment's output reflects without some units; None: unknown."""


class Patience:
    """How long logs have been waited for, each since it was first missed."""

    def __init__(self, limit_s: Callable[[str], float], clock: Clock) -> None:
        self._limit_s, self._clock = limit_s, clock
        self._since: dict[str, float] = {}

    def over(self, waited_for: Collection[str]) -> bool:
        """Whether all of them have been waited for long enough; forgets all others."""
        now = self._clock.now()
        self._since = {name: self._since.get(name, now) for name in waited_for}
        return all(now - since >= self._limit_s(name) for name, since in self._since.items())


class ForkedLog(SliceLog):
    """The records of one run directory, as a unit of a fork sees them."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        store: Storage | None = None,
        *,
        unit: str,
        streams: Sequence[str] = (),
        stateful: bool = False,
        predict: Predict = lambda *_: None,
        clock: Clock | None = None,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        """Args:
        root: the run directory.
        store: what is in it, if that is open already.
        unit: its name in the fork.
        streams: what it reads, and `stateful` whether its output rests on what it read before: to
            say what its slices lack.
        predict: what share of the input its slices reflect.
        clock: by which it is patient.
        new_id: where identities come from.
        """
        super().__init__(root, store, new_id=new_id)
        self.unit, self._streams, self._stateful = unit, streams, stateful
        self.predict = predict
        number = fork_number(unit)
        found = self.run(find_fork(number)) if number is not None else None
        if found is None:
            raise HoldfastError(f"{unit}: its fork is not on record")
        self.fork: Fork = found
        self._patience = Patience(self._limit_s, clock or SystemClock())

    @property
    def exact(self) -> str:
        """The unit whose fork it is."""
        return exact_name(self.unit)

    def steps(self) -> ForkSteps:
        return ForkSteps(self.fork, self.unit, writer=self.writer, impatient=self._patience.over)

    def ended(self, unit: str, ended: Ended) -> HoldfastError:
        end = self.run(self.steps().ended())
        if end is None:
            return super().ended(unit, ended)
        return ForkOverError(unit, ended, end.reason)

    def publish(self, item: Slice, *, adopt: bool = False) -> Slice:
        missing = self.missing(item.number)
        share = self.predict(exact_name(stream_of(item.unit)), missing)
        return super().publish(replace(item, missing=missing, fidelity=share), adopt=adopt)

    def missing(self, batch: int) -> tuple[str, ...]:
        """The exact units without whose output a batch was made."""
        steps = self.steps()
        return tuple(self.run(steps.missing(batch, self._streams, stateful=self._stateful)))

    def _limit_s(self, log: str) -> float:
        unborn = log in self.fork.units and self.records.execute(Get(branches(log), 0)) is None
        return max(self.fork.patience_s, START_S) if unborn else self.fork.patience_s


class ForkOverError(EndedError):
    """The fork has ended, and all its units with it."""

    def __init__(self, unit: str, ended: Ended, why: str) -> None:
        super().__init__(unit, ended)
        self.args = (f"{unit}: its fork is over, {why}",)


def open_log(root: str | os.PathLike[str], unit: str) -> SliceLog:
    """The log as a unit sees it that only reads."""
    return ForkedLog(root, unit=unit) if fork_number(unit) is not None else SliceLog(root)
