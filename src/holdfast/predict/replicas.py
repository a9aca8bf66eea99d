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

import numpy as np
from numpy.typing import NDArray

from holdfast.predict.segments import SegmentPlan
from holdfast.predict.statistics import Measure
from holdfast.predict.workload import Workload

FloatArray = NDArray[np.float64]

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


def follower_counts(shards: FloatArray, segments: Sequence[SegmentPlan]) -> list[int]:
    """Per segment, how many units run as followers: one for each shard."""
    return [int(shards[one.root]) if one.replicated else 0 for one in segments]


def follower_bytes(load: Workload, segments: Sequence[SegmentPlan]) -> float:
    """Memory that all followers take, their state included."""
    counts = follower_counts(load.shards, segments)
    held = sum(
        float(load.state.value[list(one.operators)].sum()) for one in segments if one.replicated
    )
    return sum(counts) * FOLLOWER_BYTES + held
