"""The first checkpoint of an heir: which of its parents' it is made of."""

import json
from dataclasses import replace

import pytest
from tests.unit.runtime.checkpoint.test_blocks import log as logged
from tests.unit.runtime.checkpoint.test_blocks import parent as put_checkpoint
from tests.unit.runtime.checkpoint.test_blocks import read

from holdfast.deployment import Deployment, Segment, UnitId
from holdfast.deployment.blocks import Block, even_blocks
from holdfast.errors import BadInputError
from holdfast.runtime.checkpoint.inherit import inherit
from holdfast.runtime.checkpoint.kept import kept_name
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.rescale import rescale
from holdfast.storage.memory import MemoryStorage
from holdfast.streams.records import Child
from holdfast.streams.steps import Put, changes

pytestmark = pytest.mark.unit

COUNT = Segment(name="count", kind="inner", operators=("count",), max_shards=4, stateful=True)
PARENT = "count.0#0"
(WHOLE,) = even_blocks(1, 4)


@pytest.fixture
def log():
    """A run in which `count` is about to be split in two."""
    made = SliceLog("run", MemoryStorage())
    begin(made, Deployment(pipeline="p", epoch_s=1.0, segments=(COUNT,), fingerprints={}))
    rescale(made, COUNT, 2, reason="test")
    return made


def checkpoint(log, generation, *, batch, spark_batch):
    """Of the parent, with one committed batch of ours; a generation may be a name."""
    last = generation if isinstance(generation, str) else f"{generation:06d}"
    name = f"checkpoints/{PARENT}/{last}"
    put_checkpoint(log.store, name, WHOLE, batch=spark_batch)
    offset = json.dumps({"offset": batch + 1, "timestamp": 0})
    plan = read(log.store, f"{name}/offsets/{spark_batch}").splitlines()[:2]
    log.store.replace(f"{name}/offsets/{spark_batch}", "\n".join([*plan, offset]).encode())


def make(log, parents, unit="count.1#1", segment=COUNT):
    inherit(log, UnitId.parse(unit), 1, parents, segment, rows=1, crash=Crash())
    return f"checkpoints/{unit}/000001"


def test_whichever_generation_has_committed_the_batch_will_do(log):
    """The newest may have died before it; a commit of a later batch is not the state asked for."""
    checkpoint(log, 1, batch=7, spark_batch=9)
    checkpoint(log, 2, batch=6, spark_batch=5)
    name = make(log, [(PARENT, 7)])
    ids = logged(log.store, f"{name}/commits/9")["stateUniqueIds"]["0"]
    assert ids == [[f"checkpoints/{PARENT}/000001-{p}"] for p in (2, 3)]
    lines = read(log.store, f"{name}/offsets/9").splitlines()
    # Spark goes on as if nothing had been read: the heir's own first batch is 0.
    assert json.loads(lines[2]) == {"offset": 0, "timestamp": 0}


def test_a_commit_that_was_made_afterwards_will_do(log):
    """No generation has committed the batch: it was run again, and is kept beside them."""
    checkpoint(log, 2, batch=6, spark_batch=5)
    checkpoint(log, kept_name(7), batch=7, spark_batch=0)
    name = make(log, [(PARENT, 7)])
    ids = logged(log.store, f"{name}/commits/0")["stateUniqueIds"]["0"]
    assert ids == [[f"checkpoints/{PARENT}/kept-0000000008-{p}"] for p in (2, 3)]


def test_a_parent_that_was_never_run_leaves_nothing(log):
    """Its heirs begin with no state, as it did."""
    name = make(log, [(PARENT, -1)])
    assert log.store.names(f"{name}/commits") == []
    assert log.store.checkpoints("checkpoints/count.1#1") == ["000001"]


def test_state_that_is_gone_is_told(log):
    """Nothing is made of less than the state that was handed over."""
    checkpoint(log, 1, batch=6, spark_batch=5)
    with pytest.raises(BadInputError, match=r"state of count.0#0 after batch 7"):
        make(log, [(PARENT, 7)])
    assert log.store.checkpoints("checkpoints/count.1#1") == []


FIXED = Segment(name="count", kind="inner", operators=("count",), stateful=True, key=("word",))


class Spark:
    """Stands for Spark's rewriting: files that say whose they are."""

    def __init__(self, failing=False):
        self.failing, self.stages = failing, []

    def __call__(self, storage, stage):
        self.stages.append(stage)
        if self.failing:
            raise RuntimeError("no room")
        home = f"{stage.place}/{stage.target}/state/0"
        for part in range(stage.partitions):
            storage.replace(f"{home}/{part}/{stage.spark_batch + 1}_y.zip", b"new")
        return {"0": [[f"new-{part}"] for part in range(stage.partitions)]}


