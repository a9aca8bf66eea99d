"""Recoveries of segments that are lost alone: many at once, and the same as one by one."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.predict.alone import alone
from holdfast.predict.takeover import Lost, bring_back
from holdfast.testing.joint import brute_force_case

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("interval_s", [1.0, 4.0])
def test_alone_is_a_takeover_of_one_unit(seed, interval_s):
    """The recursion over arrays and the processes that share cores say the same of one unit."""
    problem = brute_force_case(seed).problem
    model = problem.model
    parts = [(i,) for i in range(problem.size)]
    floors = model.floors(parts, 1)
    found = alone(
        floors.drawn,
        floors.draws,
        ready=floors.ready,
        interval_s=interval_s,
        snapshots=10,
        longest_s=4.0,
        stretch=1.0,
        one_interval=floors.one_interval,
    )
    drawn = floors.drawn
    same = np.ones(len(parts))
    load = drawn.load(same * interval_s, same * 10, floors.draws.logs)
    for i in range(len(parts)):
        lag = float(np.median(drawn.fixed[i] + drawn.work[i] * interval_s))
        for failure in range(floors.draws.failures):
            unit = Lost(
                interval=interval_s,
                build=float(drawn.build[i, failure]),
                plan=float(drawn.plan[i, failure]),
                usual=float(drawn.usual[i, failure]),
                load=float(load[i, failure]),
                fixed=float(drawn.fixed[i, failure]),
                work=float(drawn.work[i, failure]),
                build_cores=1.0,
                batch_cores=1.0,
                lag=lag,
                behind=lag,
                one_interval=bool(floors.one_interval[i]),
            )
            (back,) = bring_back(
                [unit],
                detected=float(floors.ready[failure]),
                since=float(floors.draws.since[failure]) * 4.0,
                cores=4.0,
            )
            assert found[i, failure] == pytest.approx(back.seconds, abs=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_what_most_failures_take_is_below_every_floor(seed):
    """The additive bound of a part is no more than what a segment of it alone takes at the p95."""
    problem = brute_force_case(seed).problem
    model = problem.model
    for spares in (0, 1):
        missing = model.missing(spares)
        parts = [(i,) for i in range(problem.size)]
        floors = model.floors(parts, spares)
        for hardest in model.draws.subsets(missing):
            least = model.draws.least(missing, hardest)
            for level in problem.levels.tolist():
                p95 = floors.p95(level, 1)
                start = np.where(floors.drawn.query > 0, least.start, least.thread)
                low = least.ready + start + least.once + least.work * level
                assert (low <= p95 + 1e-9).all()
