"""The page of the slice log says enough to write another reader: `another_reader` was."""

from __future__ import annotations

import ast
import re
import time
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.docs import another_reader
from tests.unit.docs.another_reader import Reader
from tests.unit.runtime.deployments import a_sink, a_source, deployed

from holdfast.deployment import UnitId
from holdfast.deployment.slicefiles import GroupPart, SliceFile, content_digest
from holdfast.pipeline import Parquet
from holdfast.runtime.log.anew import begin_anew, restart
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.slices import write_slice_file
from holdfast.runtime.log.trim import Trimmer
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.units.exporters import ExporterUnit, make_delivery
from holdfast.runtime.units.threads import UnitContext
from holdfast.streams.codec import KINDS
from holdfast.streams.records import Change, Child, Floor, Slice, unit_name
from holdfast.streams.steps import RaiseFloor, slices
from holdfast.streams.unit import Ended, Proposal

pytestmark = pytest.mark.unit

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "slice-log.md"
SCHEMA = pa.schema([("unit", pa.string()), ("epoch", pa.int64())])
DEADLINE_S = 30.0
A = "a@the key"
DEPLOYMENT = deployed(a_source(key=("the key",), shards=2), a_sink("out", reads=A))


class Mended:
    """Whoever finds files missing looks for their repairs."""

    def heal(self, inputs, after, upto, *, heeded, tell):
        return upto


class Life:
    """A run whose stream `a` changes hands, by the decisions of production."""

    def __init__(self, folder):
        self.folder, self.log = folder / "run", SliceLog(folder / "run")
        begin(self.log, DEPLOYMENT)
        self.positions = {}

    def steps(self):
        return self.log.steps()

    def file(self, unit, number, rows, made=""):
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
        groups = np.arange(len(rows), dtype=np.int64)
        name = f"{number:010d}-g0{made}.arrow"
        return write_slice_file(self.log.data(unit, A), name, table, groups, groups)

    def go_on(self, unit, upto):
        """Batches of an epoch each, of two rows, up to an epoch or to the unit's end."""
        if unit not in self.positions:
            self.positions[unit] = self.log.run(self.steps().position_at(unit, 0))
        while (position := self.positions[unit]).after < upto:
            step = self.log.run(
                self.steps().next_step(
                    unit, position, (), lambda after, *_: Proposal(upto=after + 1)
                )
            )
            if isinstance(step, Ended):
                return
            number, end = step.position.batch, step.range.upto
            files = {A: (self.file(unit, number, [{"unit": unit, "epoch": end}] * 2),)}
            told = {"unit": unit, "number": number, "after": end - 1, "upto": end, "rows": 2}
            item = Slice(**told, files=files, digest=content_digest(files))
            assert self.log.run(self.steps().publish(item)) == "published"
            self.positions[unit] = step.done
        # One who stands at his handover epoch seals it.
        self.log.run(self.steps().next_step(unit, self.positions[unit], (), lambda *_: None))

    def change(self, **told):
        number = len(self.log.run(self.steps().changes_of("a")))
        shards = told.pop("shards")
        first, last = told.pop("groups", (0, 128))
        size = (last - first) // shards
        children = tuple(
            Child(
                unit=unit_name("a", number, shard),
                segment="a",
                groups=(first + shard * size, first + (shard + 1) * size),
            )
            for shard in range(shards)
        )
        return Change(stream="a", number=number, children=children, **told)

    def decide(self, change):
        assert self.log.run(self.steps().decide(change))
        self.log.run(self.steps().carry_out("a"))

    def deliver(self, unit, upto):
        """What the production exporter gives to the sink."""
        found = UnitId.parse(unit)
        self.log.claim(unit, 0)
        context = UnitContext(
            unit=found,
            generation=0,
            segment=DEPLOYMENT.segment("out"),
            deployment=DEPLOYMENT,
            log=self.log,
            trimmer=Trimmer(self.log, DEPLOYMENT, keep_input=True),
            crash=Crash(),
            healer=Mended(),
        )
        delivery = make_delivery(
            Parquet("out"),
            context=context,
            boundary=DEPLOYMENT.boundary(A),
            schema=SCHEMA,
            make_frame=lambda rows: rows,
        )
        exporter = ExporterUnit(context, delivery, SCHEMA)
        exporter.start()
        deadline = time.monotonic() + DEADLINE_S
        while (status := exporter.status()).epoch is None or status.epoch < upto:
            assert status.state != "failed", status.error
            assert time.monotonic() < deadline, status
            time.sleep(0.005)
        exporter.stop()
        exporter.join(DEADLINE_S)
        files = sorted((self.folder / "out").glob("*.parquet"))
        return [row for file in files for row in pq.read_table(file).to_pylist()]


