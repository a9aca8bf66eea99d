"""What the loss of a node costs: every failure drawn, its units brought back on the same cores.

A plan says which segments share a node. When one is lost, those segments come back together on a
spare, upstream first, and no more are built at once than there are cores; what runs elsewhere goes
on and keeps its share of the cores. Segments that were not lost but read one that was have their
results when it is back and they have made their own batch. A segment with hot followers need not
be brought back: they publish its slices a head start later.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.predict.draws import Drawn, Draws
from holdfast.predict.replicas import HEAD_START
from holdfast.predict.takeover import Back, Lost, bring_back

FloatArray = NDArray[np.float64]
P95 = 95.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Paced:
    """Segments as they run when nothing is wrong; arrays run over them, upstream first."""

    drawn: Drawn
    inputs: tuple[tuple[int, ...], ...]
    """Per segment, the segments it reads."""
    interval_s: FloatArray
    snapshots: FloatArray
    lag_s: FloatArray
    """From its input to its slice, as a rule."""
    behind_s: FloatArray
    """From the end of an interval to its slice, as a rule."""
    cpu: FloatArray
    """Cores that each keeps busy."""
    shards: FloatArray
    build_cores: FloatArray
    """Cores that one shard keeps busy while it is taken over."""
    batch_cores: FloatArray
    results: tuple[int, ...]
    """Segments whose output somebody reads."""
    one_interval: tuple[bool, ...]
    replicated: tuple[bool, ...]
    """Whether each has hot followers."""
    failover_s: float
    """95th percentile of how much later slices of those are when a replica is lost."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loss:
    """What one node's death costs, seconds; arrays run over its segments."""

    segments: tuple[int, ...]
    median: FloatArray
    p95: FloatArray
    restore: FloatArray
    """Medians of the phases from here on."""
    load: FloatArray
    replay: FloatArray
    catch_up: FloatArray
    results: tuple[float, float]
    """Median and 95th percentile of the time until no result is missing."""


def lose(
    segments: Sequence[int],
    paced: Paced,
    draws: Draws,
    *,
    cores: float,
    missing: float,
    busy: float,
    limits: Sequence[float] | None = None,
) -> Loss | None:
    """Lose the node that runs these segments; `missing` is the chance that no spare is left.

    With `limits`, one per segment of the plan, None as soon as so many failures take one of them
    longer that its 95th percentile does: few failures tell, those that begin last foremost.
    """
    at = sorted(segments)
    cold = [i for i in at if not paced.replicated[i]]
    ready = draws.detection + draws.session(missing)
    offset = draws.since * float(paced.interval_s.max())
    units = _units(cold, at, paced, draws)
    failures: list[list[Back]] = [[] for _ in range(draws.failures)]
    above = [0] * len(cold)
    for failure in np.argsort(-ready, kind="stable").tolist():
        found = failures[failure] = bring_back(
            units(failure),
            detected=float(ready[failure]),
            since=float(offset[failure]),
            cores=cores,
            busy=busy,
            at_once=max(1, round(cores)),
        )
        if limits is None:
            continue
        for k, (i, back) in enumerate(zip(cold, found, strict=True)):
            above[k] += back.seconds > limits[i]
        if max(above, default=0) > draws.passing:
            return None
    return _summed(at, cold, paced, failures)


def never(segments: Sequence[int]) -> Loss:
    """A machine that has too much to do as it is never makes up for anything."""
    endless = np.full(len(segments), np.inf)
    return Loss(
        segments=tuple(sorted(segments)),
        median=endless,
        p95=endless,
        restore=endless,
        load=endless,
        replay=endless,
        catch_up=endless,
        results=(math.inf, math.inf),
    )


