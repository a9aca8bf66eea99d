"""Reading a slice log while it grows and is trimmed."""

import os
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.control.test_hot_paths import held_path
from tests.unit.prove.proofs import PLAN

from holdfast.control.view import view
from holdfast.deployment import Boundary, Deployment, Segment
from holdfast.health.policy import Tentative
from holdfast.pipeline import Pipeline
from holdfast.prove.result import Audience
from holdfast.prove.run import Proving, SliceWatch, _Prover, _Record
from holdfast.rundir.layout import member, record_folder
from holdfast.runtime.launch.run import DeadlineError
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.streams.records import Floor, Slice
from holdfast.streams.steps import RaiseFloor, slices

pytestmark = pytest.mark.unit

SEGMENTS = (
    Segment(
        name="count",
        kind="inner",
        operators=("count",),
        outputs=(Boundary(operator="count", key=("word",)), Boundary(operator="count")),
        shards=2,
    ),
    Segment(name="out", kind="exporter", operators=("out",), inputs=("count",)),
)
DEPLOYMENT = Deployment(pipeline="p", epoch_s=1.0, segments=SEGMENTS, fingerprints={})


def put(log, number, *, shard=0, generation=1, at=None):
    unit = f"count.0#{shard}"
    record = Slice(
        unit=unit,
        number=number,
        after=4 * number - 1,
        upto=4 * number + 3,
        generation=generation,
    )
    log.publish(record)
    path = Path(log.root) / member(record_folder(slices(unit)), number)
    if at is not None:
        os.utime(path, (at, at))
    return path


def test_slices_are_seen_once_with_their_time(tmp_path):
    """Each unit's own, in order, whenever they come."""
    log, watch = SliceLog(tmp_path), SliceWatch(tmp_path, DEPLOYMENT)
    assert list(watch.slices) == ["count.0#0", "count.0#1"]
    watch.poll()
    assert watch.slices["count.0#0"] == []
    put(log, 0, at=1000.25)
    put(log, 0, shard=1, at=1001.0)
    watch.poll()
    put(log, 1, generation=2, at=1004.5)
    watch.poll()
    watch.poll()
    seen = watch.slices["count.0#0"]
    assert [(item.number, item.upto, item.generation) for item in seen] == [(0, 3, 1), (1, 7, 2)]
    assert [item.put_at for item in seen] == [1000.25, 1004.5]
    assert len(watch.slices["count.0#1"]) == 1


def test_what_was_seen_may_be_trimmed(tmp_path):
    """The watch goes on behind it."""
    log, watch = SliceLog(tmp_path), SliceWatch(tmp_path, DEPLOYMENT)
    first = put(log, 0)
    watch.poll()
    first.unlink()
    put(log, 1)
    watch.poll()
    assert [item.number for item in watch.slices["count.0#0"]] == [0, 1]


def test_what_was_trimmed_unseen_is_passed_over(tmp_path):
    """A pause of the watcher costs slices, not the rest of the log."""
    log, watch = SliceLog(tmp_path), SliceWatch(tmp_path, DEPLOYMENT)
    put(log, 0)
    watch.poll()
    for number in range(1, 5):
        put(log, number)
    folder = slices("count.0#0")
    log.records.execute(RaiseFloor(folder, Floor(number=3)))
    for number in range(3):
        log.store.delete(member(record_folder(folder), number))
    watch.poll()
    assert [item.number for item in watch.slices["count.0#0"]] == [0, 3, 4]


class Watched:
    """A run whose status is given."""

    def __init__(self, shown, run_dir):
        self._shown, self.run_dir = shown, run_dir
        self.launcher = SimpleNamespace(finished=threading.Event())

    def status(self):
        return self._shown


def waited(shown, run_dir):
    """What a proof gets that waits for nothing in particular."""
    proving = SimpleNamespace(deployment=DEPLOYMENT, tentative=Tentative())
    prover = _Prover(proving, Watched(shown, run_dir), _Record(), Audience())
    return prover._wait(lambda _: True, 1.0, "anything")


def test_a_hot_path_that_is_held_is_waited_for(tmp_path):
    """Its breaker has it tried again; of any other held unit nobody does."""
    shown = view(held_path().coordinator, 0.0)
    assert [unit.path for unit in shown.units if unit.phase == "held"] == ["score:model"]
    assert waited(shown, tmp_path) is shown
    units = tuple(replace(unit, path=None) for unit in shown.units)
    with pytest.raises(DeadlineError, match=r"score.model.0#0 has failed too often"):
        waited(replace(shown, units=units), tmp_path)


def test_paths_have_nodes_of_their_own_and_outlive_every_fault():
    """As in any run; a proof that kills them often would have them left otherwise."""
    split = replace(SEGMENTS[0], paths=("model", "rules"))
    proving = Proving(
        app="app.py",
        pipeline=Pipeline("p"),
        deployment=replace(DEPLOYMENT, segments=(split, SEGMENTS[1])),
        plan=PLAN,
        faults=30,
        nodes=2,
    )
    policy = proving.policy
    assert (policy.workers, policy.alone) == (4, ("count",))
    assert min(policy.breaker.losses, policy.crashes.limit) > 30