def lived(folder):
    """Two shards; one is split; a halt; a lost slice; others take over and run some of it again."""
    life = Life(folder)
    for unit, upto in (("a.0#0", 3), ("a.0#1", 2)):
        life.go_on(unit, upto)
    life.decide(life.change(how="run", shards=2, parents=("a.0#1",), groups=(64, 128)))
    for unit, upto in (("a.0#1", 9), ("a.1#0", 5), ("a.1#1", 4), ("a.0#0", 6)):
        life.go_on(unit, upto)
    # Epoch 4 is the last end: what two logs hold beyond is void.
    life.decide(life.change(how="halt", shards=1))
    life.go_on("a.2#0", 8)
    lost = life.log.need_slice("a.2#0", 1)
    made = life.file("a.2#0", 1, [{"unit": "a.2#0", "epoch": 6}] * 2, made="-again")
    (life.folder / "units" / "a.2#0" / "data" / A / lost.files[A][0].name).unlink()
    files = {A: (made,)}
    life.log.run(life.steps().repair(lost, files, content_digest(files), number=0))
    # Others have the state of epoch 6, and publish 7 and 8 again: that counts for nobody.
    taken = life.change(how="halt", shards=2, since=6, state=(("a.2#0", 1),))
    restart(life.log, DEPLOYMENT, [taken])
    for unit in ("a.3#0", "a.3#1"):
        life.go_on(unit, 11)
    return life


def by_content(rows):
    return sorted((row["unit"], row["epoch"]) for row in rows)


def test_another_reader_finds_exactly_what_the_sink_got(tmp_path):
    """Whatever carried the stream: the rows of each epoch once, and void ones never."""
    life = lived(tmp_path)
    got = life.deliver("out.0#0", 11)
    reader = Reader(life.folder)
    ranges = reader.ranges("out")
    assert (ranges[0]["after"], ranges[-1]["upto"]) == (-1, 11)
    assert by_content(reader.rows("a", -1, 11, A)) == by_content(got)
    # Two rows by each of two units up to epoch 2, three up to 4, one up to 8, two up to 11.
    assert len(got) == 2 * (2 * 3 + 3 * 2 + 4 + 2 * 3)


def test_another_reader_follows_what_was_begun_anew(tmp_path):
    """A second life of stream and sink, from an epoch before those at which it changed hands."""
    life = lived(tmp_path)
    life.deliver("out.0#0", 11)
    (life.folder / "out").rename(tmp_path / "moved away")
    begin_anew(life.log, DEPLOYMENT, {"a": 4, "out": 4})
    for unit in ("a.4#0", "a.4#1"):
        life.go_on(unit, 6)
    got = life.deliver("out.1#0", 6)
    reader = Reader(life.folder)
    ranges = reader.ranges("out")
    assert (ranges[0]["after"], ranges[-1]["upto"]) == (3, 6)
    assert by_content(reader.rows("a", 3, 6, A)) == by_content(got)
    assert {row["unit"] for row in got} == {"a.4#0", "a.4#1"}
    # What came before is still to be read as it was, up to where the second life begins.
    assert {row["epoch"] for row in reader.rows("a", -1, 6, A)} == set(range(7))


def test_another_reader_names_what_is_damaged_or_trimmed(tmp_path):
    """A record or a key group that was altered, and slices below the floor."""
    life = lived(tmp_path)
    reader = Reader(life.folder)
    path = life.folder / "units" / "a.0#0" / "slices" / f"{1:010d}"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b" ")
    with pytest.raises(ValueError, match=r"slices/0000000001: torn or altered"):
        reader.rows("a", -1, 11, A)
    path.write_bytes(whole)
    item = life.log.need_slice("a.0#0", 1).files[A][0]
    file = life.folder / "units" / "a.0#0" / "data" / A / item.name
    data = bytearray(file.read_bytes())
    data[item.parts[0].offset + item.parts[0].size - 1] ^= 1
    file.write_bytes(data)
    with pytest.raises(ValueError, match=r"key group 0 is torn or altered"):
        reader.rows("a", -1, 11, A)
    life.log.records.execute(RaiseFloor(slices("a.0#0"), Floor(number=2, epoch=1)))
    assert {row["epoch"] for row in reader.rows("a", 1, 11, A)} == set(range(2, 12))
    with pytest.raises(ValueError, match=r"trimmed up to epoch"):
        reader.rows("a", -1, 11, A)


def test_another_reader_knows_nothing_of_holdfast():
    """It imports the standard library and pyarrow, so the page is all it has."""
    tree = ast.parse(Path(another_reader.__file__).read_text())
    named = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in named
    }
    assert modules == {"__future__", "json", "sys", "zlib", "pathlib", "urllib.parse", "pyarrow"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_explains_every_field_of_every_kind(kind):
    """Where the kind is described, not just anywhere; what all records have is said once."""
    records = PAGE.read_text().partition("## Records")[2].partition("## Slice files")[0]
    common, *rest = re.split(r"\*\*([A-Z][a-z ]+)\*\*", records)
    sections = dict(zip(rest[::2], rest[1::2], strict=True))
    told = common + sections[kind.capitalize().replace("-", " ")]
    assert [item.name for item in fields(KINDS[kind]) if f"`{item.name}`" not in told] == []


@pytest.mark.parametrize("part", [SliceFile, GroupPart])
def test_the_page_explains_every_field_of_a_slice_file(part):
    """As its slice record names them."""
    page = PAGE.read_text()
    assert [item.name for item in fields(part) if f"`{item.name}`" not in page] == []
