"""Rows that a test gives to a pipeline: what is no row is said, before Spark sees it."""

import pytest

from holdfast.errors import BadInputError
from holdfast.testing.pipelines import _epochs, _values

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("given", ["kelp", 3, None])
def test_what_is_no_row_is_said(given):
    """A text would be taken letter by letter."""
    with pytest.raises(BadInputError, match=r"lines: .* is no row; a list of rows"):
        _values(given, ["line"], "lines")
    with pytest.raises(BadInputError, match=r"lines: .* is no row; a list of rows"):
        _epochs(None, None, given, "lines")


def test_one_row_is_no_list_of_rows():
    """Its columns would be taken for rows."""
    with pytest.raises(BadInputError, match="is no row"):
        _epochs(None, None, {"line": "kelp"}, "lines")


def test_rows_are_tuples_or_dicts():
    """Columns that a dict leaves out are empty; a tuple has all."""
    assert _values(("t", "kelp"), ["ts", "line"], "lines") == ["t", "kelp"]
    assert _values({"line": "kelp"}, ["ts", "line"], "lines") == [None, "kelp"]
    with pytest.raises(BadInputError, match="a row has 1 values for the columns ts, line"):
        _values(("kelp",), ["ts", "line"], "lines")
    with pytest.raises(BadInputError, match="no column of lines 'lin'"):
        _values({"lin": "kelp"}, ["ts", "line"], "lines")
