"""Row comparison: multiset differences, told with examples."""

import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.verify.compare import canonical, compare

pytestmark = pytest.mark.unit

rows = st.lists(
    st.fixed_dictionaries({"a": st.integers(0, 3), "b": st.sampled_from("xyz")}), max_size=8
)


@settings(deadline=None)
@given(rows=rows, order=st.randoms())
def test_equal_rows_in_any_order_are_right(rows, order):
    """Order does not count, multiplicity does."""
    shuffled = list(rows)
    order.shuffle(shuffled)
    difference = compare(shuffled, rows)
    assert difference.ok
    assert difference.compared == len(rows)


@settings(deadline=None)
@given(found=rows, required=rows)
def test_a_difference_is_found_exactly_when_there_is_one(found, required):
    """The verdict is that of comparing sorted rows."""
    key = lambda row: (row["a"], row["b"])  # noqa: E731
    assert compare(found, required).ok == (sorted(found, key=key) == sorted(required, key=key))


@settings(deadline=None)
@given(required=rows, more=rows, part=st.integers(0, 8))
def test_allowed_rows_may_be_there_or_not(required, more, part):
    """Anything between required and allowed is right."""
    assert compare([*required, *more[:part]], required, [*required, *more]).ok


@settings(deadline=None)
@given(found=rows, required=rows)
def test_the_counts_add_up(found, required):
    """Every row of either side is accounted for once."""
    difference = compare(found, required)
    gone = difference.missing + difference.altered
    came = difference.doubled + difference.unexpected + difference.altered
    assert len(required) - gone == len(found) - came


def test_values_from_different_stores_are_equal():
    """Booleans, naive UTC times and decimals mean what they mean."""
    naive = dt.datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001 - a naive time is the point
    one = {"t": naive, "b": True, "d": Decimal("1.50"), "n": float("nan"), "l": [1, {"x": 2}]}
    two = {
        "l": (1, {"x": 2}),
        "n": float("nan"),
        "d": Decimal("1.5"),
        "b": 1,
        "t": naive.replace(tzinfo=dt.UTC),
    }
    assert canonical(one) == canonical(two)


def test_the_summary_is_readable():
    """One line says what is wrong."""
    difference = compare([{"a": 1}, {"a": 1}], [{"a": 1}, {"a": 2}])
    assert str(difference) == "1 missing, 1 doubled"
    assert str(compare([{"a": 1}], [{"a": 1}])) == "1 rows right"
