"""What a lost machine costs under a checkpoint configuration: two measures beside the expectation.

A machine runs instances of several operators; when it is lost they all fail at once. In every
segment the failed operators recover together: whatever lies upstream of any of them loads its
state and replays once, from the oldest checkpoint needed. The **computational recovery time** is
the sum over segments, the **recovery latency** their maximum, because segments recover side by
side. Both are averages over simulated losses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.planners.fastrecover.checkpointing import (
    BoolArray,
    Configuration,
    FloatArray,
    IntArray,
    ancestors_mask,
    bits,
)

MULTIPLICITY = 5
"""Operators that fail with one machine, as in the thesis' experiments."""
SAMPLES = 1000
DENSE_SIZE = 400
"""Up to this many operators, ancestor sets are one matrix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureMeasures:
    """Averages over simulated machine losses, in the file's time unit."""

    computational_recovery_time: float
    recovery_latency: float


def machine_failures(
    configuration: Configuration,
    rng: np.random.Generator,
    *,
    multiplicity: int = MULTIPLICITY,
    samples: int = SAMPLES,
) -> FailureMeasures:
    """Lose `samples` machines, each with `multiplicity` operators drawn by failure rate."""
    failed = draw_failures(
        configuration.partition.model.failure, rng, multiplicity=multiplicity, samples=samples
    )
    if not failed.size:
        return FailureMeasures(computational_recovery_time=0.0, recovery_latency=0.0)
    if configuration.partition.model.size <= DENSE_SIZE:
        total, longest = _dense(configuration, failed)
    else:
        total, longest = _sparse(configuration, failed)
    return FailureMeasures(
        computational_recovery_time=float(total.mean()), recovery_latency=float(longest.mean())
    )


def draw_failures(
    failure: FloatArray, rng: np.random.Generator, *, multiplicity: int, samples: int
) -> IntArray:
    """Rows of distinct operators, each drawn in proportion to its failure rate."""
    can = np.flatnonzero(failure > 0)
    many = min(multiplicity, len(can))
    if not many:
        return np.empty((0, 0), np.int64)
    weight = np.cumsum(failure[can])
    if len(can) <= 2000:
        # Exponential clocks: the first to ring are a draw without replacement.
        ring = rng.exponential(size=(samples, len(can))) / failure[can]
        return can[np.argpartition(ring, many - 1, axis=1)[:, :many]]
    rows = np.empty((samples, many), np.int64)
    for k in range(samples):
        chosen: dict[int, None] = {}
        while len(chosen) < many:
            at = int(np.searchsorted(weight, rng.random() * weight[-1], side="right"))
            chosen[min(at, len(can) - 1)] = None
        rows[k] = can[list(chosen)]
    return rows


def _own(configuration: Configuration) -> tuple[FloatArray, FloatArray]:
    parts = configuration.partition
    model = parts.model
    load = model.state + np.where(parts.anchors, model.access, 0.0)
    rework = model.replay + np.where(parts.anchors, model.save, 0.0)
    return load, rework


def _dense(configuration: Configuration, failed: IntArray) -> tuple[FloatArray, FloatArray]:
    parts = configuration.partition
    load, rework = _own(configuration)
    involved = _closure(configuration)[failed].any(axis=1)
    rows, many = failed.shape
    oldest = np.full((rows, parts.size), np.inf)
    at = np.repeat(np.arange(rows), many), parts.label[failed].ravel()
    np.minimum.at(oldest, at, configuration.frequency[failed].ravel())
    member = np.zeros((parts.model.size, parts.size))
    member[np.arange(parts.model.size), parts.label] = 1.0
    loads, reworks = (involved * load) @ member, (involved * rework) @ member
    with np.errstate(divide="ignore", invalid="ignore"):
        time = loads + np.where(reworks > 0, reworks / oldest, 0.0)
    return time.sum(axis=1), time.max(axis=1)


def _closure(configuration: Configuration) -> BoolArray:
    """Row i: i and its ancestors in its segment."""
    parts = configuration.partition
    closure = np.eye(parts.model.size, dtype=bool)
    for i in parts.model.topology.order:
        if not parts.anchors[i]:
            for j in parts.model.upstream[i]:
                closure[i] |= closure[j]
    return closure


def _sparse(configuration: Configuration, failed: IntArray) -> tuple[FloatArray, FloatArray]:
    parts = configuration.partition
    load, rework = _own(configuration)
    masks: dict[int, int] = {}
    total, longest = np.zeros(len(failed)), np.zeros(len(failed))
    for k, row in enumerate(failed.tolist()):
        groups: dict[int, list[int]] = {}
        for i in row:
            groups.setdefault(int(parts.label[i]), []).append(i)
        for members in groups.values():
            mask = 0
            for i in members:
                if i not in masks:
                    masks[i] = ancestors_mask(parts.model, parts.anchors, i)
                mask |= masks[i]
            inside = bits(mask)
            oldest = float(configuration.frequency[members].min())
            again = float(rework[inside].sum())
            time = float(load[inside].sum()) + (again / oldest if again else 0.0)
            total[k] += time
            longest[k] = max(longest[k], time)
    return total, longest
