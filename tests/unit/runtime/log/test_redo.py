"""How a unit goes on when a batch failed or was published otherwise."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.runtime.log.redo import after_failure, version_to_use
from holdfast.streams.records import MOST_SKIPS

pytestmark = pytest.mark.unit

NOTHING = {"published": None, "newest": 0, "used": 0, "adopted": False}


@pytest.mark.parametrize(
    ("stateful", "changes", "step"),
    [
        (True, {}, "search"),
        (False, {}, "search"),
        # Someone else has found the rows meanwhile, or more of them.
        (True, {"newest": 1}, "again"),
        (False, {"newest": 2, "used": 1}, "again"),
        # A second operator of the segment fails.
        (True, {"newest": 1, "used": 1}, "search"),
        (True, {"newest": MOST_SKIPS, "used": MOST_SKIPS}, "fail"),
        # A zombie published it with nothing left out.
        (True, {"published": 0, "newest": 1, "used": 1}, "again"),
        (False, {"published": 0, "newest": 1, "used": 1}, "adopt"),
        # It is published as it was run here, and cannot be computed again.
        (True, {"published": 0}, "fail"),
        (False, {"published": 0}, "adopt"),
        (False, {"published": 0, "adopted": True}, "fail"),
    ],
)
def test_what_is_published_counts_and_rows_are_sought_only_before(stateful, changes, step):
    """One row per situation."""
    assert after_failure(stateful=stateful, **{**NOTHING, **changes}) == step


@given(st.booleans(), st.none() | st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_a_batch_that_keeps_failing_comes_to_an_end(stateful, published, newest, used):
    """Whatever the records say, few steps are left until there is nothing more to try."""
    adopted = False
    for count in itertools.count():
        step = after_failure(
            stateful=stateful, published=published, newest=newest, used=used, adopted=adopted
        )
        if step == "fail":
            break
        if step == "search":
            newest += 1
        adopted = adopted or step == "adopt"
        used = version_to_use(published, newest)
        assert count <= MOST_SKIPS + 1
