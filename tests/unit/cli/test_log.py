"""`holdfast log`: streams, carriers, births, turns, seals, floors, pins, and what is damaged."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.unit.cli.test_resume import make_spec
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.cli.resume import Starts, check_resume, reset_operators
from holdfast.errors import CorruptLogError
from holdfast.rundir.spec import write_spec
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import begin
from holdfast.streams.records import Change, Child, Floor, Range, Slice
from holdfast.streams.steps import Put, RaiseFloor, changes, ranges, slices

pytestmark = pytest.mark.unit


@pytest.fixture
def run(tmp_path):
    """A run of five batches."""
    spec = make_spec()
    write_spec(tmp_path, spec)
    log = SliceLog(tmp_path)
    begin(log, spec.deployment)
    for number in range(5):
        for segment in spec.deployment.segments:
            unit = f"{segment.name}.0#0"
            told = {"unit": unit, "number": number, "after": number - 1, "upto": number}
            log.records.execute(Put(ranges(unit), number, Range(**told)))
            if segment.outputs:
                log.publish(Slice(**told, rows=7))
    return tmp_path


def told(run, *words):
    found = CliRunner().invoke(app, ["log", str(run), "--json", *words], catch_exceptions=False)
    return found.exit_code, json.loads(found.output)


def test_streams_and_their_carriers_are_told(run):
    """Who carries what since when, how far it is, and who holds what back."""
    code, found = told(run)
    assert code == 0
    names = [item["stream"] for item in found["streams"]]
    assert names == ["numbers", "double", "count", "out"]
    count = found["streams"][2]
    assert count["carriers"] == [{"unit": "count.0#0", "since": -1}]
    assert count["last_end"] == 4
    assert count["pins"] == [{"by": "out.0#0", "after": -1}]
    assert found["streams"][1]["pins"][0] == {"by": "count.0#0", "after": -1}
    unit = next(item for item in found["units"] if item["unit"] == "count.0#0")
    assert (unit["batch"], unit["epoch"], unit["slices"], unit["seal"]) == (4, 4, 5, None)
    assert found["damaged"] == found["trouble"] == []


def test_a_reset_is_seen_as_a_change_with_a_seal_and_a_closing(run):
    """The old unit is sealed, the stream closed there, the new unit born there."""
    resume = check_resume(run, make_spec(), ["count"], Starts.parse(["3"]))
    write_spec(run, reset_operators(run, resume).spec)
    _, found = told(run)
    count = next(item for item in found["streams"] if item["stream"] == "count")
    assert [change["number"] for change in count["changes"]] == [0, 1]
    assert count["closings"] == [{"of": 0, "end": 2, "next": 1}]
    assert count["carriers"] == [{"unit": "count.1#0", "since": 2}]
    old = next(item for item in found["units"] if item["unit"] == "count.0#0")
    assert old["seal"] == {"change": 1, "how": "halt", "end": None, "batch": None}


def test_a_handover_under_way_shows_turns_and_heirs_that_wait(run):
    """A change put on record, carried out as far as it is."""
    log = SliceLog(run)
    children = tuple(
        Child(unit=f"count.1#{shard}", segment="count", groups=groups)
        for shard, groups in enumerate([(0, 64), (64, 128)])
    )
    change = Change(stream="count", number=1, how="run", children=children, parents=("count.0#0",))
    log.records.execute(Put(changes("count"), 1, change))
    log.run(log.steps().carry_out("count"))
    _, found = told(run)
    count = next(item for item in found["streams"] if item["stream"] == "count")
    assert [item["since"] for item in count["carriers"]] == ["not yet", "not yet"]
    parent = next(item for item in found["units"] if item["unit"] == "count.0#0")
    assert parent["turn"] == {"change": 1, "end": 4}


def test_the_slice_tables_are_shown(run):
    """What every batch read and what it published."""
    _, found = told(run, "--tables")
    table = next(item for item in found["tables"] if item["unit"] == "count.0#0")
    assert [(row["batch"], row["after"], row["upto"]) for row in table["input"]] == [
        (number, number - 1, number) for number in range(5)
    ]
    assert [row["rows"] for row in table["output"]] == [7] * 5


def test_what_keeps_the_input_of_sources_is_told(run):
    """Under --keep-input nobody need read it for it to stay."""
    write_spec(run, replace(make_spec(), options={"keep_input": True}))
    _, found = told(run)
    assert found["streams"][0]["pins"] == [{"by": "--keep-input", "after": -1}]
    assert found["streams"][1]["pins"][0] == {"by": "count.0#0", "after": -1}


@pytest.mark.parametrize(("levels", "after"), [(1, 18), (2, -1)])
def test_what_levels_of_acknowledgement_keep_is_told(run, levels, after):
    """A sink that is far behind holds back what was read for it, with two levels one further up."""
    write_spec(run, replace(make_spec(), options={"ack_levels": levels}))
    log = SliceLog(run)
    for number in range(5, 30):
        for name in ("numbers", "double", "count"):
            batch = {"unit": f"{name}.0#0", "number": number, "after": number - 1, "upto": number}
            log.records.execute(Put(ranges(batch["unit"]), number, Range(**batch)))
            log.publish(Slice(**batch))
    _, found = told(run)
    assert found["streams"][1]["pins"][0] == {"by": "count.0#0", "after": after}


def test_a_restart_with_a_damaged_change_is_neither_done_nor_to_be_done(run):
    """Whether it is carried out cannot be told."""
    resume = check_resume(run, make_spec(), ["count"], Starts.parse(["3"]))
    write_spec(run, reset_operators(run, resume).spec)
    path = run / "streams" / "count" / "changes" / "0000000001"
    path.write_bytes(path.read_bytes()[:40])
    code, found = told(run)
    assert (code, found["restarts"][0]["carried_out"]) == (1, None)
    shown = CliRunner().invoke(app, ["log", str(run)], catch_exceptions=False).output
    assert "next starts" not in shown


def test_a_damaged_record_is_named_and_nothing_is_guessed(run):
    """The exit code says so; what depends on it is left out."""
    path = run / "units" / "count.0#0" / "slices" / "0000000002"
    path.write_bytes(path.read_bytes()[:-4])
    code, found = told(run)
    assert code == 1
    assert found["damaged"] == [
        {"path": "units/count.0#0/slices/0000000002", "what": found["damaged"][0]["what"]}
    ]
    assert "is torn" in found["damaged"][0]["what"]
    assert found["trouble"]
    shown = CliRunner().invoke(app, ["log", str(run), "--tables"]).output
    assert "damaged: units/count.0#0/slices/0000000002: is torn" in shown.replace("\n", "")


def test_tables_are_for_people(run):
    """Every stream and unit has a line."""
    shown = CliRunner().invoke(app, ["log", str(run)])
    assert shown.exit_code == 0
    for name in ("numbers.0#0", "double.0#0", "count.0#0", "out.0#0", "the beginning"):
        assert name in shown.output


def test_a_record_in_the_place_of_another_is_named(run):
    """Copied or put back by hand, it is whole and says something else: it would be read twice."""
    place = run / "units" / "double.0#0" / "slices"
    (place / f"{3:010d}").write_bytes((place / f"{2:010d}").read_bytes())
    other = run / "units" / "count.0#0" / "ranges" / f"{1:010d}"
    other.write_bytes((run / "units" / "out.0#0" / "ranges" / f"{1:010d}").read_bytes())
    code, found = told(run)
    assert code == 1
    assert {item["path"]: item["what"] for item in found["damaged"]} == {
        "units/double.0#0/slices/0000000003": "is slice record 2, not this one",
        "units/count.0#0/ranges/0000000001": (
            "is a range record of out.0#0 and does not belong here"
        ),
    }
    with pytest.raises(CorruptLogError, match="is slice record 2, not this one"):
        SliceLog(run).slice("double.0#0", 3)


def test_a_record_that_is_missing_is_named(run):
    """Between the floor and the newest: whoever comes to it waits for ever."""
    log = SliceLog(run)
    log.records.execute(RaiseFloor(slices("numbers.0#0"), Floor(number=2, epoch=1)))
    gone = ["units/double.0#0/slices/0000000002", "units/count.0#0/ranges/0000000000"]
    for path in [*gone, "units/numbers.0#0/slices/0000000001"]:
        (run / path).unlink()
    code, found = told(run)
    assert code == 1
    assert sorted(item["path"] for item in found["damaged"]) == sorted(gone)
    assert {item["what"] for item in found["damaged"]} == {"is gone"}


def test_a_unit_whose_change_is_missing_is_named(run):
    """What it has published belongs to no stream then, and nothing else would say so."""
    for stream in ("double", "count"):
        (run / "streams" / stream / "changes" / f"{0:010d}").unlink()
    code, found = told(run)
    assert code == 1
    assert {item["path"]: item["what"] for item in found["damaged"]} == {
        f"streams/{stream}/changes/0000000000": f"is gone, and {stream}.0#0 was made by it"
        for stream in ("double", "count")
    }
