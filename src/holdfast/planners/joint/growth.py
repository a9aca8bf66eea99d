"""How many shards an operator may come to need, and so how many partitions its state is kept in.

Problem: a run is to be able to grow to g times its load without laying out state anew. Given each
operator's rate, cost per row and skew, and the batch interval that a plan gives it, find the fewest
partitions that hold enough shards. Reading: a shard is busy for

    fixed / T + g * rate * cost * skew / shards

of its time, where `fixed` is what a batch takes however few its rows. As many shards are needed as
keep that at `TARGET`, which is also where the autoscaler aims; partitions are a power of two that
divides the key groups. They are not free: each is a store to open in every batch, so there are none
beyond need, and what they cost goes into the plan's own numbers (`with_stores`). O(operators).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from holdfast.plan import JointPlan
from holdfast.predict.statistics import Measure, OperatorStatistics, Statistics
from holdfast.predict.workload import Workload
from holdfast.quantities import SIZE_UNITS, TIME_UNITS
from holdfast.topology.graph import Topology

TARGET = 0.7
"""Share of its time that the busiest shard may be at work."""
MOST = 128
"""Key groups: nothing can be divided further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What is chosen for every operator."""

    max_shards: Mapping[str, int]
    why: Mapping[str, str]

    @property
    def divided(self) -> dict[str, int]:
        """Operators whose state is kept in several partitions."""
        return {name: number for name, number in self.max_shards.items() if number > 1}


def choose_shards(
    topology: Topology,
    statistics: Statistics,
    plan: JointPlan,
    growth: float,
    fixed: Mapping[str, tuple[int, str]],
) -> Growth:
    """The partitions of every operator under a plan.

    Args:
        topology: what is planned.
        statistics: of it.
        plan: says the batch intervals.
        growth: how many times the load it is to hold.
        fixed: operators of which nothing is chosen: what they have, and why.
    """
    time_s, size = TIME_UNITS[topology.unit.time], SIZE_UNITS[topology.unit.size.lower()]
    load = Workload.of(topology, statistics, time_s, size)
    interval = {name: s.batch_interval * time_s for s in plan.segments for name in s.operators}
    chosen: dict[str, tuple[int, str]] = {}
    for place, operator in enumerate(topology.operators):
        name = operator.name
        if name in fixed:
            chosen[name] = fixed[name]
            continue
        stateful = load.state.value[place] > 0
        idle = fixed_s(statistics, name, stateful=stateful) / interval[name]
        busy = growth * float(load.busy.value[place] * load.skew[place])
        chosen[name] = _shards(busy, idle, operator.parallelism, growth)
    return Growth(
        max_shards={name: number for name, (number, _) in chosen.items()},
        why={name: why for name, (_, why) in chosen.items()},
    )


def _shards(busy: float, idle: float, now: int, growth: float) -> tuple[int, str]:
    """Partitions for so much work, in cores, with a share of the time that no shard can use."""
    load = f"{growth:g} times its rows keep {busy:.2g} cores busy"
    if busy == 0:
        return 1, "nothing is known of what its rows cost: holdfast profile"
    if idle >= TARGET:
        return 1, f"a batch of no rows takes {idle:.0%} of its interval, and shards change nothing"
    needed = math.ceil(busy / (TARGET - idle) - 1e-9)
    if needed <= now:
        return 1, f"{load}, which {now} shard{'s' * (now > 1)} can do"
    number = min(MOST, 1 << (needed - 1).bit_length())
    short = f", of which it can have {MOST}" if needed > MOST else ""
    return number, f"{load}, which takes {needed} shards{short}"


def fixed_s(statistics: Statistics, operator: str, *, stateful: bool) -> float:
    """Seconds that a batch of an operator takes however few rows it has."""
    known = statistics.operators.get(operator, OperatorStatistics()).batch_fixed
    machine = statistics.machine
    own = machine.state_write.fixed.value if stateful else 0.0
    return machine.batch_floor.value + (own if known is None else known.value)


def with_stores(topology: Topology, statistics: Statistics, growth: Growth) -> Statistics:
    """The statistics once state is kept in several partitions: each is one more store in a batch.

    What one costs was measured: it is what keeping state adds to a batch of no rows.
    """
    operators = dict(statistics.operators)
    store = statistics.machine.state_write.fixed
    for operator in topology.operators:
        more = growth.max_shards.get(operator.name, 1) / operator.parallelism - 1
        known = operators.get(operator.name, OperatorStatistics())
        if more <= 0 or known.state_size is None or known.state_size.value <= 0:
            continue
        fixed, stores = known.batch_fixed or store, known.stores
        operators[operator.name] = replace(
            known,
            batch_fixed=_plus(fixed, more * store.value),
            stores=Measure(
                value=(1.0 if stores is None else stores.value) * (1 + more), how="max_shards"
            ),
        )
    return replace(statistics, operators=operators)


def _plus(known: Measure, more: float) -> Measure:
    p95 = None if known.p95 is None else known.p95 + more
    return replace(known, value=known.value + more, p95=p95)
