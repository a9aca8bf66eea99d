"""The copy of a trimming run's input: whole, made in time, and never trusted blindly."""

import shutil

import pytest
from tests.unit.verify.rundirs import EPOCHS, read_part, write_part, write_record, write_run

from holdfast.errors import BadInputError, CheckFailedError
from holdfast.pipeline.claims import claims
from holdfast.verify.check import verify
from holdfast.verify.keep import InputKeeper
from holdfast.verify.slice_log import kept_slices

pytestmark = pytest.mark.unit


def trim(run, below):
    """Remove the first slices of the source as a run does."""
    unit = run / "units" / "s.0#0"
    write_record(unit / "slices-floor" / f"{below:010d}", "floor", {"number": below})
    for number in range(below):
        (unit / "slices" / f"{number:010d}").unlink()
        for path in (unit / "data" / "s").glob(f"{number:010d}-*"):
            path.unlink()


def test_a_trimmed_run_is_checked_against_the_copy(tmp_path):
    """Right results are found right, and a loss is still found."""
    pipeline = write_run(tmp_path)
    keeper = InputKeeper(tmp_path, ["s"])
    assert keeper.step() == EPOCHS
    assert keeper.trimmed() == {"s.0#0": 0}
    trim(tmp_path, 7)
    assert keeper.trimmed() == {"s.0#0": 7}
    assert keeper.step() == 0
    keeper.close()
    keeper.require_whole()
    assert verify(tmp_path, claims(pipeline)).ok
    write_part(tmp_path, 4, read_part(tmp_path, 4)[:1])
    assert not verify(tmp_path, claims(pipeline)).ok


def test_what_was_trimmed_before_it_was_copied_fails_the_check(tmp_path):
    """A copy with a hole proves nothing."""
    pipeline = write_run(tmp_path)
    trim(tmp_path, 7)
    keeper = InputKeeper(tmp_path, ["s"])
    assert keeper.step() == 0
    with pytest.raises(CheckFailedError, match=r"slice 0 of s\.0#0 could not be copied"):
        keeper.require_whole()
    with pytest.raises(BadInputError):
        verify(tmp_path, claims(pipeline))


def test_a_torn_slice_is_copied_once_it_is_mended(tmp_path):
    """Half a file is no copy."""
    write_run(tmp_path)
    (path,) = (tmp_path / "units" / "s.0#0" / "data" / "s").glob("0000000005-*")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    keeper = InputKeeper(tmp_path, ["s"])
    assert keeper.step() == 5
    assert keeper.step() == 0
    path.write_bytes(whole)
    assert keeper.step() == EPOCHS - 5
    shutil.rmtree(tmp_path / "units")
    assert [item.number for item in kept_slices(tmp_path, "s")] == list(range(EPOCHS))


def test_a_thread_copies_what_appears(tmp_path):
    """Started before the run, it waits for the log; closed, it has everything."""
    keeper = InputKeeper(tmp_path, ["s"])
    keeper.start()
    write_run(tmp_path)
    keeper.close()
    assert len(kept_slices(tmp_path, "s")) == EPOCHS
