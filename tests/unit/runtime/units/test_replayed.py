"""Units take storage, time and identities as arguments: the same ones give the same run."""

from __future__ import annotations

import itertools

import pytest
from tests.unit.runtime.deployments import a_sink, a_source, deployed

from holdfast.clock import ManualClock
from holdfast.deployment import UnitId
from holdfast.pipeline import Rate
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.trim import Trimmer
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.units.exporters import ExporterUnit, FunctionDelivery
from holdfast.runtime.units.places import Life
from holdfast.runtime.units.sources import GeneratedRows, SourceUnit
from holdfast.runtime.units.threads import UnitContext
from holdfast.storage.memory import MemoryStorage

pytestmark = pytest.mark.unit

DEPLOYMENT = deployed(a_source(), a_sink("x"))
SOURCE = Rate(rows_per_second=3)


class World:
    """One run of a source and a sink, without a disk, a clock or chance."""

    def __init__(self, seed):
        self.wall = ManualClock(1000.0)
        self.store = MemoryStorage(clock=self.wall.now)
        # Names of files take the first digits.
        self._ids = (f"{number:08x}{seed:024x}" for number in itertools.count(seed))
        self.delivered = []
        self.deployment = DEPLOYMENT
        self.generation = 0
        self.log = self._open()

    def _open(self):
        return SliceLog("", self.store, new_id=lambda: next(self._ids))

    def context(self, name, generation):
        log = self._open()
        begin(log, self.deployment)
        segment = self.deployment.segment(name)
        unit = UnitId(segment=name, change=segment.change)
        log.claim(str(unit), generation)
        return UnitContext(
            unit=unit,
            generation=generation,
            segment=segment,
            deployment=self.deployment,
            log=log,
            trimmer=Trimmer(
                log, self.deployment, clock=self.wall.now, new_id=lambda: next(self._ids)
            ),
            crash=Crash(),
            wall=self.wall,
            clock=self.wall,
            new_id=lambda: next(self._ids),
        )

    def units(self, generation):
        rows = GeneratedRows(source=SOURCE, epoch_s=1.0)
        source = self.context("a", generation)
        sink = self.context("x", generation)
        life = Life(sink="x", id=sink.log.life(sink.name))
        delivery = FunctionDelivery(
            life, lambda rows, batch: self.delivered.append((batch, rows)), lambda rows: rows
        )
        schema = SOURCE.table(0, epoch_s=1.0).schema
        return (
            SourceUnit(source, rows, event_time=None),
            ExporterUnit(sink, delivery, schema),
        )

    def run(self, generations, batches, first=0):
        for generation in range(first, first + generations):
            self.generation = generation + 1
            units = self.units(generation)
            for _ in range(batches):
                self.wall.advance(1.0)
                for unit in units:
                    following = unit.context.log.newest_batch(unit.context.name) + 1
                    unit._batch(unit._next(unit._position(following)))
        return {name: self.store.read(name) for name in self.store.sizes("")}


def test_the_same_arguments_give_the_same_bytes():
    """Records, slice files and their names, over several generations and trims."""
    first, second, other = World(1), World(1), World(2)
    stored = first.run(3, 20)
    assert stored == second.run(3, 20)
    assert stored.keys() != other.run(3, 20).keys()
    assert len(first.delivered) == 60
    values = [row for _, rows in first.delivered for row in rows.column("value").to_pylist()]
    assert values == list(range(180))
    assert [rows for _, rows in first.delivered] == [rows for _, rows in other.delivered]
