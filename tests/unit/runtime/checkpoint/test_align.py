"""A cloned checkpoint is made to agree with the records, or refused; never guessed at."""

import json
import os
from pathlib import Path

import pytest

from holdfast.errors import CheckFailedError
from holdfast.runtime.checkpoint.align import align, sync_plan

pytestmark = pytest.mark.unit

HEAD = ["v1", '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{"a":"b"}}']


def offset(number):
    return json.dumps({"topic": {"0": number}})


def checkpoint(folder, *, planned, committed):
    (folder / "offsets").mkdir(parents=True)
    (folder / "commits").mkdir()
    for number in range(planned):
        text = "\n".join([*HEAD, offset(10 * (number + 1))])
        (folder / "offsets" / str(number)).write_text(text)
        (folder / "offsets" / f".{number}.crc").write_bytes(b"x")
    for number in range(committed):
        (folder / "commits" / str(number)).write_text("v1\n{}")
    return folder


def offsets(folder):
    return {
        int(path.name): path.read_text().splitlines()[2]
        for path in (folder / "offsets").iterdir()
        if path.name.isdigit()
    }


@pytest.mark.parametrize(
    ("planned", "committed", "found"), [(3, 3, "past"), (3, 2, "known"), (4, 3, "past")]
)
def test_a_checkpoint_that_knows_is_left_alone(tmp_path, planned, committed, found):
    """Committed, planned, or with one more batch planned that nobody recorded."""
    folder = checkpoint(tmp_path, planned=planned, committed=committed)
    before = offsets(folder)
    assert align(folder, unit="in#0", end=offset(30), start=offset(20)) == found
    assert offsets(folder) == before


@pytest.mark.parametrize(("planned", "found"), [(0, "past"), (1, "past")])
def test_nothing_read_yet_is_the_beginning(tmp_path, planned, found):
    """A source that only ticked: Spark may have planned its first batch, and not committed it."""
    folder = checkpoint(tmp_path, planned=planned, committed=0)
    assert align(folder, unit="in#0", end=None, start=None) == found
    assert len(offsets(folder)) == planned


def test_lost_commits_are_no_harm(tmp_path):
    """What Spark had planned next shows that the batch before was committed."""
    folder = checkpoint(tmp_path, planned=5, committed=2)
    assert align(folder, unit="in#0", end=offset(50), start=offset(40)) == "known"
    assert align(folder, unit="in#0", end=offset(40), start=offset(30)) == "past"


def test_a_lost_plan_is_told_again(tmp_path):
    """Spark's settings are those of the batch before; its own checksum is not left behind."""
    folder = checkpoint(tmp_path, planned=2, committed=2)
    assert align(folder, unit="in#0", end=offset(35), start=offset(20)) == "planned"
    assert (folder / "offsets" / "2").read_text().splitlines() == [*HEAD, offset(35)]
    assert align(folder, unit="in#0", end=offset(35), start=offset(20)) == "known"


def test_another_plan_is_replaced(tmp_path):
    """Planned and not committed: Spark has not given anybody these rows for good."""
    folder = checkpoint(tmp_path, planned=3, committed=2)
    assert align(folder, unit="in#0", end=offset(27), start=offset(20)) == "planned"
    assert offsets(folder) == {0: offset(10), 1: offset(20), 2: offset(27)}
    assert not (folder / "offsets" / ".2.crc").exists()


def test_an_uncommitted_batch_before_the_recorded_one_is_done(tmp_path):
    """A record that begins where it ended shows that its rows were published."""
    folder = checkpoint(tmp_path, planned=2, committed=1)
    assert align(folder, unit="in#0", end=offset(29), start=offset(20)) == "planned"
    assert offsets(folder) == {0: offset(10), 1: offset(20), 2: offset(29)}


def test_a_torn_plan_is_replaced(tmp_path):
    """As after a power cut, which leaves empty files."""
    folder = checkpoint(tmp_path, planned=3, committed=2)
    (folder / "offsets" / "2").write_text("")
    assert align(folder, unit="in#0", end=offset(30), start=offset(20)) == "planned"
    assert offsets(folder)[2] == offset(30)


def test_a_torn_commit_is_removed(tmp_path):
    """Spark would fail on it; without it, it runs the batch again."""
    folder = checkpoint(tmp_path, planned=3, committed=3)
    (folder / "commits" / "2").write_text("")
    assert align(folder, unit="in#0", end=offset(30), start=offset(20)) == "known"
    assert not (folder / "commits" / "2").exists()


def test_a_plan_beyond_a_torn_one_is_removed(tmp_path):
    """Planned after what was recorded, and torn: Spark plans it again."""
    folder = checkpoint(tmp_path, planned=4, committed=3)
    (folder / "offsets" / "3").write_text("v1")
    assert align(folder, unit="in#0", end=offset(30), start=offset(20)) == "past"
    assert len(offsets(folder)) == 3


def test_what_a_record_will_name_is_synced(tmp_path, monkeypatch):
    """The offset and the newest entry of the source's own log, with their folders."""
    folder = checkpoint(tmp_path / "units" / "000001", planned=3, committed=2)
    log = folder / "sources" / "0"
    log.mkdir(parents=True)
    for name in ("0", "1", "9.compact", "10"):
        (log / name).touch()
    synced = []
    monkeypatch.setattr(
        os, "fsync", lambda handle: synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
    )
    sync_plan(folder, 2)
    assert {str(folder / "offsets" / "2"), str(log / "10"), str(log), str(folder)} <= set(synced)
    assert str(folder / "offsets") in synced


def test_a_checkpoint_ahead_of_the_records_is_refused(tmp_path):
    """Rows that Spark has committed and nobody recorded would be missing."""
    folder = checkpoint(tmp_path, planned=3, committed=3)
    with pytest.raises(CheckFailedError, match=r"--reset in$"):
        align(folder, unit="in#0", end=offset(20), start=offset(10))
    with pytest.raises(CheckFailedError, match="nothing was recorded yet"):
        align(folder, unit="in#0", end=None, start=None)


def test_the_first_batch_can_be_told(tmp_path):
    """An empty checkpoint starts with the recorded range."""
    assert align(tmp_path, unit="in#0", end=offset(7), start=None) == "planned"
    version, settings, end = (tmp_path / "offsets" / "0").read_text().splitlines()
    assert (version, end) == ("v1", offset(7))
    assert json.loads(settings)["conf"] == {}


@pytest.mark.parametrize(("planned", "committed"), [(1, 1), (3, 3), (0, 0)])
def test_another_start_is_refused(tmp_path, planned, committed):
    """Rows would be missing or come twice; the line says what to do."""
    folder = checkpoint(tmp_path, planned=planned, committed=committed)
    before = offsets(folder)
    with pytest.raises(CheckFailedError, match=r"--reset in$") as found:
        align(folder, unit="in#0", end=offset(99), start=offset(20))
    assert "\n" not in str(found.value)
    assert offsets(folder) == before


def test_a_source_with_a_log_of_its_own_needs_its_entry(tmp_path):
    """An entry number means nothing without the log."""
    end = '{"logOffset":4}'
    with pytest.raises(CheckFailedError, match="entry 4 of the source's own log"):
        align(tmp_path, unit="in#0", end=end, start=None)
    log = tmp_path / "sources" / "0"
    log.mkdir(parents=True)
    (log / "4").touch()
    assert align(tmp_path, unit="in#0", end=end, start=None) == "planned"
