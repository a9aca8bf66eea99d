"""From watched takeovers to what each operator adds to one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.predict.statistics import (
    REFERENCE_MACHINE,
    Measure,
    OperatorStatistics,
    Statistics,
)
from holdfast.profile.taken import Takeover, with_takeovers

pytestmark = pytest.mark.unit

MACHINE = replace(
    REFERENCE_MACHINE,
    restore_warm=Measure(value=1.0, p95=1.5),
    first_batch=Measure(value=0.6),
    takeover_cpu=Measure(value=0.5),
    batch_floor=Measure(value=0.1),
)
KNOWN = OperatorStatistics(
    input_rate=Measure(value=100.0), cost=Measure(value=1e-3), batch_fixed=Measure(value=0.05)
)
SEEN = Takeover(
    operator="join", build_s=1.4, build_cpu_s=1.1, first_s=2.0, first_cpu_s=1.5, input_s=3.0
)


def taken(one: Takeover) -> OperatorStatistics:
    found = with_takeovers(Statistics(machine=MACHINE, operators={"join": KNOWN}), [one])
    return found.operators["join"]


def test_what_any_query_takes_is_left_out() -> None:
    """By hand: 0.4 s of building, and 0.6 s, a usual batch and its rows of the first slice."""
    found = taken(SEEN)
    assert found.build is not None
    assert found.build.value == pytest.approx(1.4 - 0.4)
    assert found.build.high == pytest.approx(1.0 * 1.5)
    usual = 0.1 + MACHINE.slice_write.fixed.value + MACHINE.slice_read.fixed.value + 0.05
    assert found.first_fixed is not None
    assert found.first_fixed.value == pytest.approx(2.0 - 0.6 - usual - 100 * 3.0 * 1e-3)
    assert found.takeover_cpu is not None
    assert found.takeover_cpu.value == pytest.approx(2.6 / 3.4)


def test_a_disturbed_takeover_counts_by_its_cpu_time() -> None:
    """Ten seconds on the wall with 1.1 s of CPU time are those of the neighbours."""
    found = taken(replace(SEEN, build_s=10.0, first_s=10.0))
    assert found.build is not None
    assert found.build.value == pytest.approx(1.1 / 0.5 - 0.4)
    assert "busy" in found.build.how
    assert found.takeover_cpu is not None
    assert found.takeover_cpu.value == 0.5


def test_an_operator_nobody_knows_is_left_out() -> None:
    """A pipeline that has changed since is not profiled by halves."""
    other = replace(SEEN, operator="gone")
    found = Statistics(machine=MACHINE, operators={"join": KNOWN})
    assert with_takeovers(found, [other]) == found
