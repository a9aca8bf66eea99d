"""Outcomes of one batch that differ in the rounding of floats alone, and those that do not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.runtime.log.rounding import same_but_for_rounding

pytestmark = pytest.mark.unit

LAST_BIT = 0.1 + 0.2
ROWS = {"key": ["a", "b", None], "x": [1.5, 0.3, None], "tags": [[1], [2, 3], []]}


def table(**changed):
    return pa.table({**ROWS, **changed})


@given(order=st.permutations(range(3)))
def test_order_and_last_bits_do_not_count(order):
    """Rows in any order, each float off by its last bit."""
    other = table(x=[1.5, LAST_BIT, None]).take(pa.array(order))
    assert same_but_for_rounding(table(), other)
    assert same_but_for_rounding(other, table())


@pytest.mark.parametrize(
    "changed",
    [
        {"x": [1.5, 0.30001, None]},
        {"x": [1.5, 0.3, 0.0]},
        {"x": [1.5, None, 0.3]},
        {"x": [0.3, 1.5, None]},
        {"x": [1.5, float("nan"), None]},
        {"key": ["a", "c", None]},
        {"tags": [[1], [2, 4], []]},
        {"x": pa.array([1.5, 0.3, None], pa.float32())},
    ],
)
def test_anything_else_counts(changed):
    """Another value, key, null, pairing or type is another row."""
    assert not same_but_for_rounding(table(), table(**changed))


SUM = pa.struct([("n", pa.int64()), ("total", pa.float64())])
NESTED = {
    "struct": (SUM, lambda x, n=1: {"n": n, "total": x}),
    "list": (pa.list_(pa.float64()), lambda x, n=1: [float(n), x, None]),
    "map": (pa.map_(pa.string(), SUM), lambda x, n=1: [("a", {"n": n, "total": x})]),
    "structs in a list": (pa.list_(SUM), lambda x, n=1: [{"n": n, "total": x}, None]),
}


@pytest.mark.parametrize("kind", NESTED)
def test_floats_inside_of_values_are_floats_as_well(kind):
    """A sum may be part of a struct, a list or a map; what stands beside it must be equal."""
    of, value = NESTED[kind]

    def nested(first):
        return table(v=pa.array([first, None, value(5.0)], of))

    mine = nested(value(0.3))
    assert same_but_for_rounding(mine, nested(value(LAST_BIT)))
    assert same_but_for_rounding(mine, nested(value(LAST_BIT)).take([2, 0, 1]))
    for other in (value(0.31), value(None), value(0.3, n=2), None):
        assert not same_but_for_rounding(mine, nested(other))


def test_numbers_that_are_not_numbers_are_equal_to_themselves():
    """Infinities and NaN come out of sums as well."""
    odd = [float("nan"), float("inf"), float("-inf")]
    assert same_but_for_rounding(table(x=odd), table(x=odd))
    assert not same_but_for_rounding(table(x=odd), table(x=[*odd[:2], float("inf")]))


def test_without_floats_nothing_is_forgiven():
    """Integers have no rounding, so equal tables do not come here."""
    whole = pa.table({"n": [1, 2]})
    assert not same_but_for_rounding(whole, whole)


def test_sums_of_many_terms_in_any_order_are_the_same():
    """The tolerance is far above what a million terms of one sign can make of it."""
    terms = np.random.default_rng(7).lognormal(0, 3, 1_000_000)
    orders = [terms, terms[::-1], np.sort(terms)]
    first, *others = [pa.table({"s": [float(np.add.reduce(order))]}) for order in orders]
    assert all(same_but_for_rounding(first, other) for other in others)
