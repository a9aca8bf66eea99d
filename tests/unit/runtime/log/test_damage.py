"""Finding slices whose files are gone, torn or altered."""

import os
from pathlib import Path

import pytest
from tests.unit.runtime.log.logs import DEPLOYMENT, A, publish

from holdfast.runtime.log.damage import find_damage, inputs_of, size_of
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import begin

pytestmark = pytest.mark.unit

INPUTS = inputs_of(DEPLOYMENT, DEPLOYMENT.segment("x"))


@pytest.fixture
def log(tmp_path):
    found = SliceLog(tmp_path)
    begin(found, DEPLOYMENT)
    for number in range(4):
        publish(found, number)
    return found


def path_of(log, item):
    return Path(log.data(A, "a").address(item.files["a"][0].name))


def look(log, upto=3, **options):
    return find_damage(log, log.steps(), INPUTS, -1, upto, **options)


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_whole_files_have_the_size_their_record_says(log):
    """What is told by sizes alone rests on it."""
    for number in range(4):
        item = log.slice(A, number)
        assert path_of(log, item).stat().st_size == size_of(item.files["a"][0])
    assert look(log).damage == ()
    assert look(log).heed is None


@pytest.mark.parametrize(
    "harm", [os.unlink, lambda path: os.truncate(path, 20), flip], ids=["gone", "torn", "altered"]
)
def test_whatever_happened_to_a_file_is_found(log, harm):
    """In the range that is read every byte is looked at."""
    harm(path_of(log, log.slice(A, 2)))
    found = look(log)
    assert [one.item.number for one in found.damage] == [2]
    assert (found.heed, found.damage[0].repairs) == (2, 0)
    assert look(log, upto=1).damage == ()


def test_behind_the_range_sizes_are_enough(log):
    """A log that is lost as a whole is found in one go, without reading all of it."""
    path_of(log, log.slice(A, 2)).unlink()
    flip(path_of(log, log.slice(A, 3)))
    assert [one.item.number for one in look(log, upto=0, beyond=True).damage] == [2]


def test_a_repair_is_looked_at_in_place_of_its_slice(log):
    """Damaged again, it is made once more; whole, readers are told to look for it."""
    item = log.slice(A, 1)
    made = publish(SliceLog(log.root), 9).files  # elsewhere, with the same rows
    path_of(log, item).unlink()
    log.run(log.steps().repair(item, made, item.digest, number=0))
    assert (look(log).damage, look(log).heed) == ((), 1)
    Path(log.data(A, "a").address(made["a"][0].name)).unlink()
    assert [(one.item.number, one.repairs) for one in look(log).damage] == [(1, 1)]
