"""A topology whose numbers are the measured ones, so that FTC and FastRecover plan in real seconds.

FTC asks for one number per task, T(v), and adds them up along what has to be reprocessed;
FastRecover for costs of tuples, state and storage. The recovery model has them all:

- **T(v)**: loading v's state and replaying a whole batch interval of its input (half of one for an
  expectation), divided by the capacity that is left while new input keeps coming, 1 - W. W is the
  work of the whole pipeline in one process, so adding T(v) up never promises too little time.
- **restart**: detecting, restoring and the fixed part of a batch, paid once per recovery however
  much is reprocessed, and divided by the same.

Bounds rest on 95th percentiles, expectations on medians and means.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.errors import BadInputError
from holdfast.predict.demand import FIRST, FIXED, LOAD, WORK
from holdfast.predict.recovery import RecoveryModel
from holdfast.predict.segments import segments_of
from holdfast.predict.statistics import Affine, Statistics
from holdfast.topology.graph import Operator, Storage, Topology, UnitsOfMeasure


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A topology in seconds and bytes, and what every recovery takes before it."""

    topology: Topology
    restart_s: float


def measured(
    topology: Topology,
    statistics: Statistics,
    *,
    interval_s: float | None = None,
    expected: bool = False,
    spares: int = 1,
) -> Measured:
    """The topology as measured; `interval_s` is the batch interval, an epoch unless given."""
    model = RecoveryModel(topology, statistics)
    machine, load = model.machine, model.load
    interval = statistics.epoch_s if interval_s is None else interval_s
    high = 0 if expected else 1  # each quantity is followed by its 95th percentile
    work = model.demands.member[:, WORK + high]
    left = 1.0 - float(work.sum())
    if left <= 0:
        raise BadInputError(
            f"the pipeline computes {work.sum():.2f} s per second of input on one core and never "
            "catches up",
            where="--stats",
            hint="give its keyed operators more shards, or plan with --method joint",
        )
    crowd = _crowd(model)
    replay = work * interval * (0.5 if expected else 1.0)
    opening = crowd * model.demands.member[:, FIRST + high]
    times = (opening + model.demands.member[:, LOAD + high] + replay) / left
    operators = tuple(
        replace(
            operator,
            selectivity=_share(load.emitted.value[i], load.received.value[i]),
            cost=_share(load.busy.value[i], load.received.value[i]),
            tuple_size=float(load.tuple_size.value[i]),
            state_size=float(load.state.value[i]),
            failure_rate=_per_second(operator, model.time_s),
            reprocess_time=float(times[i]),
            checkpoint_interval=None,
            min_interval=max(operator.min_interval * model.time_s, machine.batch_floor.value),
            max_recovery=None
            if operator.max_recovery is None
            else operator.max_recovery * model.time_s,
        )
        for i, operator in enumerate(topology.operators)
    )
    restore = model.restore(spares)
    fixed = float(model.demands.closing[:, FIXED + high].max())
    ahead = (
        machine.detection.value + crowd * restore.value
        if expected
        else machine.detection.high + crowd * restore.high
    )
    return Measured(
        topology=replace(
            topology,
            operators=operators,
            rates={
                operator.name: float(load.received.value[i])
                for i, operator in enumerate(topology.operators)
                if not topology.upstream[i]
            },
            task_rates={},
            unit=UnitsOfMeasure(time="s", size="B"),
            storage=_storage(machine.slice_write, machine.slice_read, machine.state_write),
        ),
        restart_s=(ahead + fixed) / left,
    )


def _crowd(model: RecoveryModel) -> float:
    """How much longer restores take because others go on at once on the same cores.

    These methods know nothing of nodes: everything is lost at once, and so are the queries that no
    plan can avoid.
    """
    parts = segments_of(model.topology, set(model.forced))
    found = sum(
        model.load.shards[part[-1]] for part in parts if not model.demands.threads[part[-1]]
    )
    queries = float(found) + len(model.topology.effective_queries)
    return max(1.0, queries * model.machine.takeover_cpu.value / model.machine.cores)


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else 0.0


def _per_second(operator: Operator, time_s: float) -> float | tuple[float, ...]:
    rate = operator.failure_rate
    return tuple(x / time_s for x in rate) if isinstance(rate, tuple) else rate / time_s


def _storage(write: Affine, read: Affine, state: Affine) -> Storage:
    """One cost for writing and reading, as FastRecover has it: the dearer of the two."""
    return Storage(
        tuple_cost=max(write.per_byte.value, read.per_byte.value),
        tuple_fixed=max(write.fixed.value, read.fixed.value),
        state_cost=state.per_byte.value,
        state_fixed=state.fixed.value,
    )
