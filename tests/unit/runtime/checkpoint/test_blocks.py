"""Checkpoints made of parts of others: which files go where, and what Spark is told."""

import json

import pytest

from holdfast.deployment.blocks import Block, even_blocks
from holdfast.errors import CorruptLogError
from holdfast.runtime.checkpoint.blocks import Part, compose_checkpoint
from holdfast.runtime.checkpoint.changelog import empty_changelog, read_head, shift_changelog
from holdfast.storage.memory import MemoryStorage

pytestmark = pytest.mark.unit

CONF = {"spark.sql.shuffle.partitions": "?", "other": "kept"}
# As Spark wrote it: format 3, lineage of one version, then changes.
CHANGELOG = bytes.fromhex(
    "4c5a34426c6f636b25c40000009d0100003daca40cf34800027633004b5b7b2276657273696f6e22"
    "3a312c22636865636b706f696e74556e697175654964223a2231643232656563642d613731342d34"
    "6233372d383161642d316661396163626632316134227d5d00000039000002001318040052030000"
    "00301300020200a1202110d70d060080b6b908002577311e0012112100410000000106000102000f"
    "52002111363a000f5200171b02a400049c0040004d5211ac001577a3000fa40026034a003280e3ea"
    "5200213135a1000f5200015000ffffffff4c5a34426c6f636b15000000000000000000000000"
)


def parent(store, name, block, *, batch, watermark=0, versions=()):
    """A checkpoint whose state files say whose they are."""
    ids = [[f"{name}-{p}"] for p in range(block.first, block.stop)]
    files = {
        f"commits/{batch}": "v2\n"
        + json.dumps({"nextBatchWatermarkMs": watermark, "stateUniqueIds": {"0": ids}}),
        f"offsets/{batch}": "v1\n"
        + json.dumps({"batchWatermarkMs": watermark, "batchTimestampMs": 7, "conf": CONF})
        + '\n{"offset":9}',
        "state/0/_metadata/metadata": "v1\n"
        + json.dumps({"stateStoreInfo": [{"storeName": "default", "numPartitions": block.count}]}),
        "state/0/0/_metadata/schema": "schema",
        "metadata": '{"id":"old"}',
    }
    for local in range(block.count):
        for version in (batch + 1, batch + 2, *versions):
            files[f"state/0/{local}/{version}_x.zip"] = f"{block.first + local}@{version}"
    store.make_checkpoint(name)
    for file, text in files.items():
        store.replace(f"{name}/{file}", text.encode())
    return Part(checkpoint=name, block=block, spark_batch=batch)


def read(store, name):
    data = store.read(name)
    assert data is not None, name
    return data.decode()


def log(store, name):
    return json.loads(read(store, name).splitlines()[1])


def test_a_block_gets_its_partitions_under_its_own_numbers():
    """Spark is told how many there are, which state counts and how far the source was read."""
    store = MemoryStorage()
    whole, low, high = (*even_blocks(1, 4), *even_blocks(2, 4))
    part = parent(store, "p/1", whole, batch=5, watermark=33)
    for block in (low, high):
        name = f"c/{block.first}"
        compose_checkpoint(store, name, [part], block, source_offset='{"offset":0}')
        state = {file: read(store, f"{name}/state/{file}") for file in store.sizes(f"{name}/state")}
        for local in range(2):
            assert state[f"0/{local}/6_x.zip"] == f"{block.first + local}@6"
            assert f"0/{local}/7_x.zip" not in state  # of a batch that was not committed
        assert state["0/0/_metadata/schema"] == "schema"
        ids = log(store, f"{name}/commits/5")["stateUniqueIds"]["0"]
        assert ids == [[f"p/1-{block.first}"], [f"p/1-{block.first + 1}"]]
        for number in (4, 5):
            lines = read(store, f"{name}/offsets/{number}").splitlines()
            assert lines[2:] == ['{"offset":0}']
            assert json.loads(lines[1])["conf"] == {
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.streaming.statefulOperator.useStrictDistribution": "false",
                "other": "kept",
            }
        (info,) = log(store, f"{name}/state/0/_metadata/metadata")["stateStoreInfo"]
        assert info["numPartitions"] == 2
        assert read(store, f"{name}/metadata") != '{"id":"old"}'


def test_blocks_that_ran_different_numbers_of_batches_meet_at_one_version():
    """The versions of the one behind are counted on; the watermark is the smaller one."""
    store = MemoryStorage()
    low, high = even_blocks(2, 2)
    parts = [
        parent(store, "a", low, batch=9, watermark=50),
        parent(store, "b", high, batch=4, watermark=40, versions=(3,)),
    ]
    compose_checkpoint(store, "c", parts, Block(first=0, count=2, of=2), source_offset="{}")
    assert read(store, "c/state/0/0/10_x.zip") == "0@10"
    assert read(store, "c/state/0/1/10_x.zip") == "1@5"
    assert read(store, "c/state/0/1/8_x.zip") == "1@3"
    commit = log(store, "c/commits/9")
    assert commit["nextBatchWatermarkMs"] == 40
    assert commit["stateUniqueIds"] == {"0": [["a-0"], ["b-1"]]}
    assert log(store, "c/offsets/9")["batchWatermarkMs"] == 40


def test_state_that_nobody_gives_is_missed():
    """Half a state never passes for the whole."""
    store = MemoryStorage()
    low, _ = even_blocks(2, 2)
    part = parent(store, "a", low, batch=1)
    with pytest.raises(ValueError, match="nobody owns"):
        compose_checkpoint(store, "c", [part], Block(first=0, count=2, of=2), source_offset="{}")
    store.delete("a/commits/1")
    with pytest.raises(CorruptLogError, match="missing"):
        compose_checkpoint(store, "c", [part], low, source_offset="{}")
    assert store.checkpoints("") == ["a"]


def test_a_changelog_is_counted_on():
    """Its lineage has other versions; its changes are the same bytes."""
    shifted = shift_changelog(CHANGELOG, 5, path="x")
    before, after = read_head(CHANGELOG, path="x"), read_head(shifted, path="x")
    assert [item["version"] for item in after.lineage] == [6]
    assert after.lineage[0]["checkpointUniqueId"] == before.lineage[0]["checkpointUniqueId"]
    assert after.rest == before.rest
    assert shifted[after.place :] == CHANGELOG[before.place :]


def test_a_long_head_takes_several_blocks():
    """Spark reads blocks of the size that the first one names."""
    many = [{"version": n, "checkpointUniqueId": "i" * 36} for n in range(600)]
    made = empty_changelog(CHANGELOG, many, path="x")
    assert read_head(made, path="x").lineage == many


@pytest.mark.parametrize("place", [0, 12, 60, 190])
def test_a_torn_changelog_is_named(place):
    """An altered byte anywhere in the head is noticed."""
    torn = CHANGELOG[:place] + bytes([CHANGELOG[place] ^ 0xFF]) + CHANGELOG[place + 1 :]
    with pytest.raises(CorruptLogError, match="changelog"):
        shift_changelog(torn, 1, path="x")
