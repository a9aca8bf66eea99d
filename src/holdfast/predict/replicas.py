"""What a hot replica promises, and what it takes.

A follower has computed its leader's next slice by the time it is due, and publishes it if it is not
there a head start later. So the loss of either delays a slice by the head start, and nothing has to
be detected, restored or replayed. A follower does all of its leader's work, only that it writes no
slice files; it is counted as the whole of it.

The promise holds for the loss of one of the two. They live in different failure domains; when both
are lost, recovery is that of any other segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from holdfast.predict.recovery import FloatArray, Prediction, RecoveryModel
from holdfast.predict.segments import SegmentPlan
from holdfast.predict.statistics import Measure

HEAD_START = Measure(value=0.1, p95=0.2, how="assumed: the shortest head start, and twice that")
"""By how much later than its leader's a follower's slice appears, seconds, on an idle machine."""
FOLLOWER_CPU = 1.0
"""CPU of a follower relative to its leader's."""
FOLLOWER_BYTES = 0.25e9
"""Memory of a follower's query beside its state: its share of a node that runs a few of them."""


def failover_p95(stretch: FloatArray | float) -> FloatArray:
    """95th percentile of how much later a slice appears when a replica is lost, seconds.

    What varies is computing, which takes longer under load.
    """
    return np.asarray(HEAD_START.value + stretch * (HEAD_START.high - HEAD_START.value))


def follower_counts(model: RecoveryModel, segments: Sequence[SegmentPlan]) -> list[int]:
    """Per segment, how many units run as followers: one for each shard."""
    return [int(model.load.shards[one.root]) if one.replicated else 0 for one in segments]


def follower_cpu(
    model: RecoveryModel, segments: Sequence[SegmentPlan], interval_s: FloatArray
) -> float:
    """Cores that all followers take."""
    return FOLLOWER_CPU * sum(
        float(
            model.cpu(
                model.demands.of(one.operators),
                interval_s[i],
                np.asarray(float(one.snapshot_batches)),
            )
        )
        for i, one in enumerate(segments)
        if one.replicated
    )


def follower_bytes(model: RecoveryModel, segments: Sequence[SegmentPlan]) -> float:
    """Memory that all followers take, their state included."""
    state = model.load.state.value
    counts = follower_counts(model, segments)
    held = sum(float(state[list(one.operators)].sum()) for one in segments if one.replicated)
    return sum(counts) * FOLLOWER_BYTES + held


def predict_replicated(
    model: RecoveryModel,
    segments: Sequence[SegmentPlan],
    spares: int,
    *,
    uncut_cpu: float,
    at_cpu: float | None = None,
) -> Prediction:
    """`RecoveryModel.predict` for segments of which some are replicated."""
    found = model.predict(segments, spares, uncut_cpu=uncut_cpu, at_cpu=at_cpu)
    if not any(one.replicated for one in segments):
        return found
    cpu = found.cpu + follower_cpu(model, segments, found.interval_s)
    if at_cpu is None:
        found = model.predict(segments, spares, uncut_cpu=uncut_cpu, at_cpu=cpu)
    stretch = model.stretch(cpu if at_cpu is None else at_cpu)
    hot = np.array([one.replicated for one in segments])
    phases = found.phases
    return replace(
        found,
        cpu=cpu,
        overhead=(cpu - uncut_cpu) / uncut_cpu if uncut_cpu > 0 else 0.0,
        phases=replace(
            phases,
            detection=np.where(hot, 0.0, phases.detection),
            restore=np.where(hot, 0.0, phases.restore),
            load=np.where(hot, 0.0, phases.load),
            replay=np.where(hot, 0.0, phases.replay),
            catch_up=np.where(hot, HEAD_START.value, phases.catch_up),
            p95=np.where(hot, failover_p95(stretch), phases.p95),
        ),
    )
