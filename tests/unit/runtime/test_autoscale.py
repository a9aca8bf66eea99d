"""The autoscaler of a run: what it reads of records and of the status, and what it puts."""

import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.unit.runtime.deployments import COUNT, COUNTED, LINES
from tests.unit.runtime.test_rescale import opened, shape

from holdfast.control.elastic.load import Rescale
from holdfast.control.elastic.predict import PredictPolicy
from holdfast.control.shell.wire import ConnectionLostError
from holdfast.deployment.slicefiles import GroupPart, SliceFile
from holdfast.runtime.autoscale import NODES_S, AutoscaleThread, Rescaler, Told
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.rescale import rescale, shape_of
from holdfast.storage.memory import MemoryStorage
from holdfast.streams.records import Slice
from holdfast.streams.steps import Put, slices

pytestmark = pytest.mark.unit


class Clock:
    def __init__(self):
        self.at = 0.0

    def now(self):
        return self.at


def put(operation):
    yield operation


def publish(log, epoch, rows):
    """Rows of one epoch, evenly over the key groups."""
    parts = tuple(
        GroupPart(group=g, rows=rows // 128, offset=0, size=1, crc=0, digest=0) for g in range(128)
    )
    file = SliceFile(name=f"{epoch}", schema_size=1, schema_crc=0, parts=parts)
    item = Slice(
        unit="lines.0#0",
        number=epoch,
        after=epoch - 1,
        upto=epoch,
        rows=rows,
        files={"lines@word": (file,)},
    )
    log.run(put(Put(slices("lines.0#0"), epoch, item)))


def view(log, epoch, rows, *, row_s, nodes=(), segment=COUNT):
    """A run whose units keep up; every shard reads its share."""
    units = shape_of(log, segment)
    return SimpleNamespace(
        nodes=nodes,
        units=[
            SimpleNamespace(
                unit=name,
                phase="running",
                batch=epoch,
                epoch=epoch,
                waiting=0,
                rows_in=rows * (epoch + 1) * block.count // block.of,
                batch_ms=1000.0 * row_s * rows * block.count / block.of,
            )
            for block, name in units.items()
        ],
    )


def rescaling(
    log,
    clock,
    *,
    announce=lambda *_: None,
    tell=lambda _: None,
    forget=lambda: None,
    fleet=None,
    deployment=COUNTED,
    most=8,
):
    """One who looks at the load of the deployment."""
    return Rescaler(
        log,
        deployment,
        PredictPolicy(),
        most_in_all=most,
        announce=announce,
        tell=tell,
        forget=forget,
        fleet=fleet,
        clock=clock,
    )


def test_an_overloaded_operator_is_split_and_told_why():
    """Rates come from the records upstream; the changes are on record and announced."""
    log, clock, told, announced = opened(), Clock(), [], []
    rescaler = rescaling(
        log, clock, announce=lambda put, _: announced.append(put), tell=told.append
    )
    decided = []
    for epoch in range(30):
        publish(log, epoch, 12800)
        if epoch % 5 == 4:
            clock.at = float(epoch)
            decided += rescaler.look(view(log, epoch, 12800, row_s=1e-4))
    (first, *_) = decided
    assert isinstance(first, Rescale)
    assert first.reason.kind == "overloaded"
    assert [count for _, count in shape(log)] == [4, 4]
    assert told[0].startswith("count gets 2 shards: a shard would work 128%")
    assert [[child.unit for child in change.children] for change in announced[0]] == [
        ["count.1#0", "count.1#1"]
    ]
    # Nothing more is decided before the children have published.
    assert len(decided) == 1


def test_an_overloaded_source_is_split():
    """By what its own shards make: nothing comes to them that anybody could count."""
    source = replace(LINES, max_shards=8)
    deployment = replace(COUNTED, segments=(source,))
    log, clock, told = SliceLog("run", MemoryStorage()), Clock(), []
    begin(log, deployment)
    rescaler = rescaling(log, clock, tell=told.append, deployment=deployment)
    for epoch in range(15):
        publish(log, epoch, 12800)
        if epoch % 5 == 4:
            clock.at = float(epoch)
            rescaler.look(view(log, epoch, 12800, row_s=1e-4, segment=source))
    assert len(shape_of(log, source)) == 2
    assert told == ["lines gets 2 shards: a shard would work 128% of its time for what arrives"]


KEYED = replace(COUNT, key=("word",))


@pytest.mark.parametrize("declared", [8, 1])
def test_an_operator_whose_state_is_laid_out_anew_is_scaled_on(declared):
    """Somebody asked for more shards than it had partitions: what was seen of those says nothing.

    Also of one that declared nothing, when somebody looks anew.
    """
    keyed = replace(KEYED, max_shards=declared)
    deployment = replace(COUNTED, segments=(LINES, keyed))
    log, clock, told = SliceLog("run", MemoryStorage()), Clock(), []
    begin(log, deployment)
    rescaler = rescaling(log, clock, tell=told.append, deployment=deployment, most=32)
    for epoch in range(45):
        rows = 12_800 if epoch < 12 else 256_000
        publish(log, epoch, rows)
        if epoch == 12:
            rescale(log, keyed, 9, reason="test")
            assert len(shape_of(log, keyed)) == 9
            if declared == 1:
                rescaler = rescaling(log, clock, tell=told.append, deployment=deployment, most=32)
        if epoch % 5 == 4:
            clock.at = float(epoch)
            rescaler.look(view(log, epoch, rows, row_s=6e-5, segment=keyed))
    assert {block.of for block in shape_of(log, keyed)} == {16}
    assert len(shape_of(log, keyed)) == 16
    assert [line.partition(":")[0] for line in told] == ["count gets 16 shards"]


def test_a_unit_that_is_not_heard_of_leaves_the_shape_alone():
    """Half of the load says nothing."""
    log, clock, told = opened(), Clock(), []
    rescaler = rescaling(log, clock, tell=told.append)
    for at in range(5):
        clock.at = 5.0 * at
        assert rescaler.look(SimpleNamespace(units=[], nodes=())) == []
    assert told == []


def test_shards_of_an_operator_that_is_not_heard_of_count_among_those_in_all():
    """One that is being recovered has them still: nobody else gets them meanwhile."""
    deployment = replace(COUNTED, segments=(replace(LINES, shards=7, max_shards=8), COUNT))
    log, clock, told = SliceLog("run", MemoryStorage()), Clock(), []
    begin(log, deployment)
    rescaler = rescaling(log, clock, tell=told.append, deployment=deployment)
    for epoch in range(3):
        publish(log, epoch, 12800)
        clock.at = 5.0 * epoch
        rescaler.look(view(log, epoch, 12800, row_s=1e-4))
    assert shape(log) == [(0, 8)]
    assert len(told) == 1
    assert told[0].endswith("the run has 8 of 8 shards")


@pytest.mark.parametrize("puts", [0, 1], ids=["before", "after"])
def test_a_change_that_fails_is_not_the_last(monkeypatch, puts):
    """A full disk before the change is on record, or after: it is tried again, or told again."""
    log, clock, told, announced = opened(), Clock(), [], []
    rescaler = rescaling(
        log, clock, announce=lambda put, _: announced.extend(put), tell=told.append
    )

    def failing(*words, **settings):
        if not any("keeps its shards" in line for line in told):
            if puts:
                rescale(*words, **settings)
            raise OSError("No space left on device")
        return rescale(*words, **settings)

    monkeypatch.setattr("holdfast.runtime.autoscale.rescale", failing)
    for epoch in range(4):
        publish(log, epoch, 12800)
        clock.at = 5.0 * epoch
        seen = view(log, epoch, 12800, row_s=1e-4)
        seen.units = [unit for unit in seen.units if announced or unit.unit == "count.0#0"]
        rescaler.look(seen)
    assert "count keeps its shards: No space left on device" in told
    assert [child.unit for change in announced for child in change.children] == [
        "count.1#0",
        "count.1#1",
    ]


class Fleet:
    """Two nodes; what is started comes up when it is told to."""

    begun_with = 2

    def __init__(self):
        self.units = {"n0": 1, "n1": 1}
        self.retired = []

    def add_worker(self):
        name = f"n{len(self.units)}"
        self.units[name] = None
        return name

    def retire(self, node):
        self.retired.append(node)
        del self.units[node]

    def view(self):
        return [
            SimpleNamespace(node=name, spare=False, ready=True, units=("u",) * units)
            for name, units in self.units.items()
            if units is not None
        ]


def test_nodes_are_there_before_shards_and_go_after_them():
    """A split waits for the node that it takes; once that is empty, it is retired."""
    log, clock, told, fleet = opened(), Clock(), [], Fleet()
    rescaler = rescaling(log, clock, tell=told.append, fleet=fleet)

    def look(epoch, rows=12800):
        publish(log, epoch, rows)
        clock.at = 5.0 * epoch
        units = view(log, epoch, rows, row_s=1e-4, nodes=fleet.view())
        units.units.append(SimpleNamespace(unit="lines.0#0", phase="running"))
        rescaler.look(units)

    for epoch in range(3):
        look(epoch)
    assert "nodes are added: 1" in told
    assert shape(log) == [(0, 8)]
    fleet.units["n2"] = 0
    look(3)
    assert [count for _, count in shape(log)] == [4, 4]
    assert fleet.retired == []
    (item,) = rescaler._watched.values()
    item.pending = []  # its children have published
    look(4)
    assert fleet.retired == ["n2"]


def test_shards_do_not_wait_for_a_node_for_ever():
    """One that does not come up leaves them with the nodes that there are."""
    log, clock, fleet = opened(), Clock(), Fleet()
    rescaler = rescaling(log, clock, fleet=fleet)
    for epoch in range(3 + round(NODES_S / 5)):
        publish(log, epoch, 12800)
        clock.at = 5.0 * epoch
        found = view(log, epoch, 12800, row_s=1e-4, nodes=fleet.view())
        found.units.append(SimpleNamespace(unit="lines.0#0", phase="running"))
        rescaler.look(found)
    assert [count for _, count in shape(log)] == [4, 4]


def test_a_look_that_fails_is_told_once_and_is_not_the_last():
    """A fault of the autoscaler's own neither ends it nor passes in silence: it is on record."""
    told, kept, looks, again = [], [], [], threading.Event()

    def look(view):
        looks.append(view)
        if len(looks) <= 3:
            raise KeyError("count")
        again.set()

    tell = Told(told.append, kept.append).tell
    thread = AutoscaleThread(
        SimpleNamespace(look=look), lambda: "the run", tell=tell, every_s=0.001
    )
    thread.start()
    assert again.wait(30)
    thread.stop()
    assert told == ["autoscaling failed, shards stay as they are: KeyError: 'count'"]
    assert kept == told


def test_what_two_operators_are_refused_in_turn_is_told_once_each():
    """However often both are tried again; something new is told again."""
    told, kept = [], []
    saying = Told(told.append, kept.append)
    for line in ["a keeps its shards", "b keeps its shards"] * 5 + ["a gets 2 shards"]:
        saying.tell(line)
    assert told == kept == ["a keeps its shards", "b keeps its shards", "a gets 2 shards"]


def test_a_change_is_told_though_one_before_had_the_same_reason(monkeypatch):
    """Load that comes and goes by the hour is followed with the same words each time."""
    log, clock, told = opened(), Clock(), []
    saying = Told(told.append, lambda _: None)
    rescaler = rescaling(log, clock, tell=saying.tell, forget=saying.forget)
    monkeypatch.setattr("holdfast.runtime.autoscale.outcome", lambda *_: "done")
    for epoch in range(12):
        if epoch == 6:  # somebody else merges them again
            rescale(log, COUNT, 1, reason="scale count=1")
        publish(log, epoch, 12800)
        clock.at = 5.0 * epoch
        rescaler.look(view(log, epoch, 12800, row_s=1e-4))
    line = "count gets 2 shards: a shard would work 128% of its time for what arrives"
    assert told == [line, line]


def test_people_are_told_while_the_coordinator_is_away():
    """What the timeline cannot take is no reason to stop."""
    told = []

    def lost(line):
        raise ConnectionLostError("nothing runs here")

    Told(told.append, lost).tell("count gets 2 shards")
    assert told == ["count gets 2 shards"]
