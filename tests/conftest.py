"""What all tests share: the hypothesis profile, and what `make test` leaves to `make chaos`."""

from __future__ import annotations

import re

import pytest
from hypothesis import settings

# A shared machine may stop anybody for a while; slowness is a matter for benchmarks.
settings.register_profile("holdfast", deadline=None)
settings.load_profile("holdfast")

# Parameter sets that take minutes run in full with `make chaos`; `make test` takes these samples.
SAMPLES = {
    "test_results_do_not_depend_on_the_plan": r"\[(uncut|shards-everywhere)-word_count\]|"
    r"\[everywhere-(traffic|loyalty)\]|\[batches-top_k\]",
    "test_an_idle_input_changes_nothing": r"\[distinct_count\]",
    "test_catching_up_after_a_pause_changes_nothing": r"\[sessions\]",
    "test_a_unit_survives_a_crash_point": r"\[(after-slice-record-double|during-clone-windows)",
    "test_a_schedule_ends_verified": r"\[[07]\]",
    # To prove the sixth tree takes twenty seconds, all others together take one.
    "test_the_large_algorithm_is_bounded_by_the_exact_one": r"\[[0-46]\]",
    "test_large_graphs_with_joins_get_a_plan_and_a_bound": r"none of them",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `full` what is not in the sample."""
    for item in items:
        sample = SAMPLES.get(getattr(item, "originalname", ""))
        if sample is not None and not re.search(sample, item.name):
            item.add_marker(pytest.mark.full)
