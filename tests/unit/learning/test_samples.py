"""Samples of a run: what is compared with what, and how much is kept."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.learning.samples import KEPT, Learned, Recovery, Seen, Told, compare

pytestmark = pytest.mark.unit

UNIT = Told(unit="count.0#0", segment="count", generation=1, epoch=9, rows_in=900, batch_s=0.2)


def test_rows_are_counted_over_epochs():
    """Five epochs of 2 s later there are 1500 rows more, whatever the clock says."""
    later = replace(UNIT, epoch=14, rows_in=2400, batch_s=0.3, state_bytes=50.0)
    seen, base = compare({UNIT.unit: UNIT}, [later], 2.0)
    assert seen == {"count": Seen(rate_in=150.0, batch_s=0.3, state_bytes=50.0)}
    assert base == {UNIT.unit: later}


def test_a_unit_without_a_new_batch_is_no_sample():
    """Long batches are looked at several times: they count once, from where they were."""
    seen, base = compare({UNIT.unit: UNIT}, [UNIT], 1.0)
    assert seen == {}
    assert base == {UNIT.unit: UNIT}


def test_another_generation_counts_anew():
    """A unit that was restarted has read nothing yet; that is no drop of the rate."""
    restarted = replace(UNIT, generation=2, epoch=12, rows_in=10)
    seen, base = compare({UNIT.unit: UNIT}, [restarted], 1.0)
    assert seen == {}
    assert base == {UNIT.unit: restarted}


def test_shards_count_together_once_all_went_on():
    """The rate is that of all shards, the batch that of the slowest."""
    other = replace(UNIT, unit="count.0#1")
    before = {UNIT.unit: UNIT, other.unit: other}
    one = replace(UNIT, epoch=11, rows_in=1100, batch_s=0.5)
    assert compare(before, [one, other], 1.0)[0] == {}
    two = replace(other, epoch=13, rows_in=1300, batch_s=0.1)
    seen, _ = compare(before, [one, two], 1.0)
    assert seen == {"count": Seen(rate_in=200.0, batch_s=0.5)}


@given(st.lists(st.floats(0, 1e6), max_size=300))
def test_what_is_kept_is_bounded_and_survives_its_file(rates):
    """However long a run is, the latest samples are kept and read back the same."""
    learned = Learned()
    for number, rate in enumerate(rates):
        recovery = Recovery(id=number, segment="count", detect_s=0.1, restore_s=1.0, cause="x")
        learned = learned.add({"count": Seen(rate_in=rate)}, [recovery])
    assert len(learned.segments.get("count", ())) == min(len(rates), KEPT)
    assert len(learned.recoveries) == min(len(rates), KEPT)
    assert Learned.from_json(json.loads(json.dumps(learned.to_json()))) == learned
    if rates:
        assert learned.segments["count"][-1].rate_in == rates[-1]


def test_a_file_of_another_format_teaches_nothing():
    """What another version kept is left alone."""
    assert Learned.from_json({"format": "holdfast-learned/99"}) == Learned()