@pytest.fixture
def undivided():
    """A run whose `count` keeps its state in one partition, and is to have three shards."""
    made = SliceLog("run", MemoryStorage())
    begin(made, Deployment(pipeline="p", epoch_s=1.0, segments=(FIXED,), fingerprints={}))
    (change,) = rescale(made, FIXED, 3, reason="test")
    assert [(child.groups, child.of) for child in change.children] == [
        (block.groups, 4) for block in even_blocks(3, 4)
    ]
    put_checkpoint(
        made.store, f"checkpoints/{PARENT}/000001", Block(first=0, count=1, of=1), batch=0
    )
    offset = json.dumps({"offset": 8, "timestamp": 0})
    plan = read(made.store, f"checkpoints/{PARENT}/000001/offsets/0").splitlines()[:2]
    made.store.replace(
        f"checkpoints/{PARENT}/000001/offsets/0", "\n".join([*plan, offset]).encode()
    )
    return made


def restated(log, spark, unit="count.1#0"):
    parents, segment = [(PARENT, 7)], replace(FIXED, max_shards=4)
    inherit(log, UnitId.parse(unit), 1, parents, segment, rows=1, crash=Crash(), rewrite=spark)
    return f"checkpoints/{unit}/000001"


def test_state_that_is_not_in_blocks_is_laid_out_by_spark(undivided):
    """The heir has what was written, as many partitions as its block, and nothing older."""
    spark = Spark()
    name = restated(undivided, spark, "count.1#2")
    (stage,) = spark.stages
    assert (stage.sources, stage.spark_batch, stage.partitions) == ((("from-0", 0),), 1, 2)
    assert logged(undivided.store, f"{name}/commits/1")["stateUniqueIds"] == {
        "0": [["new-0"], ["new-1"]]
    }
    settings = logged(undivided.store, f"{name}/offsets/1")
    assert settings["conf"]["spark.sql.shuffle.partitions"] == "2"
    kept = undivided.store.sizes(f"{name}/state")
    assert [file for file in kept if file.endswith(".zip")] == ["0/0/2_y.zip", "0/1/2_y.zip"]
    metadata = logged(undivided.store, f"{name}/state/0/_metadata/metadata")
    assert metadata["stateStoreInfo"][0]["numPartitions"] == 2
    assert undivided.store.folders("checkpoints/count.1#2") == ["000001"]


def test_a_rewriting_that_fails_leaves_nothing(undivided):
    """The next attempt finds no checkpoint, and no work of the one before."""
    with pytest.raises(RuntimeError, match="no room"):
        restated(undivided, Spark(failing=True))
    assert undivided.store.folders("checkpoints/count.1#0") == []
    restated(undivided, Spark())


def test_one_who_takes_all_of_the_state_needs_no_key(undivided):
    """Shards become one again: nothing has to be told apart."""
    (change,) = rescale(undivided, FIXED, 2, reason="test")
    keyless = replace(FIXED, key=())
    whole = Child(unit="count.3#0", segment="count", groups=(0, 128), of=1)
    change = replace(change, number=3, parents=(), children=(whole,))
    undivided.records.execute(Put(changes("count"), 3, change))
    spark, names = Spark(), ("count.2#0", "count.1#2")
    for name, block in zip(names, even_blocks(2, 4), strict=True):
        put_checkpoint(undivided.store, f"checkpoints/{name}/000001", block, batch=0)
    unit, parents = UnitId.parse("count.3#0"), [(name, 8) for name in names]
    inherit(undivided, unit, 1, parents, keyless, rows=1, crash=Crash(), rewrite=spark)
    (stage,) = spark.stages
    assert (stage.sources, stage.partitions) == ((("from-0", 0), ("from-1", 0)), 1)


def test_state_that_nobody_can_lay_out_is_not_divided(undivided):
    """Without Spark, or without a key that says where a row belongs."""
    with pytest.raises(BadInputError, match="cannot be divided"):
        make(undivided, [(PARENT, 7)], segment=replace(FIXED, max_shards=4))
    segment = replace(FIXED, max_shards=4, key=())
    with pytest.raises(BadInputError, match="cannot be divided"):
        inherit(
            undivided,
            UnitId.parse("count.1#0"),
            1,
            [(PARENT, 7)],
            segment,
            rows=1,
            crash=Crash(),
            rewrite=Spark(),
        )