def _units(
    cold: Sequence[int], at: Sequence[int], paced: Paced, draws: Draws
) -> Callable[[int], list[Lost]]:
    """The units that have to be brought back, by the failure that hits them."""
    place = {segment: position for position, segment in enumerate(cold)}
    hit = {i for i in at if paced.replicated[i]}
    behind = [
        float(lag) + (HEAD_START.value if i in hit else 0.0) for i, lag in enumerate(paced.behind_s)
    ]
    drawn = paced.drawn
    load = drawn.load(paced.interval_s, paced.snapshots, draws.logs)
    varied = {
        "build": drawn.build,
        "plan": drawn.plan,
        "usual": drawn.usual,
        "load": load,
        "fixed": drawn.fixed,
        "work": drawn.work,
    }
    tables = np.stack([table[list(cold)] for table in varied.values()], axis=-1)
    same: list[dict[str, Any]] = []
    for i in cold:
        outside = [behind[j] for j in paced.inputs[i] if j not in place]
        same.append(
            {
                "interval": float(paced.interval_s[i]),
                "build_cores": float(paced.shards[i] * paced.build_cores[i]),
                "batch_cores": float(paced.shards[i] * paced.batch_cores[i]),
                "inputs": tuple(place[j] for j in paced.inputs[i] if j in place),
                "outside": max(outside, default=0.0),
                "lag": float(paced.lag_s[i]),
                "behind": float(paced.behind_s[i]),
                "one_interval": paced.one_interval[i],
            }
        )

    def hit_by(failure: int) -> list[Lost]:
        rows = tables[:, failure].tolist()
        return [
            Lost(**known, **dict(zip(varied, row, strict=True)))
            for known, row in zip(same, rows, strict=True)
        ]

    return hit_by


def _summed(
    at: Sequence[int], cold: Sequence[int], paced: Paced, failures: Sequence[Sequence[Back]]
) -> Loss:
    def table(name: str) -> FloatArray:
        return np.array([[getattr(back, name) for back in one] for one in failures]).reshape(
            len(failures), len(cold)
        )

    place = [at.index(i) for i in cold]
    median, late = HEAD_START.value, paced.failover_s

    def whole(found: FloatArray, hot: float) -> FloatArray:
        out = np.full(len(at), hot)
        out[place] = found
        return out

    seconds, first = table("seconds"), table("first")
    with np.errstate(invalid="ignore"):
        load = np.minimum(first, _shown(cold, paced))
        complete = np.full((len(failures), len(at)), median)
        complete[:, place] = table("complete")
        back = _complete(at, paced, complete)
        return Loss(
            segments=tuple(at),
            median=whole(percentile(seconds, 50.0), median),
            p95=whole(percentile(seconds, P95), late),
            restore=whole(percentile(table("restore"), 50.0), 0.0),
            load=whole(percentile(load, 50.0), 0.0),
            replay=whole(percentile(first - load, 50.0), 0.0),
            catch_up=whole(percentile(table("catch_up"), 50.0), median),
            results=(
                float(percentile(back[:, None], 50.0)[0]),
                float(percentile(back[:, None], P95)[0]),
            ),
        )


def _shown(at: Sequence[int], paced: Paced) -> FloatArray:
    """What first batches take longer than others, (failures, segments)."""
    drawn, here = paced.drawn, list(at)
    return np.asarray((drawn.plan + drawn.opening + drawn.loading)[here].T)


def _complete(at: Sequence[int], paced: Paced, lost: FloatArray) -> FloatArray:
    """Per failure, until no result is missing: also of those that only read what was lost."""
    when = np.zeros((len(lost), len(paced.inputs)))
    here = {segment: position for position, segment in enumerate(at)}
    for i, read in enumerate(paced.inputs):
        if i in here:
            when[:, i] = lost[:, here[i]]
            continue
        late = when[:, list(read)].max(axis=1) if read else np.zeros(len(lost))
        when[:, i] = np.where(late > 0, late + paced.lag_s[i], 0.0)
    wanted = [i for i in paced.results if when[:, i].any()] or list(at)
    return np.asarray(when[:, wanted].max(axis=1))


def percentile(table: FloatArray, share: float) -> FloatArray:
    """Over failures; infinite if it lies among those that never end."""
    ordered = np.sort(table, axis=0)
    at = (len(table) - 1) * share / 100.0
    low, high = ordered[math.floor(at)], ordered[math.ceil(at)]
    part = at - math.floor(at)
    with np.errstate(invalid="ignore"):  # between two that never end, which is said below
        between = low + (high - low) * part
    return np.where(np.isfinite(high), between, np.inf)
