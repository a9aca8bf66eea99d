"""The first checkpoint of an heir: which of its parents' it is made of."""

import json

import pytest
from tests.unit.runtime.checkpoint.test_blocks import log as logged
from tests.unit.runtime.checkpoint.test_blocks import parent as put_checkpoint
from tests.unit.runtime.checkpoint.test_blocks import read

from holdfast.deployment import Deployment, Segment, UnitId
from holdfast.deployment.blocks import even_blocks
from holdfast.errors import BadInputError
from holdfast.runtime.checkpoint.inherit import inherit
from holdfast.runtime.checkpoint.kept import kept_name
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.rescale import rescale
from holdfast.storage.memory import MemoryStorage

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


def test_state_that_is_not_in_blocks_cannot_be_divided(log):
    """Such an operator is never rescaled; a change that says otherwise is refused."""
    segment = Segment(name="count", kind="inner", operators=("count",), stateful=True)
    with pytest.raises(BadInputError, match="cannot be divided"):
        make(log, [(PARENT, 7)], segment=segment)
