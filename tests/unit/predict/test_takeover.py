"""Units that are lost together: recoveries worked out by hand, and what must hold for all."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.predict.takeover import Back, Lost, bring_back

pytestmark = pytest.mark.unit

UNIT = Lost(
    interval=2.0,
    build=0.5,
    plan=0.3,
    usual=0.1,
    load=0.2,
    fixed=0.1,
    work=0.05,
    build_cores=1.0,
    batch_cores=1.0,
    lag=0.2,
    behind=0.2,
)


def lose(*units: Lost, since: float = 1.0, cores: float = 8.0, at_once: float = 8.0) -> list[Back]:
    return bring_back(units, detected=0.1, since=since, cores=cores, at_once=at_once)


def test_a_unit_that_is_back_before_anything_is_due() -> None:
    """Running after 0.6 s and due after 1 s it has planned: load and a batch are left."""
    (back,) = lose(UNIT)
    assert back.restore == pytest.approx(0.5)
    assert back.first == pytest.approx(0.2 + 0.1 + 0.05 * 2)
    assert back.catch_up == 0.0
    assert back.seconds == pytest.approx(0.1 + 0.5 + 0.4)
    assert back.complete == pytest.approx(back.seconds)


def test_a_batch_in_hand_is_made_again() -> None:
    """Hit 0.1 s into a batch: its slice is due already, so nothing hides the planning."""
    (back,) = lose(UNIT, since=0.1)
    assert back.seconds == pytest.approx(0.1 + 0.5 + (0.3 + 0.1) + 0.2 + 0.1 + 0.05 * 2)


def test_all_that_came_meanwhile_goes_into_one_batch() -> None:
    """Down for three intervals: the first is made again as recorded, the rest at once."""
    slow = replace(UNIT, build=6.0)
    (back,) = lose(slow, since=0.1)
    first = 0.1 + 6.0 + 0.4 + 0.2 + 0.1 + 0.1
    # Due since: three intervals, ending at 1.9, 3.9 and 5.9.
    assert back.seconds == pytest.approx(first + 0.1 + 0.1 + 0.05 * 6)
    one_each = replace(slow, one_interval=True)
    (other,) = lose(one_each, since=0.1)
    assert other.seconds > back.seconds


def test_a_unit_that_cannot_keep_up_never_recovers() -> None:
    """More than a second of work per second only gets later."""
    (back,) = lose(replace(UNIT, work=1.1))
    assert math.isinf(back.seconds)


def test_waiting_for_a_unit_that_was_lost_too_counts_for_results_only() -> None:
    """The second plans while it waits for the first; its slice completes the results."""
    reader = replace(UNIT, inputs=(0,), behind=0.4)
    first, second = lose(replace(UNIT, load=0.5), reader, since=0.1)
    assert second.seconds == pytest.approx(0.1 + 0.5 + 0.2 + 0.1 + 0.05 * 2)
    assert second.complete == pytest.approx(first.seconds + 0.2 + 0.1 + 0.05 * 2)


def test_more_than_the_cores_serve_are_built_in_turn() -> None:
    """The first two run as if alone; the third is built when one of them runs."""
    backs = lose(UNIT, UNIT, UNIT, cores=2.0, at_once=2.0)
    assert [back.restore for back in backs[:2]] == [pytest.approx(0.5)] * 2
    assert backs[2].restore > 1.0
    crowd = lose(UNIT, UNIT, UNIT, cores=2.0)
    assert crowd[0].restore == pytest.approx(0.75)


units = st.builds(
    Lost,
    interval=st.sampled_from([1.0, 2.0, 4.0]),
    build=st.floats(0.0, 1.5),
    plan=st.floats(0.0, 1.0),
    usual=st.floats(0.0, 0.2),
    load=st.floats(0.0, 1.0),
    fixed=st.floats(0.0, 0.2),
    work=st.floats(0.0, 0.2),
    build_cores=st.floats(0.2, 1.5),
    batch_cores=st.floats(0.2, 1.0),
    lag=st.floats(0.0, 0.3),
    behind=st.floats(0.0, 0.6),
)


@given(lost=st.lists(units, min_size=1, max_size=5), since=st.floats(0, 4), data=st.data())
def test_nobody_is_faster_than_alone(lost: list[Lost], since: float, data: st.DataObject) -> None:
    """Detection, building, loading and one batch are a floor whatever else is lost."""
    chained = []
    for i, unit in enumerate(lost):
        inputs = data.draw(st.sets(st.integers(0, i - 1), max_size=2)) if i else set()
        longest = max([unit.interval, *(chained[j].interval for j in inputs)])
        chained.append(replace(unit, inputs=tuple(sorted(inputs)), interval=longest))
    for unit, back in zip(chained, lose(*chained, since=since, cores=2.0, at_once=2), strict=True):
        floor = 0.1 + unit.build + unit.load + unit.fixed + unit.work * unit.interval
        assert back.seconds >= floor - 1e-9
        assert back.seconds == pytest.approx(
            0.1 + back.restore + back.first + back.catch_up, abs=1e-9
        ) or math.isinf(back.seconds)
