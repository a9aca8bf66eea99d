"""What another plan would do otherwise, why, and what a run goes over to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.learning.difference import beyond_settings, differences, explained, tell
from holdfast.learning.refine import Drift
from holdfast.learning.standing import Broken
from holdfast.plan import JointPlan
from holdfast.plan.joint import PlannedNode, PlannedSegment

pytestmark = pytest.mark.unit


def segment(name, *operators, batch=2.0, snapshots=10):
    """One of a plan."""
    return PlannedSegment(
        name=name,
        operators=(*operators, name),
        batch_interval=batch,
        snapshot_interval=batch * snapshots,
        batch_epochs=int(batch),
        snapshot_batches=snapshots,
        batch_time=0.3,
    )


def node(*names):
    """One of a plan."""
    return PlannedNode(segments=names, slowest=None, recovery=None, results=None)


PLAN = JointPlan(
    algorithm="exact",
    feasible=True,
    boundaries=("lines", "count", "best"),
    segments=(segment("lines"), segment("count", "split"), segment("best")),
    nodes=(node("lines", "count", "best"),),
    spares=1,
)


def words(after, **known):
    """What differs, in words."""
    return [one.what for one in differences(PLAN, after, **known)]


def test_the_same_plan_changes_nothing():
    """And says so."""
    said = []
    tell(differences(PLAN, PLAN), said.append)
    assert said == ["would change: nothing"]


def test_settings_are_gone_over_to():
    """Intervals, spares, nodes and who shares them, each in a line."""
    after = replace(
        PLAN,
        segments=(
            segment("lines"),
            segment("count", "split", batch=4.0, snapshots=5),
            PLAN.segments[2],
        ),
        nodes=(node("lines", "best"), node("count")),
        spares=2,
    )
    found = differences(PLAN, after)
    assert [one.what for one in found] == [
        "batches of count every 4 s instead of 2 s",
        "snapshots of count every 5 batches instead of 10",
        "2 nodes instead of 1",
        "lines on a node with best",
        "count on a node of its own",
        "best on a node with lines",
        "2 spares instead of 1",
    ]
    assert beyond_settings(found) == []


def test_other_units_are_not():
    """Cuts and followers make other units."""
    after = replace(
        PLAN,
        boundaries=("lines", "split", "best"),
        segments=(segment("lines"), segment("split"), segment("best", "count")),
        nodes=(node("lines", "split", "best"),),
        replicas=("best",),
    )
    found = differences(PLAN, after)
    assert [one.what for one in found] == [
        "cut after split",
        "no cut after count",
        "a follower of best",
    ]
    assert beyond_settings(found) == found


def test_intervals_are_told_in_seconds():
    """Plans of a topology in milliseconds count in milliseconds."""
    after = replace(PLAN, segments=(segment("lines", batch=500.0), *PLAN.segments[1:]))
    assert words(after, seconds=0.001) == ["batches of lines every 0.5 s instead of 0.002 s"]


def test_changes_say_why():
    """By what has changed of the segment, else by the promise that would be broken."""
    after = replace(
        PLAN, segments=(PLAN.segments[0], segment("count", "split", batch=1.0), PLAN.segments[2]),
        spares=2,
    )  # fmt: skip
    drift = Drift(number="rate", segment="count", before=10.0, now=40.0, samples=9)
    broken = {"best": Broken(now_s=9.0, bound_s=5.0)}
    batches, spares = explained(differences(PLAN, after), PLAN, [drift], broken)
    assert batches.words.endswith(
        "because rows into count: 10 /s as profiled, 40 /s now (9 samples)"
    )
    assert spares.words.endswith("because best would take 9 s (p95), promised 5 s")
    (_, without) = explained(differences(PLAN, after), PLAN, [drift], {})
    assert without.why == drift.words


INTERVALS = st.sampled_from([1.0, 2.0, 4.0])


@given(
    st.lists(INTERVALS, min_size=3, max_size=3),
    st.integers(0, 3),
    st.permutations(["lines", "count", "best"]),
    st.integers(1, 2),
)
def test_a_change_there_is_a_change_back(batches, spares, order, cut):
    """Plans that differ do so both ways, in as many things; equal ones in none."""
    after = replace(
        PLAN,
        segments=tuple(
            segment(one.name, *one.operators[:-1], batch=batch)
            for one, batch in zip(PLAN.segments, batches, strict=True)
        ),
        spares=spares,
        nodes=(node(*sorted(order[:cut])), node(*sorted(order[cut:]))),
    )
    there, back = differences(PLAN, after), differences(after, PLAN)
    assert [(one.kind, one.about) for one in there] == [(one.kind, one.about) for one in back]
    assert differences(after, after) == []
    assert beyond_settings(there) == []
