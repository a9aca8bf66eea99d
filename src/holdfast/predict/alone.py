"""Recoveries of many segments at once, each as if it alone were lost and its input came in time.

The same course as `takeover.bring_back` has for one unit on an idle machine: built, first batch,
the batch that was lost, then all that came due meanwhile until it is no longer behind. Without
others there is nothing to share and nobody to wait for, so it is a recursion over batches and runs
over arrays of segments and failures. Planners use it where `takeover` would be asked thousands of
times. What it says is no bound, for whoever waits for others catches up meanwhile; but segments
that keep their bounds alone mostly keep them together.

O(segments * failures) a batch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.predict.draws import Drawn, Draws
from holdfast.predict.takeover import MAX_BATCHES, TOLERANCE, TOLERANCE_S

FloatArray = NDArray[np.float64]
_ROUNDING = 1e-9


def alone(
    drawn: Drawn,
    draws: Draws,
    *,
    ready: FloatArray,
    interval_s: float,
    snapshots: int,
    longest_s: float,
    stretch: float,
    one_interval: NDArray[np.bool_],
) -> FloatArray:
    """(segments, failures): seconds until nothing is missing, waiting not counted.

    Args:
        drawn: what each segment takes.
        draws: the failures.
        ready: when building may begin, per failure.
        interval_s: batch interval of all segments.
        snapshots: batches per snapshot of all segments.
        longest_s: the longest interval of the plan; it says when failures strike.
        stretch: how much longer batches take as a rule than on an idle machine.
        one_interval: per segment, whether a batch never spans several intervals.
    """
    shape = drawn.build.shape
    same = np.ones(shape[0])
    usual_lag = stretch * np.median(drawn.fixed + drawn.work * interval_s, axis=1)
    lag = np.broadcast_to(usual_lag[:, None], shape)
    late = lag + np.maximum(TOLERANCE_S, TOLERANCE * lag)
    ago = np.broadcast_to(np.fmod(draws.since * longest_s, interval_s), shape)
    redo = ago < lag
    runs = ready + drawn.build
    upto = -ago - np.where(redo, interval_s, 0.0)
    waited = np.maximum(0.0, upto + interval_s - runs)
    load = drawn.load(same * interval_s, same * snapshots, draws.logs)
    single = np.broadcast_to(one_interval[:, None], shape)
    now = runs + drawn.plan
    ended = np.full(shape, np.inf)
    last_late = np.zeros(shape)
    going = np.ones(shape, bool)
    for batch in range(MAX_BATCHES):
        first = upto + interval_s
        now = np.maximum(now + drawn.usual, first)
        more = np.floor(np.maximum(0.0, now - first) / interval_s + _ROUNDING) * interval_s
        end = first + np.where(single | (redo if batch == 0 else False), 0.0, more)
        now = now + (load if batch == 0 else 0.0) + drawn.fixed + drawn.work * (end - upto)
        if batch == 0:
            last_late = now.copy()
        last_late = np.where(now - first > late, now, last_late)
        done = going & (now - end <= interval_s + lag)
        ended = np.where(done, last_late, ended)
        going &= ~done
        if not going.any():
            break
        upto = end
    return np.asarray(ended - waited)
