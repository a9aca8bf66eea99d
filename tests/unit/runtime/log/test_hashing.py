"""Digests tell rows apart, whatever their columns and however they are chunked."""

from __future__ import annotations

import decimal
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.runtime.log import hashing
from holdfast.runtime.log.hashing import _NULL, row_hashes

pytestmark = pytest.mark.unit

ROW = st.tuples(
    st.one_of(st.none(), st.text(max_size=20)),
    st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    st.one_of(st.none(), st.floats(allow_nan=False).map(lambda value: value + 0.0)),
    st.one_of(st.none(), st.booleans()),
)
SCHEMA = pa.schema([("s", pa.string()), ("i", pa.int64()), ("f", pa.float64()), ("b", pa.bool_())])


def table(rows):
    columns = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(SCHEMA)]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


@given(st.lists(ROW, min_size=1, max_size=30))
def test_equal_rows_and_only_they_have_equal_hashes(rows):
    """A 64-bit hash of a few rows does not collide by chance."""
    found = dict[object, set[int]]()
    for row, hashed in zip(rows, row_hashes(table(rows)).tolist(), strict=True):
        found.setdefault(row, set()).add(hashed)
    assert all(len(hashes) == 1 for hashes in found.values())
    distinct = {next(iter(hashes)) for hashes in found.values()}
    # 0.0 and -0.0 are equal values and equal hashes; dict keys agree.
    assert len(distinct) == len(found)


@given(st.lists(ROW, min_size=2, max_size=30), st.data())
def test_chunks_and_offsets_do_not_matter(rows, data):
    """A slice of a table hashes like the same rows on their own."""
    cut = data.draw(st.integers(1, len(rows) - 1))
    whole = row_hashes(table(rows)).tolist()
    parts = pa.concat_tables([table(rows[:cut]), table(rows[cut:])])
    assert row_hashes(parts).tolist() == whole
    assert row_hashes(table(rows).slice(cut)).tolist() == whole[cut:]


@given(st.lists(ROW, min_size=2, max_size=30), st.integers(1, 8))
def test_how_many_rows_are_hashed_at_a_time_does_not_matter(rows, at_a_time):
    """Digests and key groups are the same; both look at each row alone."""
    found = table(rows)
    with patch.object(hashing, "ROWS", at_a_time):
        pieces = row_hashes(found).tolist(), hashing.key_groups(found, ("s", "i")).tolist()
    assert pieces == (row_hashes(found).tolist(), hashing.key_groups(found, ("s", "i")).tolist())


def test_a_null_differs_from_an_empty_text_and_from_zero():
    """What is not there is not the same as what is empty."""
    texts = row_hashes(pa.table({"s": pa.array([None, "", "\0"])}))
    numbers = row_hashes(pa.table({"i": pa.array([None, 0])}))
    assert len({*texts.tolist()}) == 3
    assert len({*numbers.tolist()}) == 2


def test_nested_values_and_decimals_have_hashes_too():
    """Any column that Arrow has can be in a slice."""
    rows = pa.table(
        {
            "list": pa.array([[1, 2], [2, 1], [1, 2]]),
            "amount": pa.array([decimal.Decimal("1.10")] * 3),
        }
    )
    first, other, again = row_hashes(rows).tolist()
    assert first == again != other


def test_no_number_looks_like_a_null():
    """What stands for a null must not be a value that a column can have."""
    mark = int(_NULL)
    found = row_hashes(pa.table({"i": pa.array([None, mark], pa.int64())})).tolist()
    assert found[0] != found[1]
