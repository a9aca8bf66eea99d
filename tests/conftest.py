"""What all tests share: hypothesis profiles, and samples of tests with many parameters.

A property is tried on 50 examples, other ones each time; `make check` tries it on 10 and
`make chaos` on 500. So a test says nothing about their number, unless one example takes long.

Parameter sets that take minutes run in full with `make chaos`. `make test` takes a sample, which a
test names itself: `@pytest.mark.sample(plan={"uncut", "once"}, name="word_count")`, given once or
several times. What is in none of its samples is marked `full`. `make check` leaves out what is
marked `slow` as well: single tests that take about a second or start a process, beside which quick
ones stand.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# A shared machine may stop anybody for a while; slowness is a matter for benchmarks.
settings.register_profile(
    "holdfast", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("check", settings.get_profile("holdfast"), max_examples=10)
settings.register_profile("chaos", settings.get_profile("holdfast"), max_examples=500)
settings.load_profile("holdfast")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `full` what is not in the sample."""
    for item in items:
        samples = [mark.kwargs for mark in item.iter_markers("sample")]
        if samples and not any(_in_sample(item, sample) for sample in samples):
            item.add_marker(pytest.mark.full)


def _in_sample(item: pytest.Item, sample: dict[str, object]) -> bool:
    params = item.callspec.params
    for name, wanted in sample.items():
        if name not in params:
            raise pytest.UsageError(f"{item.nodeid}: there is no parameter {name!r} to sample")
        if params[name] not in (wanted if isinstance(wanted, set) else {wanted}):
            return False
    return True
