"""Random topologies by the rules of the PPA paper (section 7.3, figures 16 and 17).

As there, a topology grows upstream from its sink. What the paper varies is an option here: number
of operators (5-10), parallelism, structured or full partitionings, share of joins (0 or 0.5),
uniform or Zipf task loads (s = 0.1), and for several queries (2-10 with 10-20 operators) how
priorities follow what a query costs. What it leaves open is read so:

- The share of joins is of the operators that have inputs. A join has two; another operator has one
  or, one time in three, two (a union).
- Structured means one-to-one, split or merge as the two task counts allow; into a single task every
  link is full.
- Task loads come from shares: source tasks and the consumers of full and split edges take parts
  proportional to 1/k^s, ranks shuffled per operator. Merge and one-to-one edges pass loads on.
- With several queries, an input is sometimes an operator that another query feeds on already.
- What a query costs is the number of tasks it depends on.

Every edge leads from a later made operator to an earlier made one: no cycles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

from holdfast.errors import BadInputError
from holdfast.testing.generators.common import (
    COST,
    FAILURE_RATE,
    STATE_SIZE,
    ParallelismOption,
    Range,
    RateOption,
    SeedOption,
    WeightsOption,
    at_least,
    bounds,
    draw,
    fraction,
    generator_of,
    structured,
    weight,
)
from holdfast.topology.graph import Edge, Operator, Query, Topology
from holdfast.topology.links import Partitioning, reach

Priorities = Literal["equal", "uniform", "positive", "inverse"]
Shares = tuple[float, ...] | tuple[tuple[float, ...], ...]

_UNION = 1 / 3
_SHARED = 0.3


def ppa_random(
    operators: Annotated[Range, "operators, N or MIN-MAX"] = (5, 10),
    *,
    parallelism: ParallelismOption = (1, 10),
    full: Annotated[float, "share of full partitionings; the rest are structured"] = 0.5,
    joins: Annotated[float, "share of joins among operators with inputs"] = 0.0,
    skew: Annotated[float, "Zipf exponent of task loads; 0: uniform"] = 0.0,
    queries: Annotated[Range, "queries, N or MIN-MAX; at most half the operators"] = 1,
    priorities: Annotated[Priorities, "priorities of queries against their size"] = "equal",
    weights: WeightsOption = "uniform",
    rate: RateOption = 1000.0,
    seed: SeedOption = 0,
) -> Topology:
    """A random topology of the PPA paper, grown upstream from its sinks."""
    fraction("full", full)
    fraction("joins", joins)
    at_least("skew", skew, 0)
    at_least("rate", rate, 0)
    rng = generator_of(seed)
    size = draw(rng, "operators", operators, smallest=2)
    sinks = _sink_count(rng, size, queries)
    producers, joined = _grow(rng, size, sinks, joins)
    # Made from the sinks up, named from the sources down.
    names = [f"op{size - i}" for i in range(size)]
    counts = [draw(rng, "parallelism", parallelism) for _ in range(size)]
    loads = [_loads(rng, count, skew) for count in counts]
    edges = _edges(rng, names, counts, loads, producers, full=full, skew=skew)
    sources = [i for i in range(size) if not producers[i]]
    made = [
        Operator(
            name=names[i],
            parallelism=counts[i],
            input="correlated" if joined[i] else "independent",
            cost=COST,
            state_size=STATE_SIZE,
            failure_rate=FAILURE_RATE,
            reprocess_time=weight(rng, weights, counts[i]),
        )
        for i in range(size)
    ]
    return Topology(
        name=f"ppa-{size}",
        operators=tuple(reversed(made)),
        edges=tuple(reversed(edges)),
        rates={names[i]: rate for i in reversed(sources)},
        task_rates={
            names[i]: tuple(rate * part for part in loads[i]) for i in reversed(sources) if skew
        },
        queries=_queries(rng, names, counts, producers, sinks=sinks, priorities=priorities),
    )


def _sink_count(rng: np.random.Generator, size: int, queries: Range) -> int:
    low, high = bounds("queries", queries)
    if low > size // 2:
        raise BadInputError(
            f"{low} queries need at least {2 * low} operators, and there are {size}",
            where="queries",
            hint="ask for more operators or fewer queries",
        )
    return draw(rng, "queries", (low, min(high, size // 2)))


def _grow(
    rng: np.random.Generator, size: int, sinks: int, joins: float
) -> tuple[list[list[int]], list[bool]]:
    """Producers of each operator, and which are joins; sinks come first and are fed first."""
    producers: list[list[int]] = [[] for _ in range(size)]
    joined = [False] * size
    made = sinks
    waiting = list(range(sinks))
    # Error diffusion from a random phase keeps the share of joins within one operator.
    phase = float(rng.random())
    for fed in range(size):
        # Sinks not yet fed keep one operator each in reserve.
        unfed = max(sinks - fed - 1, 0)
        if made + unfed >= size and fed >= sinks:
            break
        at = waiting.pop(0 if fed < sinks else int(rng.integers(len(waiting))))
        want_join = math.floor(phase + joins * (fed + 1)) > math.floor(phase + joins * fed)
        wanted = 2 if want_join or rng.random() < _UNION else 1
        for slot in range(wanted):
            others = [i for i in range(max(at + 1, sinks), made) if i not in producers[at]]
            room = made + unfed < size
            shared = sinks > 1 and rng.random() < _SHARED
            if others and (not room or (shared and slot > 0)):
                producers[at].append(others[int(rng.integers(len(others)))])
            elif room:
                producers[at].append(made)
                waiting.append(made)
                made += 1
        joined[at] = want_join and len(producers[at]) == 2
    return producers, joined


def _loads(rng: np.random.Generator, count: int, skew: float) -> tuple[float, ...]:
    if skew == 0:
        return (1.0 / count,) * count
    parts = np.arange(1, count + 1, dtype=float) ** -skew
    return tuple(rng.permutation(parts / parts.sum()).tolist())


def _edges(
    rng: np.random.Generator,
    names: Sequence[str],
    counts: Sequence[int],
    loads: Sequence[tuple[float, ...]],
    producers: Sequence[Sequence[int]],
    *,
    full: float,
    skew: float,
) -> list[Edge]:
    pairs = [(u, v) for v in range(len(names)) for u in producers[v]]
    is_full = np.zeros(len(pairs), bool)
    is_full[: round(full * len(pairs))] = True
    rng.shuffle(is_full)
    edges = []
    for (u, v), wide in zip(pairs, is_full.tolist(), strict=True):
        kind: Partitioning = "full" if wide else structured(counts[u], counts[v])
        shares = _shares(kind, counts[u], counts[v], loads[v]) if skew else None
        edges.append(Edge(source=names[u], target=names[v], partitioning=kind, shares=shares))
    return edges


def _shares(kind: Partitioning, a: int, b: int, load: tuple[float, ...]) -> Shares | None:
    if b == 1 or kind in {"one-to-one", "merge"}:
        return None
    if kind == "full":
        return load
    rows = []
    for fed in reach(kind, a, b):
        total = math.fsum(load[j] for j in fed)
        rows.append(tuple(load[j] / total for j in fed))
    return tuple(rows)


def _queries(
    rng: np.random.Generator,
    names: Sequence[str],
    counts: Sequence[int],
    producers: Sequence[Sequence[int]],
    *,
    sinks: int,
    priorities: Priorities,
) -> tuple[Query, ...]:
    sizes = [_tasks_behind(sink, counts, producers) for sink in range(sinks)]
    mean = sum(sizes) / sinks
    made = []
    for number, sink in enumerate(reversed(range(sinks))):
        match priorities:
            case "equal":
                priority = 1.0
            case "uniform":
                priority = 1.0 - float(rng.random())
            case "positive":
                priority = sizes[sink] / mean
            case "inverse":
                priority = mean / sizes[sink]
        made.append(Query(name=f"q{number + 1}", sink=names[sink], priority=priority))
    return tuple(made)


def _tasks_behind(sink: int, counts: Sequence[int], producers: Sequence[Sequence[int]]) -> int:
    seen = {sink}
    walk = [sink]
    for at in walk:
        for u in producers[at]:
            if u not in seen:
                seen.add(u)
                walk.append(u)
    return sum(counts[i] for i in seen)
