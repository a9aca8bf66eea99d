"""State that Spark lays out over other partitions gives what one query gives."""

import json

import pytest
from tests.spark.state_kinds import MORE
from tests.spark.test_blocks import KINDS, ROWS, run, told

from holdfast.deployment.blocks import Block, even_blocks, groups_between
from holdfast.errors import BadInputError
from holdfast.runtime.checkpoint.restate import key_fields, restate
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.spark.start.session import start_session, unit_session
from holdfast.runtime.spark.units.restate import rewriter
from holdfast.storage.local import LocalStorage

pytestmark = pytest.mark.spark

MOST = 4


@pytest.fixture(scope="module")
def spark():
    return start_session("test-restate", memory_mb=800)


def heir(spark, store, name, parts, block, *, at):
    """A checkpoint of a block made of state that lies otherwise."""
    session = unit_session(spark, snapshot_batches=3, partitions=block.count)
    groups = groups_between(*block.groups, block.of)
    restate(
        store,
        name,
        parts,
        block,
        rewriter(session, unit=name, operator="count", key=["word"], groups=groups, crash=Crash()),
        unit=name,
        source_offset=json.dumps(
            {"offset": at, "timestamp": at // ROWS * 1000}, separators=(",", ":")
        ),
        crash=Crash(),
    )


@pytest.mark.sample(kind="aggregate")
@pytest.mark.parametrize("kind", KINDS | MORE)
def test_restated_state_gives_what_one_query_gives(spark, tmp_path, kind):
    """One query without blocks, three of four partitions, then two of eight, of all three."""
    store = LocalStorage(tmp_path)
    _, expected = run(spark, store, "alone/1", kind, Block(first=0, count=1, of=1), upto=14 * ROWS)

    first, before = run(spark, store, "a/1", kind, Block(first=0, count=1, of=1), upto=4 * ROWS)
    parts, after = [], []
    for number, block in enumerate(even_blocks(3, MOST)):
        name = f"b{number}/1"
        heir(spark, store, name, [first], block, at=4 * ROWS)
        pace = ROWS * (2 if number == 1 else 1)
        part, found = run(spark, store, name, kind, block, upto=8 * ROWS, per_batch=pace)
        parts.append(part)
        after.append(found)
    assert len({part.spark_batch for part in parts}) == 2

    last = []
    for number, block in enumerate(even_blocks(2, 2 * MOST)):
        name = f"c{number}/1"
        heir(spark, store, name, parts, block, at=8 * ROWS)
        last.append(run(spark, store, name, kind, block, upto=14 * ROWS)[1])
    assert told(kind, expected)
    assert told(kind, before, *after, *last) == told(kind, expected)
    assert not [name for name in tmp_path.rglob("*") if name.name.endswith((".cloning", ".gone"))]


def test_state_whose_key_cannot_be_told_is_refused():
    """Of a join by several columns Spark keeps no names."""
    assert key_fields(["window", "word"], ["word"], "count") == ["word"]
    assert key_fields(["field0"], ["word"], "pairs") == ["field0"]
    with pytest.raises(BadInputError, match="pairs: its state is kept by field0, field1"):
        key_fields(["field0", "field1"], ["word"], "pairs")
