"""Removing what nobody may still need, and what dead writers left.

What that is, `holdfast.streams.floors` decides. First the floor is raised, then records are
removed, then files: a reader that meets a missing record below the floor knows it was left behind,
and a crash in between leaves garbage that the next trim removes, never a record without its files.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from holdfast.deployment import Deployment, UnitId
from holdfast.rundir.layout import INHERITED, TAKEN, stop_mark, unit_folder
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import DeploymentWiring, shared_streams
from holdfast.storage import Storage
from holdfast.storage.identity import new_id
from holdfast.storage.interface import LEFTOVER_S
from holdfast.streams.floors import RETAIN_BATCHES, Floors
from holdfast.streams.records import change_of, stream_of
from holdfast.streams.steps import FORK_ENDS, Steps, slices

TRIM_EVERY = 16
"""Batches between two trims of a unit: directory listings are paid for this rarely."""


class Trimmer:
    """Trims what units own: their range records and their slices."""

    def __init__(
        self,
        log: SliceLog,
        deployment: Deployment,
        *,
        retain: int = RETAIN_BATCHES,
        keep_input: bool = False,
        levels: int = 1,
        every: int = TRIM_EVERY,
        clock: Callable[[], float] = time.time,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        """Args:
        log: what is trimmed.
        deployment: who reads what.
        retain: committed batches that may have to be run again.
        keep_input: never trim what sources published: for checking results against all input.
        levels: of acknowledgement: input is kept until what was made of it so many boundaries
            further down is there to stay.
        every: batches of a unit between two trims.
        clock: wall-clock seconds, as files are stamped; tells what writers that died have left.
        new_id: where names come from of what is moved aside.
        """
        self.log, self.keep_input, self.clock, self._new_id = log, keep_input, clock, new_id
        sources = {item.name for item in deployment.segments if item.kind == "source"}
        wiring = DeploymentWiring(deployment=deployment, kept=sources if keep_input else ())
        self.levels, self._every = levels, every
        self._floors = Floors(
            wiring,
            writer=log.writer,
            retain=retain,
            shared=shared_streams(deployment),
            levels=levels,
            keep_newest=True,
        )

    def is_due(self, number: int) -> bool:
        """Whether a unit is to be trimmed after a batch."""
        return number % self._every == self._every - 1

    def keep_epoch(self, unit: str) -> int | None:
        """A checkpoint keeps its newest commit at or before this epoch; None: the newest few do."""
        return self.log.run(self._floors.keep_epoch(unit))

    def trim(self, unit: str) -> None:
        """Trim a unit, and those before it in its stream that have handed over."""
        for name in (*self.log.run(self._predecessors(unit)), unit):
            self.log.run(self._floors.trim(name, stream_of(name)))
            self._remove_files(name)
            if name != unit and self.log.run(self._floors.is_over(name)):
                self._remove_state(name)
        self._remove_forks(unit)
        self._sweep(unit)

    def _remove_state(self, unit: str) -> None:
        """Nobody needs anything of a unit any more but its seal."""
        layout, store = self.log.layout, self.log.store
        follower = str(replace(UnitId.parse(unit), replica=1))
        for folder in (layout.checkpoints(unit), layout.checkpoints(follower), layout.data(unit)):
            store.remove_folder(folder, aside=layout.removed(self._new_id()))
        home = unit_folder(unit)
        for folder in (f"{home}/{kind}" for kind in TAKEN):
            if store.names(folder):  # of a source that reads files: its heirs have their own
                store.remove_folder(folder, aside=layout.removed(self._new_id()))
        store.delete(f"{home}/{INHERITED}")

    def _remove_forks(self, unit: str) -> None:
        """What forks of the unit have left that are over: nobody reads it, and nobody will."""
        layout, store = self.log.layout, self.log.store
        for number in store.names(FORK_ENDS):
            name = UnitId.parse(unit).forked(int(number)).name
            for folder in (unit_folder(name), layout.checkpoints(name)):
                if store.folders(folder):
                    store.remove_folder(folder, aside=layout.removed(self._new_id()))

    def _predecessors(self, unit: str) -> Steps[list[str]]:
        """Units of the stream that an earlier change made and that are sealed: none trims itself
        any more.
        """
        found: list[str] = []
        for change in (yield from self._floors.changes_of(stream_of(unit)))[: change_of(unit)]:
            for child in change.children:
                sealed = (yield from self._floors.seal_of(child.unit)) is not None
                found += [child.unit] if sealed else []
        return found

    def _remove_files(self, unit: str) -> None:
        """Also of batches that were written and never published: their number passes as well."""
        floor = self.log.floor(slices(unit)).number
        if not floor:
            return
        data = self.log.store.below(self.log.layout.data(unit))
        for boundary in data.folders(""):
            _remove_below(data.below(boundary), floor)

    def _sweep(self, unit: str) -> None:
        """Remove temporary files that killed writers left."""
        home, store = unit_folder(unit), self.log.store
        before = self.clock() - LEFTOVER_S
        store.remove_leftovers(home, before)
        for kind in store.folders(home):
            store.remove_leftovers(f"{home}/{kind}", before)


def remove_stop_marks(log: SliceLog, unit: str, below: int, replica: int = 0) -> None:
    """Remove the stop marks of older generations: the claim of a newer one stops their tasks."""
    for name in log.store.names(unit_folder(unit)):
        number = name.removeprefix(stop_mark(replica))
        if name.startswith(stop_mark(replica)) and number.isdigit() and int(number) < below:
            log.store.delete(f"{unit_folder(unit)}/{name}")


def _remove_below(folder: Storage, floor: int) -> None:
    for name in folder.names(""):
        if name[:1].isdigit() and int(name.partition("-")[0]) < floor:
            folder.delete(name)
