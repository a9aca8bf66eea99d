"""What long benchmarks say of their progress and of their bars."""

import pytest
from benchmarks._bars import Progress, verdict

pytestmark = pytest.mark.unit


def test_the_time_left_is_judged_by_what_was_done():
    """Seconds, or minutes where there are many."""
    now = [0.0]
    progress = Progress(4, lambda: now[0])
    now[0] = 100.0
    assert progress.step() == "1/4, 5 min left"
    now[0] = 120.0
    assert progress.step() == "2/4, 2 min left"
    assert progress.step() == "3/4, 40 s left"
    assert progress.step() == "4/4, 0 s left"


def test_a_bar_is_kept_missed_or_not_measured():
    """Bounds from either side; what lies on one keeps it."""
    assert verdict("median", 0.3, most=0.3) == "bar  median: 0.3, at most 0.3: kept"
    assert verdict("median", 0.31, most=0.3).endswith("MISSED")
    assert verdict("sooner", 9.8, least=10) == "bar  sooner: 9.8, at least 10: MISSED"
    assert verdict("sooner", 10.0, least=10).endswith("kept")
    assert verdict("cpu", None, most=1.1) == "bar  cpu: not measured (at most 1.1)"
