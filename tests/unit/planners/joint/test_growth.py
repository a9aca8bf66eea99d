"""Partitions that a plan keeps state in: as many as growth takes, and none beyond."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.planners.words import WORDS

from holdfast.plan import JointPlan, PlannedSegment
from holdfast.planners.joint.growth import MOST, TARGET, choose_shards, fixed_s, with_stores
from holdfast.predict.statistics import Measure, OperatorStatistics, Statistics

pytestmark = pytest.mark.unit

FIXED = {"lines": (1, "it has no key")}
INTERVAL_S = 2.0
PLAN = JointPlan(
    algorithm="exact",
    feasible=True,
    segments=tuple(
        PlannedSegment(
            name=name,
            operators=(name,),
            batch_interval=INTERVAL_S,
            snapshot_interval=None,
            batch_epochs=2,
            snapshot_batches=10,
            batch_time=0.1,
        )
        for name in ("lines", "count")
    ),
)


def measured(busy, *, skew=1.0, state=1e6):
    """Statistics by which the operator is busy for this share of its time."""
    count = OperatorStatistics(
        input_rate=Measure(value=1000.0, how="counted"),
        cost=Measure(value=busy / 1000.0, how="timed"),
        skew=Measure(value=skew, how="counted"),
        state_size=Measure(value=state, how="counted"),
    )
    return Statistics(pipeline="words", operators={"count": count})


def chosen(statistics, growth):
    return choose_shards(WORDS, statistics, PLAN, growth, FIXED)


@pytest.mark.parametrize(
    ("busy", "growth", "number", "why"),
    [
        (0.1, 1, 1, "1 times its rows keep 0.1 cores busy, which 1 shard can do"),
        (0.1, 4, 1, "4 times its rows keep 0.4 cores busy, which 1 shard can do"),
        (0.3, 4, 2, "4 times its rows keep 1.2 cores busy, which takes 2 shards"),
        (0.5, 4, 4, "4 times its rows keep 2 cores busy, which takes 4 shards"),
        (0.5, 100, 128, "100 times its rows keep 50 cores busy, which takes 78 shards"),
        (2.0, 128, 128, "which takes 396 shards, of which it can have 128"),
        (0.0, 4, 1, "nothing is known of what its rows cost: holdfast profile"),
    ],
)
def test_a_power_of_two_that_holds_the_shards_it_takes(busy, growth, number, why):
    """With room left in every shard for what a batch takes anyway."""
    found = chosen(measured(busy), growth)
    assert found.max_shards == {"lines": 1, "count": number}
    assert why in found.why["count"]
    assert found.why["lines"] == "it has no key"
    assert found.divided == ({"count": number} if number > 1 else {})


def test_the_busiest_shard_counts_and_shards_cannot_help_an_empty_batch():
    """Skew takes more of them; an interval that fixed costs fill takes none."""
    assert chosen(measured(0.3, skew=2.0), 4).max_shards["count"] == 4
    short = replace(
        PLAN, segments=tuple(replace(item, batch_interval=0.1) for item in PLAN.segments)
    )
    found = choose_shards(WORDS, measured(0.5), short, 4, FIXED)
    assert found.max_shards["count"] == 1
    assert "a batch of no rows takes 105% of its interval" in found.why["count"]


@given(busy=st.floats(0.01, 3.0), growth=st.floats(1.0, 16.0))
def test_never_more_than_needed(busy, growth):
    """Half as many partitions would leave a shard too busy, and these do not."""
    statistics = measured(busy)
    number = chosen(statistics, growth).max_shards["count"]
    idle = fixed_s(statistics, "count", stateful=True) / INTERVAL_S
    if number > 1:
        assert idle + growth * busy / (number // 2) > TARGET - 1e-6
    if number < MOST:
        assert idle + growth * busy / number <= TARGET + 1e-6


def test_what_the_partitions_cost_is_in_the_numbers_of_the_plan():
    """Each further one is what keeping state adds to a batch; what keeps none pays nothing."""
    statistics = measured(0.5)
    store = statistics.machine.state_write.fixed.value
    count = with_stores(WORDS, statistics, chosen(statistics, 4)).operators["count"]
    assert count.batch_fixed.value == pytest.approx(4 * store)
    assert count.stores.value == 4
    stateless = measured(0.5, state=0.0)
    assert with_stores(WORDS, stateless, chosen(stateless, 4)) == stateless
