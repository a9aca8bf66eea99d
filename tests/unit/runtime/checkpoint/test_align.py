"""A cloned checkpoint is made to agree with the records, or refused; never guessed at."""

import json
import os
from pathlib import Path

import pytest

from holdfast.errors import CheckFailedError
from holdfast.runtime.checkpoint.align import align, sync_plan
from holdfast.storage.local import LocalStorage
from holdfast.storage.memory import MemoryStorage

pytestmark = pytest.mark.unit

HEAD = ["v1", '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{"a":"b"}}']


def offset(number):
    return json.dumps({"topic": {"0": number}})


def checkpoint(*, planned, committed, folder=None):
    folder = folder or MemoryStorage()
    for number in range(planned):
        text = "\n".join([*HEAD, offset(10 * (number + 1))])
        folder.replace(f"offsets/{number}", text.encode())
        folder.replace(f"offsets/.{number}.crc", b"x")
    for number in range(committed):
        folder.replace(f"commits/{number}", b"v1\n{}")
    return folder


def aligned(folder, *, end, start):
    return align(folder, unit="in.0#0", end=end, start=start, now=7.0)


def offsets(folder):
    return {int(name): lines(folder, int(name))[2] for name in folder.names("offsets")}


def lines(folder, number):
    return folder.read(f"offsets/{number}").decode().splitlines()


@pytest.mark.parametrize(
    ("planned", "committed", "found"), [(3, 3, "past"), (3, 2, "known"), (4, 3, "past")]
)
def test_a_checkpoint_that_knows_is_left_alone(planned, committed, found):
    """Committed, planned, or with one more batch planned that nobody recorded."""
    folder = checkpoint(planned=planned, committed=committed)
    before = offsets(folder)
    assert aligned(folder, end=offset(30), start=offset(20)) == found
    assert offsets(folder) == before


@pytest.mark.parametrize(("planned", "found"), [(0, "past"), (1, "past")])
def test_nothing_read_yet_is_the_beginning(planned, found):
    """A source that only ticked: Spark may have planned its first batch, and not committed it."""
    folder = checkpoint(planned=planned, committed=0)
    assert aligned(folder, end=None, start=None) == found
    assert len(offsets(folder)) == planned


def test_lost_commits_are_no_harm():
    """What Spark had planned next shows that the batch before was committed."""
    folder = checkpoint(planned=5, committed=2)
    assert aligned(folder, end=offset(50), start=offset(40)) == "known"
    assert aligned(folder, end=offset(40), start=offset(30)) == "past"


def test_a_lost_plan_is_told_again():
    """Spark's settings are those of the batch before; its own checksum is not left behind."""
    folder = checkpoint(planned=2, committed=2)
    assert aligned(folder, end=offset(35), start=offset(20)) == "planned"
    assert lines(folder, 2) == [*HEAD, offset(35)]
    assert aligned(folder, end=offset(35), start=offset(20)) == "known"


def test_another_plan_is_replaced():
    """Planned and not committed: Spark has not given anybody these rows for good."""
    folder = checkpoint(planned=3, committed=2)
    assert aligned(folder, end=offset(27), start=offset(20)) == "planned"
    assert offsets(folder) == {0: offset(10), 1: offset(20), 2: offset(27)}
    assert not folder.exists("offsets/.2.crc")


def test_an_uncommitted_batch_before_the_recorded_one_is_done():
    """A record that begins where it ended shows that its rows were published."""
    folder = checkpoint(planned=2, committed=1)
    assert aligned(folder, end=offset(29), start=offset(20)) == "planned"
    assert offsets(folder) == {0: offset(10), 1: offset(20), 2: offset(29)}


def test_a_torn_plan_is_replaced():
    """As after a power cut, which leaves empty files."""
    folder = checkpoint(planned=3, committed=2)
    folder.replace("offsets/2", b"")
    assert aligned(folder, end=offset(30), start=offset(20)) == "planned"
    assert offsets(folder)[2] == offset(30)


def test_a_torn_commit_is_removed():
    """Spark would fail on it; without it, it runs the batch again."""
    folder = checkpoint(planned=3, committed=3)
    folder.replace("commits/2", b"")
    assert aligned(folder, end=offset(30), start=offset(20)) == "known"
    assert not folder.exists("commits/2")


def test_a_plan_beyond_a_torn_one_is_removed():
    """Planned after what was recorded, and torn: Spark plans it again."""
    folder = checkpoint(planned=4, committed=3)
    folder.replace("offsets/3", b"v1")
    assert aligned(folder, end=offset(30), start=offset(20)) == "past"
    assert len(offsets(folder)) == 3


def test_what_a_record_will_name_is_synced(tmp_path, monkeypatch):
    """The offset and the newest entry of the source's own log, with their folders."""
    home = tmp_path / "units" / "000001"
    folder = checkpoint(planned=3, committed=2, folder=LocalStorage(tmp_path).below("units/000001"))
    for name in ("0", "1", "9.compact", "10"):
        folder.replace(f"sources/0/{name}", b"")
    synced = []
    monkeypatch.setattr(
        os, "fsync", lambda handle: synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
    )
    sync_plan(folder, 2)
    wanted = ("", "offsets", "offsets/2", "offsets/.2.crc", "sources/0", "sources/0/10")
    assert {str(home / name) for name in wanted} <= set(synced)
    assert {str(home.parent), str(tmp_path)} <= set(synced)


def test_a_checkpoint_ahead_of_the_records_is_refused():
    """Rows that Spark has committed and nobody recorded would be missing."""
    folder = checkpoint(planned=3, committed=3)
    with pytest.raises(CheckFailedError, match=r"--reset in$"):
        aligned(folder, end=offset(20), start=offset(10))
    with pytest.raises(CheckFailedError, match="nothing was recorded yet"):
        aligned(folder, end=None, start=None)


def test_the_first_batch_can_be_told():
    """An empty checkpoint starts with the recorded range."""
    folder = MemoryStorage()
    assert aligned(folder, end=offset(7), start=None) == "planned"
    version, settings, end = lines(folder, 0)
    assert (version, end) == ("v1", offset(7))
    assert json.loads(settings) == {"batchWatermarkMs": 0, "batchTimestampMs": 7000, "conf": {}}


@pytest.mark.parametrize(("planned", "committed"), [(1, 1), (3, 3), (0, 0)])
def test_another_start_is_refused(planned, committed):
    """Rows would be missing or come twice; the line says what to do."""
    folder = checkpoint(planned=planned, committed=committed)
    before = offsets(folder)
    with pytest.raises(CheckFailedError, match=r"--reset in$") as found:
        aligned(folder, end=offset(99), start=offset(20))
    assert "\n" not in str(found.value)
    assert offsets(folder) == before


def test_a_source_with_a_log_of_its_own_needs_its_entry():
    """An entry number means nothing without the log."""
    folder, end = MemoryStorage(), '{"logOffset":4}'
    with pytest.raises(CheckFailedError, match="entry 4 of the source's own log"):
        aligned(folder, end=end, start=None)
    folder.replace("sources/0/4", b"")
    assert aligned(folder, end=end, start=None) == "planned"
