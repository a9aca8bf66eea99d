"""The first checkpoint of a unit of a fork: a clone of its exact unit's last commit."""

from __future__ import annotations

import json

import pytest

from holdfast.deployment import UnitId
from holdfast.rundir.layout import generation_word
from holdfast.runtime.checkpoint.clone import generations, make_checkpoint, next_batch
from holdfast.runtime.checkpoint.fork import begin_from_exact
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.forked import ForkedLog
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import begin_alone
from holdfast.streams.fork import put_fork
from holdfast.streams.records import Fork, Range
from holdfast.streams.steps import Put, ranges

pytestmark = pytest.mark.unit

UNIT = UnitId(segment="count").forked(1)


class Stop(Exception):  # noqa: N818 - of a process
    """Where the process dies."""


class Dies(Crash):
    def at(self, point, unit, number=-1):
        if point == self.spec:
            raise Stop(point)


@pytest.fixture
def run(tmp_path):
    """`count` has committed three batches, an epoch each."""
    log = SliceLog(tmp_path)
    begin_alone(log, "lines", "count")
    log.run(put_fork(Fork(number=1, units=(UNIT.name,), silent=("lines.0#0",))))
    advance(log, 3)
    return tmp_path


def advance(log, batches, generation=1):
    for number in range(batches):
        record = Range(unit="count.0#0", number=number, after=number - 1, upto=number)
        log.records.execute(Put(ranges("count.0#0"), number, record))
    folder = log.store.below(log.layout.checkpoints("count.0#0"))
    make_checkpoint(folder, generation, next_batch=batches, rows=1)
    folder.replace(f"{generation_word(generation)}/.metadata.crc", b"checksum")


def started(run, generation, crash=""):
    log = ForkedLog(run, unit=UNIT.name)
    branch = begin_from_exact(log, UNIT, generation, rows=1, crash=Dies(spec=crash))
    return log, branch


def own(log):
    return log.store.below(log.layout.checkpoints(str(UNIT)))


def identity(log, unit):
    return json.loads(log.store.read(f"{log.layout.checkpoint(unit, 1)}/metadata"))["id"]


def test_it_begins_with_the_exact_units_last_commit(run):
    """Another query for Spark, and numbered on from the exact unit's batches."""
    log, branch = started(run, 1)
    assert (branch.batch, branch.epoch, branch.generation) == (3, 2, 1)
    assert generations(own(log)) == [1]
    assert next_batch(own(log).below(generation_word(1)), 1) == 3
    assert identity(log, UNIT) != identity(log, UNIT.exact)
    assert not log.store.exists(f"{log.layout.checkpoints(str(UNIT))}/000001/.metadata.crc")
    assert log.store.exists(f"{log.layout.checkpoints('count.0#0')}/000001/.metadata.crc")


@pytest.mark.parametrize("point", ["during-clone", "before-branch"])
def test_one_that_died_before_its_branch_leaves_nothing(run, point):
    """The next one begins where the exact unit stands by then."""
    with pytest.raises(Stop):
        started(run, 1, point)
    advance(SliceLog(run), 5, generation=2)
    _, branch = started(run, 2)
    assert (branch.batch, branch.epoch, branch.generation) == (5, 4, 2)


def test_one_that_died_after_its_branch_has_decided(run):
    """Whoever comes next begins there, with that clone, though the exact unit has gone on."""
    with pytest.raises(Stop):
        started(run, 1, "after-branch")
    advance(SliceLog(run), 5, generation=2)
    log, branch = started(run, 2)
    assert (branch.batch, branch.generation) == (3, 1)
    assert next_batch(own(log).below(generation_word(2)), 1) == 3


def test_one_whose_exact_unit_has_not_begun_begins_with_nothing(tmp_path):
    """Batch 0, an empty checkpoint."""
    log = SliceLog(tmp_path)
    begin_alone(log, "lines", "count")
    log.run(put_fork(Fork(number=1, units=(UNIT.name,), silent=())))
    log, branch = started(tmp_path, 1)
    assert (branch.batch, branch.epoch) == (0, -1)
    assert next_batch(own(log).below(generation_word(1)), 1) == 0
