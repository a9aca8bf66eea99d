"""Minimal complete trees: the smallest sets of tasks that carry something from source to sink.

A task of an independent-input operator needs one producer, a task of a join one per input stream
(Definition 1). OF is the sum of one weight per tree over the trees whose tasks are all alive. There
are far too many to list in general (a chain of Full links has the product of its parallelisms), so
they can be counted without listing; the list has a limit.

Counting counts ways to choose producers. Where branches that come from one operator meet again in
a join, several ways may use the same tasks; the list has each set of tasks once, with the sum of
their weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.errors import BadInputError
from holdfast.planners.ppa.fidelity import FidelityModel
from holdfast.planners.ppa.wiring import Wiring, wiring

LIMIT = 20_000
"""Trees listed at most."""


class TooManyTreesError(BadInputError):
    """A topology has more trees than may be listed."""

    def __init__(self, count: int, limit: int) -> None:
        self.count = count
        super().__init__(
            f"the topology has {_spell(count)} MC-trees, more than the {limit} that may be listed",
            where="--algorithm",
            hint="write --algorithm exact or sa, which need no list",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class McTree:
    """Tasks that together, and only together, contribute `weight` to OF."""

    tasks: tuple[int, ...]
    weight: float
    """Fidelity the tree carries, all queries together."""


def count_trees(model: FidelityModel) -> Mapping[str, int]:
    """Number of MC-trees per query, by products and sums; exact whole numbers of any size."""
    wires = wiring(model)
    ways = _ways(wires, model.size)
    return {
        query.name: sum(
            ways[task]
            for k, task in enumerate(
                range(model.spans[query.operator].start, model.spans[query.operator].stop)
            )
            if query.parts[k] > 0
        )
        for query in model.queries
    }


def list_trees(model: FidelityModel, *, limit: int = LIMIT) -> list[McTree]:
    """All MC-trees of all queries, equal task sets united; refuses beyond the limit."""
    total = sum(count_trees(model).values())
    if total > limit:
        raise TooManyTreesError(total, limit)
    wires = wiring(model)
    terms: list[dict[int, float]] = [{} for _ in range(model.size)]
    found: dict[int, float] = {}
    for task in wires.order:
        terms[task] = {mask | 1 << task: w for mask, w in _arriving(wires, terms, task).items()}
        if wires.worth[task] > 0:
            for mask, weight in terms[task].items():
                found[mask] = found.get(mask, 0.0) + weight * float(wires.worth[task])
    return [McTree(tasks=_members(mask), weight=weight) for mask, weight in found.items()]


def _ways(wires: Wiring, size: int) -> list[int]:
    """Per task, in how many ways it can be fed."""
    ways = [0] * size
    slots: dict[int, int] = {}
    for task in wires.order:
        total = 1
        if wires.reads[task]:
            parts: list[int] = []
            for slot, factor in wires.reads[task]:
                if slot not in slots:
                    slots[slot] = sum(ways[a] for a in wires.writers[slot])
                parts.append(slots[slot] if factor > 0 else 0)
            if wires.is_join[task]:
                for part in parts:
                    total *= part
            else:
                total = sum(parts)
        ways[task] = total
    return ways


def _arriving(wires: Wiring, terms: list[dict[int, float]], task: int) -> dict[int, float]:
    slots = wires.reads[task]
    if not slots:
        return {0: 1.0}
    product: dict[int, float] = {0: 1.0}
    total: dict[int, float] = {}
    for slot, factor in slots:
        stream: dict[int, float] = {}
        for producer in wires.writers[slot]:
            weight = next(w for s, w in wires.writes[producer] if s == slot) * factor
            for mask, value in terms[producer].items():
                stream[mask] = stream.get(mask, 0.0) + weight * value
        if not wires.is_join[task]:
            for mask, value in stream.items():
                total[mask] = total.get(mask, 0.0) + value
            continue
        joined: dict[int, float] = {}
        for mask, value in product.items():
            for other, weight in stream.items():
                joined[mask | other] = joined.get(mask | other, 0.0) + value * weight
        product = joined
    return product if wires.is_join[task] else total


def _members(mask: int) -> tuple[int, ...]:
    return tuple(k for k in range(mask.bit_length()) if mask >> k & 1)


def _spell(count: int) -> str:
    return str(count) if count < 10**9 else f"about 10^{len(str(count)) - 1}"
