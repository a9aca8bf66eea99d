"""The checker finds planted losses, duplicates and altered values, and nothing else."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
import pytest
from tests.unit.runtime.log.logs import DEPLOYMENT, A, publish
from tests.unit.verify.rundirs import (
    EPOCHS,
    make_pipeline,
    read_part,
    rows_of,
    write_part,
    write_record,
    write_run,
    write_slice,
    write_stream,
)

from holdfast.errors import BadInputError, CorruptLogError
from holdfast.pipeline import Console, Pipeline, Rate
from holdfast.pipeline.claims import claims
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import begin
from holdfast.verify.check import verify
from holdfast.verify.slice_log import dead_rows, kept_slices

pytestmark = pytest.mark.unit

KINDS = ["append", "upsert", "window"]


def sink_finding(run, pipeline):
    verdict = verify(run, claims(pipeline))
    return verdict, next(item for item in verdict.findings if item.kind == "sink")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("undelivered", [0, 1])
def test_a_right_run_is_right(tmp_path, kind, undelivered):
    """The last batch may be there or not; all else is compared."""
    pipeline = write_run(tmp_path, kind, undelivered=undelivered)
    verdict, found = sink_finding(tmp_path, pipeline)
    assert verdict.ok, verdict.to_json()
    assert found.difference.compared >= 3
    assert found.epoch in (EPOCHS - 1, EPOCHS - 2)


@pytest.mark.parametrize("kind", KINDS)
def test_two_undelivered_batches_are_a_loss(tmp_path, kind):
    """The batch before the newest range record has been delivered for certain."""
    pipeline = write_run(tmp_path, kind, undelivered=4)
    verdict, found = sink_finding(tmp_path, pipeline)
    assert not verdict.ok
    assert found.difference.missing or found.difference.altered


def test_a_lost_row_is_missing(tmp_path):
    """One row taken out of the sink is named."""
    pipeline = write_run(tmp_path)
    write_part(tmp_path, 4, read_part(tmp_path, 4)[:1])
    verdict, found = sink_finding(tmp_path, pipeline)
    assert not verdict.ok
    assert (found.difference.missing, found.difference.doubled) == (1, 0)
    assert "missing: {key: 'k9', n: 104, ts: 1970-01-01T00:00:04.500000+00:00}" in (
        found.difference.examples
    )


def test_a_repeated_row_is_doubled(tmp_path):
    """One row delivered twice is named with how often it is there."""
    pipeline = write_run(tmp_path)
    rows = read_part(tmp_path, 4)
    write_part(tmp_path, 4, [*rows, rows[0]])
    verdict, found = sink_finding(tmp_path, pipeline)
    assert not verdict.ok
    assert (found.difference.missing, found.difference.doubled) == (0, 1)
    assert found.difference.examples[0].startswith("2 times: {key: 'k0', n: 4")


def test_a_batch_delivered_twice_is_doubled(tmp_path):
    """A whole file under another number is found."""
    pipeline = write_run(tmp_path, undelivered=1)
    write_part(tmp_path, EPOCHS - 1, read_part(tmp_path, 3))
    verdict, found = sink_finding(tmp_path, pipeline)
    assert not verdict.ok
    assert found.difference.doubled == 2


@pytest.mark.parametrize("kind", ["append", "window"])
def test_an_altered_value_is_told_as_such(tmp_path, kind):
    """Old and new value are shown side by side."""
    pipeline = write_run(tmp_path, kind)
    number = 4 if kind == "append" else 7
    rows = read_part(tmp_path, number)
    write_part(tmp_path, number, [{**rows[0], "n": 777}, *rows[1:]])
    verdict, found = sink_finding(tmp_path, pipeline)
    assert not verdict.ok
    assert (found.difference.altered, found.difference.missing) == (1, 0)
    assert "n: 777 instead of" in found.difference.examples[0]


def test_an_altered_total_in_a_table_is_found(tmp_path):
    """A count that is off by one is not right."""
    pipeline = write_run(tmp_path, "upsert")
    with closing(sqlite3.connect(tmp_path / "out.db")) as base, base:
        base.execute("UPDATE results SET n = n + 1 WHERE key = 'k0'")
    verdict, found = sink_finding(tmp_path, pipeline)
    assert not verdict.ok
    assert found.difference.altered == 1


def test_a_row_nothing_explains_is_unexpected(tmp_path):
    """A row that no input leads to is named."""
    pipeline = write_run(tmp_path)
    rows = read_part(tmp_path, 4)
    write_part(tmp_path, 4, [*rows, {**rows[0], "key": "x", "n": -1}])
    verdict, found = sink_finding(tmp_path, pipeline)
    assert not verdict.ok
    assert found.difference.unexpected == 1


def test_a_window_given_out_too_early_is_unexpected(tmp_path):
    """A row that the watermark has not passed could still have changed."""
    pipeline = write_run(tmp_path, "window")
    kept = [row for epoch in range(EPOCHS) for row in rows_of(epoch, 0)]
    everything = pipeline.expectations["out"].function(
        {"s": [dict(zip(("ts", "key", "n"), row, strict=True)) for row in kept]}
    )
    write_part(tmp_path, EPOCHS - 1, [everything[-1]])
    verdict, found = sink_finding(tmp_path, pipeline)
    assert not verdict.ok
    assert found.difference.unexpected == 1


@pytest.mark.parametrize("change", ["lose", "double", "alter"])
def test_what_a_source_lost_or_changed_is_found(tmp_path, change):
    """Generated rows can be made again, so the kept input itself is checked."""
    pipeline = write_run(tmp_path)
    rows = pipeline.operator("s").source.table(5, epoch_s=1.0).to_pylist()
    changed = {
        "lose": rows[:1],
        "double": [*rows, rows[0]],
        "alter": [{**rows[0], "n": 0}, rows[1]],
    }[change]
    write_slice(tmp_path, "s", 5, changed, watermark_us=4_500_000)
    source = verify(tmp_path, claims(pipeline)).findings[0]
    assert source.kind == "source"
    assert not source.ok


def test_late_rows_are_part_of_what_a_source_made(tmp_path):
    """A row put aside as late is accounted for, and not expected in the result."""
    pipeline = write_run(tmp_path)
    rows = pipeline.operator("s").source.table(5, epoch_s=1.0).to_pylist()
    write_slice(tmp_path, "s", 5, rows[1:], watermark_us=4_500_000)
    write_part(tmp_path, 5, rows[1:])
    assert not verify(tmp_path, claims(pipeline)).ok
    late = tmp_path / "units" / "s.0#0" / "late"
    late.mkdir(parents=True)
    table = pa.Table.from_pylist(rows[:1])
    for number in (5, EPOCHS):
        write_stream(late / f"{number:010d}.arrow", table)
    assert verify(tmp_path, claims(pipeline)).ok


def test_quarantined_rows_are_left_out(tmp_path):
    """A dead-lettered input row must not be in the result."""
    pipeline = write_run(tmp_path)
    rows = pipeline.operator("s").source.table(5, epoch_s=1.0).to_pylist()
    dead = tmp_path / "units" / "m.0#0" / "dead" / "s@key"
    dead.mkdir(parents=True)
    table = pa.Table.from_pylist(rows[:1])
    write_stream(dead / "0000000005-1.arrow", table)
    write_slice(tmp_path, "m", 5, [], watermark_us=4_500_000, skip=1)
    _, found = sink_finding(tmp_path, pipeline)
    assert found.difference.unexpected + found.difference.doubled == 1
    write_part(tmp_path, 5, rows[1:])
    assert verify(tmp_path, claims(pipeline)).ok


def test_rows_count_as_quarantined_in_the_version_that_was_published(tmp_path):
    """What a zombie put aside and nobody published without is no excuse for a missing row."""
    pipeline = write_run(tmp_path)
    rows = pipeline.operator("s").source.table(5, epoch_s=1.0).to_pylist()
    dead = tmp_path / "units" / "m.0#0" / "dead" / "s"
    dead.mkdir(parents=True)
    write_stream(dead / "0000000005-1.arrow", pa.Table.from_pylist(rows[:1]))
    write_stream(dead / "0000000005-2.arrow", pa.Table.from_pylist(rows))
    write_slice(tmp_path, "m", 5, [], watermark_us=4_500_000, skip=0)
    assert dead_rows(tmp_path) == {}
    assert verify(tmp_path, claims(pipeline)).ok
    write_slice(tmp_path, "m", 5, [], watermark_us=4_500_000, skip=1)
    assert dead_rows(tmp_path) == {("m", "s"): rows[:1]}
    write_part(tmp_path, 5, rows[1:])
    assert verify(tmp_path, claims(pipeline)).ok


def test_an_upserted_row_is_in_a_table_once(tmp_path):
    """A second version that should have replaced the first is found, right as it may be."""
    pipeline = write_run(tmp_path, "upsert")
    with closing(sqlite3.connect(tmp_path / "out.db")) as base, base:
        base.execute("CREATE TABLE copy AS SELECT * FROM results")
        base.execute("DROP TABLE results")
        base.execute("ALTER TABLE copy RENAME TO results")
        assert verify(tmp_path, claims(pipeline)).ok
        base.execute("INSERT INTO results SELECT * FROM results WHERE key = 'k9'")
    _, found = sink_finding(tmp_path, pipeline)
    assert found.difference.doubled == 1


@pytest.mark.parametrize("kind", ["append", "upsert"])
def test_the_results_of_another_run_are_not_verified(tmp_path, kind):
    """They would pass for wrong ones of this run."""
    pipeline = write_run(tmp_path, kind)
    (tmp_path / "units" / "out.0#0" / "life").write_text("a1")
    if kind == "append":
        (tmp_path / "out" / "_holdfast.json").write_text('{"sink": "out", "run": "a1"}')
    assert verify(tmp_path, claims(pipeline)).ok
    (tmp_path / "units" / "out.0#0" / "life").write_text("b2")
    with pytest.raises(BadInputError, match="holds the results of another run"):
        verify(tmp_path, claims(pipeline))


def test_trimmed_input_cannot_be_verified(tmp_path):
    """Without the whole input there is nothing to compare with."""
    pipeline = write_run(tmp_path)
    (tmp_path / "units" / "s.0#0" / "slices" / "0000000000").unlink()
    with pytest.raises(BadInputError, match="run with --keep-input"):
        verify(tmp_path, claims(pipeline))


def test_a_torn_slice_file_is_named(tmp_path):
    """Damage is an error, not a difference."""
    pipeline = write_run(tmp_path)
    path = tmp_path / "units" / "s.0#0" / "data" / "s" / "0000000005-g0.arrow"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(CorruptLogError, match=r"0000000005-g0\.arrow"):
        verify(tmp_path, claims(pipeline))


def test_rows_of_a_repaired_slice_are_read_from_its_repair(tmp_path):
    """The files of a lost slice are gone for good; a repair with other rows is none."""
    log = SliceLog(tmp_path / "a")
    begin(log, DEPLOYMENT)
    item, other = publish(log, 0), publish(log, 1, value=2)
    made = publish(SliceLog(tmp_path / "b"), 0).files
    new = log.data(A, "a")
    (file,) = made["a"]
    data = SliceLog(tmp_path / "b").data(A, "a").read(file.name)
    new.put_data("0000000000-again.arrow", (data,))
    repair = {"a": (replace(file, name="0000000000-again.arrow"),)}
    log.run(log.steps().repair(item, repair, item.digest, number=0))
    new.delete(item.files["a"][0].name)
    first, second = kept_slices(tmp_path / "a", "a")
    assert (first.rows, second.rows) == (({"v": 1},), ({"v": 2},))
    log.run(log.steps().repair(other, repair, other.digest, number=0))
    with pytest.raises(CorruptLogError, match="holds other rows"):
        kept_slices(tmp_path / "a", "a")


def test_an_altered_record_is_named(tmp_path):
    """A record whose checksum does not fit is not believed."""
    pipeline = write_run(tmp_path)
    path = tmp_path / "units" / "s.0#0" / "slices" / "0000000005"
    path.write_bytes(path.read_bytes().replace(b'"upto": 5', b'"upto": 6'))
    with pytest.raises(CorruptLogError, match="0000000005: is torn or altered"):
        verify(tmp_path, claims(pipeline))


def test_nothing_compared_is_not_a_success(tmp_path):
    """A run that delivered nothing proves nothing."""
    pipeline = make_pipeline("window")
    write_slice(tmp_path, "s", 0, pipeline.operator("s").source.table(0, epoch_s=1.0).to_pylist())
    verdict = verify(tmp_path, claims(pipeline))
    assert not verdict.ok
    assert "let it run longer" in verdict.findings[-1].note


def test_a_pipeline_without_expectations_is_refused(tmp_path):
    """There must be something to compare with."""
    p = Pipeline("p")
    p.sink("out", p.source("s", Rate(1)), Console())
    with pytest.raises(BadInputError, match="has no expected computation"):
        verify(tmp_path, claims(p))


def test_production_records_and_slices_are_readable(tmp_path):
    """The format written by the run time is the one read here."""
    import numpy as np

    from holdfast.rundir.layout import Layout, member, record_folder
    from holdfast.runtime.log.slices import write_slice_file
    from holdfast.storage.local import LocalStorage
    from holdfast.streams.codec import encode
    from holdfast.streams.records import Range, Slice
    from holdfast.verify.slice_log import delivered, kept_slices

    layout, store = Layout(), LocalStorage(tmp_path)
    table = make_pipeline().operator("s").source.table(3, epoch_s=1.0)
    folder = store.below(layout.data("s.0#0", "s"))
    file = write_slice_file(folder, "x.arrow", table, np.array([7, 3]), np.array([1, 2]))
    record = Slice(
        unit="s.0#0", number=0, after=-1, upto=3, files={"s": (file,)}, rows=2, watermark_us=5
    )
    ranged = Range(unit="o t.0#0", number=0, after=-1, upto=3)
    for kind, item in (("slices", record), ("ranges", ranged)):
        store.put_if_absent(member(record_folder(f"{item.unit}/{kind}"), 0), encode(item))
    (kept,) = kept_slices(tmp_path, "s")
    assert sorted(row["n"] for row in kept.rows) == [3, 103]
    assert delivered(tmp_path, "o t", "s").watermark_us == 5


def test_numbers_before_the_record_are_not_guessed(tmp_path):
    """A missing exporter has delivered nothing."""
    write_record(tmp_path / "units" / "x.0#0" / "ranges" / "other", "range", {})
    from holdfast.verify.slice_log import delivered

    assert delivered(tmp_path, "x", "s").batch == -1


def test_shards_that_are_ahead_may_have_given_out_more(tmp_path):
    """Rows are due below the smallest watermark of all shards, and allowed below the largest."""
    pipeline = write_run(tmp_path, "window")
    for number in range(EPOCHS):
        write_slice(tmp_path, "sum", number, [], watermark_us=4_500_000, shard=1)
    verdict, found = sink_finding(tmp_path, pipeline)
    assert verdict.ok
    assert found.difference.compared == 1
    write_part(tmp_path, 4, [])
    assert not verify(tmp_path, claims(pipeline)).ok


def test_what_was_promised_holds_when_others_carry_a_stream_on(tmp_path):
    """The first slice of one that begins with empty state knows no watermark: nothing is undone."""
    pipeline = write_run(tmp_path, "window")
    _, before = sink_finding(tmp_path, pipeline)
    last = EPOCHS - 1
    closing_of = {"stream": "sum", "number": 0, "end": last - 1, "next": 1}
    write_record(tmp_path / "streams" / "sum" / "closings" / "0000000000", "closing", closing_of)
    seal = {"unit": "sum.0#0", "number": last, "change": 1, "how": "halt"}
    write_record(tmp_path / "units" / "sum.0#0" / "slices" / f"{last:010d}", "seal", seal)
    write_slice(tmp_path, "sum", last, [], change=1, first=last)
    write_part(tmp_path, last, [])
    verdict, found = sink_finding(tmp_path, pipeline)
    assert verdict.ok
    assert 0 < found.difference.compared <= before.difference.compared


def test_what_a_cut_left_behind_is_void(tmp_path):
    """Slices beyond the end at which a stream was closed do not count as its input."""
    from holdfast.verify.slice_log import kept_slices

    write_run(tmp_path)
    closing_of = {"stream": "s", "number": 0, "end": 7, "next": 1}
    write_record(tmp_path / "streams" / "s" / "closings" / "0000000000", "closing", closing_of)
    assert [item.upto for item in kept_slices(tmp_path, "s")] == list(range(8))
    seal = {"unit": "s.0#0", "number": EPOCHS, "change": 1, "how": "halt"}
    write_record(tmp_path / "units" / "s.0#0" / "slices" / f"{EPOCHS:010d}", "seal", seal)
    assert len(kept_slices(tmp_path, "s")) == 8


def test_a_turn_takes_a_number_among_the_ranges(tmp_path):
    """Batches are counted without it."""
    from holdfast.verify.slice_log import delivered

    ranges = tmp_path / "units" / "out.0#0" / "ranges"
    write_record(ranges / "0000000000", "range", {"after": -1, "upto": 0, "turn": None})
    write_record(ranges / "0000000001", "turn", {"end": 0})
    write_record(ranges / "0000000002", "range", {"after": 0, "upto": 3, "turn": 1})
    found = delivered(tmp_path, "out", "s")
    assert (found.batch, found.upto, found.upto_before) == (1, 3, 0)


@pytest.mark.parametrize("lost", ["", "rows", "epochs"])
def test_a_source_that_was_scaled_made_what_it_must(tmp_path, lost):
    """Its parts stay what they are: who read which, the changes of its stream say."""
    write_run(tmp_path)
    pipeline = make_pipeline(max_shards=2)
    children = [[("s.0#0", (0, 128))], [("s.1#0", (0, 64)), ("s.1#1", (64, 128))]]
    for number, units in enumerate(children):
        body = {
            "stream": "s",
            "children": [{"unit": unit, "groups": groups} for unit, groups in units],
            "start": None,
        }
        write_record(tmp_path / "streams" / "s" / "changes" / f"{number:010d}", "change", body)
    for epoch in range(6, EPOCHS):
        (tmp_path / "units" / "s.0#0" / "slices" / f"{epoch:010d}").unlink()
        for shard in range(2):
            source = pipeline.operator("s").source
            rows = source.table(epoch, epoch_s=1.0, shard=shard, shards=2).to_pylist()
            if lost == "rows" and (epoch, shard) == (8, 1):
                rows = []
            if lost == "epochs" and epoch < 8 and shard:
                continue
            write_slice(
                tmp_path,
                "s",
                epoch,
                rows,
                watermark_us=0,
                shard=shard,
                change=1,
                first=6 + 2 * (lost == "epochs" and shard),
            )
    verdict = verify(tmp_path, claims(pipeline))
    source = next(item for item in verdict.findings if item.kind == "source")
    assert source.ok == (not lost), verdict.to_json()
