"""Task slots are counted, so that waiting tasks cannot keep out those they wait for."""

import os

import pytest

from holdfast.errors import BadInputError
from holdfast.pipeline import Parquet, Pipeline, Rate, deploy
from holdfast.runtime.units.slots import MIN_SLOTS, require_slots, task_slots, waiting_tasks

pytestmark = pytest.mark.unit


def united(sources, *, shards=1):
    """A union of many sources, then a count; the sources and the sink wait in no task."""
    made = Pipeline("wide", epoch="1s")
    first, *rest = [made.source(f"s{i}", Rate(rows_per_second=1)) for i in range(sources)]
    both = first.union("both", *rest)
    counted = both.aggregate("count", lambda frame: frame.groupBy("key").count(), key="key")
    made.sink("out", counted, Parquet("out"))
    return deploy(made, cuts="all", shards={"count": shards})


@pytest.mark.parametrize(
    ("sources", "shards", "partitions", "tasks"),
    [(2, 1, 1, 2 + 1), (5, 1, 1, 5 + 1), (2, 8, 1, 2 + 8), (3, 4, 2, 2 * (3 + 4))],
)
def test_waiting_tasks_are_counted_over_all_units(sources, shards, partitions, tasks):
    """One per input, partition and shard of every query, as a spare may get all of them."""
    deployment = united(sources, shards=shards)
    assert waiting_tasks(deployment, partitions) == tasks


def test_there_are_more_slots_than_tasks_that_wait():
    """A small deployment gets the usual number, a wide one as many as it takes."""
    assert task_slots(united(2)) == MIN_SLOTS
    wide = united(70, shards=32)
    assert task_slots(wide) > 2 * waiting_tasks(wide)
    require_slots(f"local[{task_slots(wide)}]", wide)


def test_operators_that_may_scale_have_slots_for_all_their_shards():
    """A session is started once: it must do for what `scale` makes of the run later."""
    made = Pipeline("growing", epoch="1s")
    source = made.source("s", Rate(rows_per_second=1))
    counted = source.aggregate("count", lambda frame: frame, key="value", max_shards=128)
    made.sink("out", counted, Parquet("out"))
    deployment = deploy(made, cuts="all")
    assert waiting_tasks(deployment) == 1
    assert task_slots(deployment) > 128
    require_slots("local[2]", deployment)


@pytest.mark.parametrize("master", ["local", "local[3]", "local[3,4]", "local[3, 4]"])
def test_a_session_with_too_few_slots_is_refused(master):
    """In one line that says how many it takes."""
    with pytest.raises(BadInputError, match=r"local\[64\]") as found:
        require_slots(master, united(2))
    assert "\n" not in str(found.value)
    require_slots("local[4]", united(2))


def test_all_cores_are_counted(monkeypatch):
    """And a cluster is not asked."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    with pytest.raises(BadInputError, match="has 2 task slots"):
        require_slots("local[*]", united(2))
    require_slots("spark://127.0.0.1:7077", united(2))
