"""Autoscaling over load curves: lag is bounded, changes are few, and each says why."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.control.elastic.curves import (
    CURVES,
    FLOOR,
    MOST,
    ROW_S,
    even,
    least_changes,
    simulate,
    skewed,
    step,
    too_hot,
)

from holdfast.control.elastic.load import Limits, LoadReport, Rescale, ShardLoad, Stuck
from holdfast.control.elastic.predict import PredictPolicy
from holdfast.control.elastic.scaler import Autoscaler
from holdfast.control.elastic.threshold import ThresholdPolicy
from holdfast.deployment.blocks import even_blocks

pytestmark = pytest.mark.unit

LAG_S = 10.0
"""More than this behind is not kept up with."""


@pytest.mark.parametrize("spread", [even, skewed], ids=["even", "skew"])
@pytest.mark.parametrize("name", CURVES)
def test_the_load_is_followed_with_few_changes(name, spread):
    """Lag stays bounded, in the end there is none, with at most twice the fewest changes."""
    curve, length_s = CURVES[name]
    found = simulate(PredictPolicy(), curve, length_s=length_s, spread=spread)
    assert max(found.lag_s) <= LAG_S
    assert found.lag_s[-1] < 2.0
    fewest = least_changes(curve, length_s=length_s, spread=spread)
    told = [(len(one.shape), one.reason) for one in found.changes]
    assert len(told) <= 2 * fewest, (fewest, told)


def test_no_shape_is_kept_that_is_far_too_large():
    """After the load has fallen, so do the shards."""
    found = simulate(PredictPolicy(), step, length_s=2600)
    assert max(found.shards) == 4
    assert found.shards[-1] == 1


def test_blocks_are_split_where_the_load_is():
    """Others are not split for its sake, and the reason names it."""
    found = simulate(PredictPolicy(), lambda t: 800.0 + t, length_s=900, spread=skewed)
    assert found.lag_s[-1] < 1.0
    last = found.changes[-1]
    sizes = {block.first <= 5 < block.stop: block.count for block in last.shape}
    assert sizes[True] < sizes[False]
    assert 5 in {one.reason.hot for one in found.changes}
    assert len(last.shape) < MOST // 2


def test_load_that_no_shape_holds_is_told_once():
    """A key group that is too hot for one shard stays as it is, with a reason."""
    found = simulate(PredictPolicy(), lambda _: 5000.0, length_s=900, spread=too_hot)
    assert [stuck.reason.hot for stuck in found.stuck] == [5]
    assert max(found.shards) < MOST


def test_a_policy_that_could_swing_is_refused():
    """What is just enough for a larger shape must be too much for a smaller one."""
    with pytest.raises(ValueError, match="swings"):
        PredictPolicy(low=0.8, target=0.7)


def report(at, cpus, *, rate=0.0, backlog=0.0, operator="count"):
    shards = tuple(
        ShardLoad(block=block, cpu=cpu, backlog_rows=backlog)
        for block, cpu in zip(even_blocks(len(cpus), MOST), cpus, strict=True)
    )
    return LoadReport(
        operator=operator,
        at=at,
        shards=shards,
        rates=(rate / MOST,) * MOST,
        row_s=ROW_S,
        floor=FLOOR,
    )


@pytest.mark.parametrize(
    ("cpus", "shards"),
    [
        ([0.9], None),
        ([0.9, 0.9], 3),
        ([0.9, 0.5, 0.9], None),
        ([0.1, 0.1], 1),
        ([0.1, 0.9, 0.1], None),
        ([0.5, 0.5, 0.5], None),
    ],
)
def test_two_reports_in_a_row_as_in_the_paper(cpus, shards):
    """One report alone, or one of each, changes nothing."""
    reports = [report(5.0 * n, [cpu, cpu]) for n, cpu in enumerate(cpus)]
    found = ThresholdPolicy().decide(reports, Limits(most=MOST), changed_at=None)
    assert (len(found.shape) if isinstance(found, Rescale) else None) == shards


def test_reports_of_another_shape_do_not_count():
    """After a change, two new ones are waited for."""
    reports = [report(5.0 * n, [0.9]) for n in range(4)]
    policy = ThresholdPolicy()
    assert policy.decide(reports, Limits(most=MOST), changed_at=12.0) is None
    assert policy.decide(reports, Limits(most=MOST), changed_at=8.0) is not None
    assert policy.decide(reports, Limits(most=1), changed_at=8.0) is None


def test_shards_in_all_are_bounded():
    """What would go beyond is told as stuck; who frees shards comes first."""
    scaler = Autoscaler(
        ThresholdPolicy(), {"a": Limits(most=8), "b": Limits(most=8)}, most_in_all=3
    )
    for at, busy in ((0.0, 0.9), (5.0, 0.9)):
        found = scaler.report(
            [report(at, [busy], operator="a"), report(at, [0.1, 0.1], operator="b")]
        )
    assert [(one.operator, type(one)) for one in found] == [("b", Rescale), ("a", Rescale)]
    scaler.changed("a", 6.0)
    scaler.changed("b", 6.0)
    for at in (10.0, 15.0):
        found = scaler.report(
            [report(at, [0.9, 0.9], operator="a"), report(at, [0.9], operator="b")]
        )
    assert [type(one) for one in found] == [Stuck, Stuck]
    assert "3 of 3 shards" in found[0].reason.text


def test_a_decision_is_waited_for():
    """Nothing more is decided for an operator until its change is done, or was refused."""
    scaler = Autoscaler(ThresholdPolicy(), {"count": Limits(most=8)}, most_in_all=8)
    told = [bool(scaler.report([report(5.0 * n, [0.9])])) for n in range(5)]
    assert told == [False, True, False, False, False]
    scaler.refused("count")
    assert scaler.report([report(30.0, [0.9])])


@pytest.mark.slow
@settings(max_examples=3)
@given(rates=st.lists(st.floats(0, 8000), min_size=1, max_size=8), hot=st.integers(0, MOST - 1))
def test_any_lasting_load_is_held_if_a_shape_holds_it(rates, hot):
    """Whatever came before, a load that one shard per partition holds leaves no lag in the end."""

    def spread(rate):
        shares = [3.0 if p == hot else 1.0 for p in range(MOST)]
        return [min(rate * s / sum(shares), 0.6 / ROW_S) for s in shares]

    found = simulate(
        PredictPolicy(),
        lambda t: rates[min(int(t // 400), len(rates) - 1)],
        length_s=400 * 9,
        spread=spread,
    )
    assert found.lag_s[-1] < 2.0
    steps = [1, *(len(one.shape) for one in found.changes)]
    assert all(b <= 4 * a and a <= 4 * b for a, b in itertools.pairwise(steps))


def arriving(at, operator, rate, shards=1):
    """A report of an operator to which so many rows come, evenly."""
    shape = even_blocks(shards, MOST)
    return LoadReport(
        operator=operator,
        at=at,
        shards=tuple(ShardLoad(block=block, cpu=0.9) for block in shape),
        rates=tuple(even(rate)),
        row_s=ROW_S,
        floor=0.0,
    )


def test_an_operator_gets_as_many_shards_as_are_left():
    """It wants four and two are left: two are better than none, and what is missing is told."""
    scaler = Autoscaler(PredictPolicy(), {"a": Limits(most=8), "b": Limits(most=8)}, most_in_all=3)
    for at in (0.0, 5.0):
        found = scaler.report([arriving(at, "a", 2500.0), arriving(at, "b", 100.0)])
    assert [(one.operator, type(one), len(one.shape)) for one in found] == [("a", Rescale, 2)]
    scaler.changed("a", 6.0)
    for at in (25.0, 30.0, 35.0):
        found = scaler.report([arriving(at, "a", 2500.0, 2), arriving(at, "b", 100.0)])
        assert [type(one) for one in found] == ([Stuck] if at == 25.0 else [])


def test_shards_that_are_on_their_way_count():
    """A change takes a while, or waits for nodes: what it takes is not given to another one."""
    scaler = Autoscaler(PredictPolicy(), {"a": Limits(most=8), "b": Limits(most=8)}, most_in_all=5)
    for at in (0.0, 5.0):
        found = scaler.report([arriving(at, "a", 2500.0), arriving(at, "b", 100.0)])
    assert [len(one.shape) for one in found] == [4]
    found = []
    for at, names in ((10.0, ["b"]), (15.0, ["a", "b"])):
        found += scaler.report([arriving(at, name, 2500.0) for name in names])
    assert [type(one) for one in found] == [Stuck]
    scaler.refused("a")
    found = scaler.report([arriving(20.0, "b", 2500.0)])
    assert [len(one.shape) for one in found] == [4]


@pytest.mark.parametrize("every_s", [5.0, 5.01, 4.9])
def test_a_run_that_began_with_too_many_shards_gives_them_back(every_s):
    """Also when reports come a little late: a real clock never hits the calm time exactly."""
    policy = PredictPolicy()
    scaler = Autoscaler(policy, {"count": Limits(most=8)}, most_in_all=8)
    looks = (every_s * look for look in range(40))
    changed = ((at, scaler.report([arriving(at, "count", 100.0, 8)])) for at in looks)
    at, (found,) = next((at, found) for at, found in changed if found)
    assert policy.calm_s <= at <= policy.calm_s + every_s
    assert len(found.shape) == 2


@pytest.mark.parametrize("policy", [PredictPolicy(), ThresholdPolicy()], ids=["predict", "paper"])
def test_a_shape_that_somebody_else_has_chosen_is_kept_for_a_while(policy):
    """`holdfast scale` beside an autoscaler: what was seen of the shape before says nothing."""
    scaler = Autoscaler(policy, {"count": Limits(most=8)}, most_in_all=8)
    for look in range(30):
        assert not scaler.report([report(5.0 * look, [0.1])])
    assert not scaler.report([report(150.0, [0.1] * 4)])
    later = (5.0 * look for look in range(31, 60))
    first = next(at for at in later if scaler.report([report(at, [0.1] * 4)]))
    assert first == (240.0 if isinstance(policy, PredictPolicy) else 160.0)
