"""Commits kept for repairs."""

import json

import pytest

from holdfast.runtime.checkpoint.clone import clone_between, make_stateless
from holdfast.runtime.checkpoint.kept import committed, drop_kept, keep, kept
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.streams.records import Range

pytestmark = pytest.mark.unit

UNIT = "n.0#0"


def write(folder, spark_batch, batch, *, commit=True):
    """What Spark has written of one of its batches."""
    offset = {"offset": batch + 1, "timestamp": 0}
    for name, lines in {
        "offsets": ("v1", "{}", json.dumps(offset)),
        **({"commits": ("v1", "{}")} if commit else {}),
    }.items():
        path = folder / name / str(spark_batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines))


def range_of(batch):
    return Range(unit=UNIT, number=batch, after=batch - 1, upto=batch) if batch >= 0 else None


def test_the_newest_commit_before_an_epoch_is_kept(tmp_path):
    """With it, and what it lacks, every slice after that epoch can be made again."""
    log = SliceLog(tmp_path)
    home = log.store.below(log.layout.checkpoints(UNIT))
    for batch in (-1, 3, 7, 11):
        write(tmp_path / f"checkpoints/{UNIT}/000001", batch + 1, batch)
        keep(home, 1, batch, unit=UNIT, crash=Crash())
    drop_kept(home, range_of, 9)
    assert kept(home) == [7, 11]
    drop_kept(home, range_of, 6)
    assert kept(home) == [7, 11]


def test_commits_are_found_in_all_checkpoints_of_a_unit(tmp_path):
    """Those of generations, of its follower, and those kept, which count first."""
    log = SliceLog(tmp_path)
    home = log.store.below(log.layout.checkpoints(UNIT))
    live = tmp_path / f"checkpoints/{UNIT}/000001"
    for batch in range(3):
        write(live, batch, batch)
    keep(home, 1, 2, unit=UNIT, crash=Crash())
    write(live, 3, 3)
    write(live, 4, 4, commit=False)
    found = committed(log, UNIT, 1)
    assert {batch: spark_batch for batch, (_, spark_batch) in found.items()} == {
        0: 0,
        1: 1,
        2: 2,
        3: 3,
    }
    assert found[2][0].endswith("kept-0000000003")
    assert found[3][0].endswith("000001")


def test_a_commit_without_the_offsets_before_it_is_none_to_begin_with(tmp_path):
    """Spark has removed those, or may at any moment where a query runs."""
    log = SliceLog(tmp_path)
    home = log.store.below(log.layout.checkpoints(UNIT))
    live = tmp_path / f"checkpoints/{UNIT}/000001"
    for batch in range(4, 9):
        write(live, batch, batch)
    assert sorted(committed(log, UNIT, 1)) == [6, 7, 8]
    keep(home, 1, 8, unit=UNIT, crash=Crash())
    assert sorted(committed(log, UNIT, 1)) == [5, 6, 7, 8]


def test_a_clone_can_end_with_an_older_batch(tmp_path):
    """What was planned and run since is not in it."""
    log = SliceLog(tmp_path)
    for batch in range(5):
        write(tmp_path / "from", batch, batch)
    clone_between(log.store, "from", "to", unit=UNIT, crash=Crash(), newest=2)
    clone = log.store.below("to")
    assert (clone.names("commits"), clone.names("offsets")) == (["0", "1", "2"],) * 2


def test_a_clone_that_runs_beside_its_original_is_another_query(tmp_path):
    """Spark would stop the one that runs."""
    log = SliceLog(tmp_path)
    write(tmp_path / "from", 0, 0)
    (tmp_path / "from/metadata").write_text('{"id":"one"}')
    (tmp_path / "from/.metadata.crc").write_text("of the above")
    for name, beside in (("same", False), ("other", True)):
        clone_between(log.store, "from", name, unit=UNIT, crash=Crash(), beside=beside)
    assert (tmp_path / "same/metadata").read_text() == '{"id":"one"}'
    assert json.loads((tmp_path / "other/metadata").read_text())["id"] != "one"
    assert not (tmp_path / "other/.metadata.crc").exists()


def test_a_stateless_query_begins_anywhere_with_all_its_inputs(tmp_path):
    """All of them have come equally far."""
    log = SliceLog(tmp_path)
    make_stateless(log.store, "made", next_batch=7, rows=2, inputs=3)
    *_, first, second, third = (tmp_path / "made/offsets/0").read_text().splitlines()
    assert first == second == third
    assert json.loads(first)["offset"] == 14


def test_the_state_that_a_unit_was_born_with_is_one_to_begin_with(tmp_path):
    """Its checkpoint has the commit of another, and only the offsets that go with it."""
    log = SliceLog(tmp_path)
    born = tmp_path / f"checkpoints/{UNIT}/000001"
    write(born, 3, -1, commit=False)
    write(born, 4, -1)
    write(born, 5, 0, commit=False)
    assert {batch: at for batch, (_, at) in committed(log, UNIT, 1).items()} == {-1: 4}
