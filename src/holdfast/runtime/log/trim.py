"""Removing what nobody may still need, and what dead writers left.

What that is, `holdfast.streams.floors` decides. First the floor is raised, then records are
removed, then files: a reader that meets a missing record below the floor knows it was left behind,
and a crash in between leaves garbage that the next trim removes, never a record without its files.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from holdfast.deployment import Deployment
from holdfast.rundir.layout import stop_mark, unit_folder
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import DeploymentWiring
from holdfast.storage import Storage
from holdfast.storage.interface import LEFTOVER_S
from holdfast.streams.floors import RETAIN_BATCHES, Floors
from holdfast.streams.records import change_of, stream_of
from holdfast.streams.steps import Steps, slices

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
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Args:
        log: what is trimmed.
        deployment: who reads what.
        retain: committed batches that may have to be run again.
        keep_input: never trim what sources published: for checking results against all input.
        clock: wall-clock seconds, as files are stamped; tells what writers that died have left.
        """
        self.log, self.keep_input, self.clock = log, keep_input, clock
        sources = {item.name for item in deployment.segments if item.kind == "source"}
        wiring = DeploymentWiring(deployment=deployment, kept=sources if keep_input else ())
        self._floors = Floors(wiring, writer=log.writer, retain=retain)

    def trim(self, unit: str) -> None:
        """Trim a unit, and those before it in its stream that have handed over."""
        for name in (*self.log.run(self._predecessors(unit)), unit):
            self.log.run(self._floors.trim(name, stream_of(name)))
            self._remove_files(name)
        self._sweep(unit)

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
