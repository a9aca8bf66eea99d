"""However often units are killed, what they leave behind stays bounded."""

from __future__ import annotations

import os
import time

import pyarrow as pa
import pytest

from holdfast.clock import ManualClock
from holdfast.deployment import Boundary, Deployment, Segment, UnitId
from holdfast.pipeline import Rate
from holdfast.rundir.layout import unit_folder
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.trim import Trimmer, remove_stop_marks
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.units.aside import put_aside
from holdfast.runtime.units.exporters import TEMPORARY, ExporterUnit, ParquetDelivery
from holdfast.runtime.units.places import Life
from holdfast.runtime.units.sources import GeneratedRows, SourceUnit
from holdfast.runtime.units.threads import UnitContext
from holdfast.storage.interface import LEFTOVER_S
from holdfast.storage.local import LocalStorage, temporary_name

pytestmark = pytest.mark.unit

EPOCH_S = 1.0
BATCHES = 8
"""Of a generation."""
DEPLOYMENT = Deployment(
    pipeline="p",
    epoch_s=EPOCH_S,
    fingerprints={},
    segments=(
        Segment(name="a", kind="source", operators=("a",), outputs=(Boundary(operator="a"),)),
        Segment(name="x", kind="exporter", operators=("x",), inputs=("a",)),
    ),
)
SKIPS = "skips"
WRITTEN = {"ranges", "slices", "ranges-floor", "slices-floor", "claims-0", "a.0#0", "x.0#0", SKIPS}
"""Folders in which a file is written under another name first."""
SCHEMA = Rate(rows_per_second=4).table(0, epoch_s=EPOCH_S).schema


def context(root, name, generation, wall):
    log = SliceLog(root)
    begin(log, DEPLOYMENT)
    log.claim(f"{name}.0#0", generation)
    return UnitContext(
        unit=UnitId(segment=name),
        generation=generation,
        segment=DEPLOYMENT.segment(name),
        deployment=DEPLOYMENT,
        log=log,
        trimmer=Trimmer(log, DEPLOYMENT, clock=wall.now),
        crash=Crash(),
        wall=wall,
    )


def source(root, generation, wall):
    rows = GeneratedRows(source=Rate(rows_per_second=4), epoch_s=EPOCH_S)
    return SourceUnit(context(root, "a", generation, wall), rows, event_time=None)


def exporter(root, generation, wall):
    life = Life(sink="x", id=SliceLog(root).life("x.0#0"))
    delivery = ParquetDelivery(root / "out", life, resumed=generation > 1)
    return ExporterUnit(context(root, "x", generation, wall), delivery, SCHEMA)


def run_batch(unit):
    """Drive a unit's own decisions for one batch, without its thread."""
    following = unit.context.log.newest_batch(unit.context.name) + 1
    unit._batch(unit._next(unit._position(following)))


def litter(root, generation, now):
    """What a generation that is killed in the middle of everything leaves behind, long ago."""
    long_ago = now - LEFTOVER_S - 60
    for folder in [path for path in root.rglob("*") if path.name in WRITTEN]:
        path = folder / temporary_name()
        path.write_bytes(b"half")
        os.utime(path, (long_ago, long_ago))
    for name in ("a", "x"):
        (root / "units" / f"{name}.0#0" / f"stop-{generation}").touch()
    (root / "out" / TEMPORARY.replace("*", str(generation))).write_bytes(b"half")
    data = root / "units" / "a.0#0" / "data" / "a"
    following = SliceLog(root).newest_batch("a.0#0") + 1
    (data / f"{following:010d}-g{generation}-p0-dead.arrow").write_bytes(b"never published")


@pytest.mark.slow
def test_many_killed_generations_leave_a_bounded_number_of_files(tmp_path):
    """Claims, stop marks, temporaries and unpublished slices of dead generations all go."""
    wall = ManualClock(time.time())
    (tmp_path / unit_folder("a.0#0") / SKIPS).mkdir(parents=True)
    counts = []
    for generation in range(1, 13):
        units = source(tmp_path, generation, wall), exporter(tmp_path, generation, wall)
        for _ in range(BATCHES):
            wall.advance(EPOCH_S)
            for unit in units:
                run_batch(unit)
        for unit in units:
            remove_stop_marks(unit.context.log, unit.context.name, generation)
        found = [path for path in tmp_path.rglob("*") if path.is_file()]
        counts.append(len([path for path in found if not path.name.startswith("part-")]))
        litter(tmp_path, generation, wall.now())
    # Two trims are 16 batches apart, so the counts go up and down with a period of 2 generations.
    assert SliceLog(tmp_path).newest_batch("x.0#0") == 12 * BATCHES - 1
    assert max(counts[8:]) <= max(counts[4:8])


def test_rows_put_aside_leave_no_temporaries(tmp_path):
    """The folder is looked through anyway, to forget the oldest."""
    left = tmp_path / temporary_name()
    left.touch()
    os.utime(left, (0, 0))
    fresh = tmp_path / temporary_name()
    fresh.touch()
    put_aside(LocalStorage(tmp_path), 3, pa.table({"n": [1]}), keep_all=False, now=time.time())
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [fresh.name, "0000000003.arrow"]
    )
