"""What every generator shares: chance, ranges, weights and links.

A generator is a pure function of its options and a seed: the same call gives the same topology on
every machine. Option help is kept in the signatures (`Annotated`), so that the command line, the
registry and the code cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

from holdfast.errors import BadInputError
from holdfast.topology.graph import Edge, Numbers, Operator
from holdfast.topology.links import Partitioning

Seed = int | np.random.Generator
"""An int, or a Generator that the call draws from."""
Range = int | tuple[int, int]
"""One number, or the smallest and the largest of a random one."""
Weights = Literal["uniform", "random"]
"""Reprocessing times: 1 for every task, or a whole number from 1 to 10 drawn for each."""
Links = Literal["full", "structured", "mixed"]
"""How tasks are linked: all to all; one-to-one, split or merge as the counts allow; or either."""

SeedOption = Annotated[Seed, "seed of everything drawn"]
WeightsOption = Annotated[Weights, "reprocessing times: 1 each, or drawn from 1..10"]
LinksOption = Annotated[Links, "partitioning of the edges"]
ParallelismOption = Annotated[Range, "tasks per operator, N or MIN-MAX"]
RateOption = Annotated[float, "input rate of every source, tuples per time unit"]

COST = 1.0e-5
"""Time per tuple: the thesis' fixed value, for shapes whose paper gives none."""
STATE_SIZE = 15_000.0
"""Size of an operator's state: the middle of the thesis' range."""
FAILURE_RATE = 0.1
"""Failures of an operator per time unit: the thesis' mean."""


def generator_of(seed: Seed) -> np.random.Generator:
    return seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)


def at_least(name: str, value: float, smallest: float) -> None:
    if not value >= smallest:
        raise BadInputError(
            f"is {value:g}", where=name, hint=f"write a number of at least {smallest:g}"
        )


def fraction(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise BadInputError(f"is {value:g}", where=name, hint="write a number from 0 to 1")


def bounds(name: str, value: Range, *, smallest: int = 1) -> tuple[int, int]:
    low, high = value if isinstance(value, tuple) else (value, value)
    if low < smallest or high < low:
        raise BadInputError(
            f"is {low}-{high}",
            where=name,
            hint=f"write N or MIN-MAX with {smallest} <= MIN <= MAX",
        )
    return low, high


def draw(rng: np.random.Generator, name: str, value: Range, *, smallest: int = 1) -> int:
    low, high = bounds(name, value, smallest=smallest)
    # Nothing is drawn where nothing is random, so that other draws do not shift.
    return low if low == high else int(rng.integers(low, high + 1))


def weight(rng: np.random.Generator, weights: Weights, parallelism: int) -> Numbers:
    """Reprocessing times of an operator's tasks."""
    if weights == "uniform":
        return 1.0
    drawn = tuple(float(x) for x in rng.integers(1, 11, size=parallelism))
    return drawn if parallelism > 1 else drawn[0]


def plain_operator(
    rng: np.random.Generator, name: str, parallelism: int, weights: Weights
) -> Operator:
    """An operator for the shapes that only fix the graph and the reprocessing times."""
    return Operator(
        name=name,
        parallelism=parallelism,
        cost=COST,
        state_size=STATE_SIZE,
        failure_rate=FAILURE_RATE,
        reprocess_time=weight(rng, weights, parallelism),
    )


def structured(upstream: int, downstream: int) -> Partitioning:
    """The partitioning other than full that fits the two counts."""
    if upstream == downstream:
        return "one-to-one"
    return "split" if downstream > upstream else "merge"


def partitioning(
    rng: np.random.Generator, links: Links, upstream: int, downstream: int
) -> Partitioning:
    if links == "full" or (links == "mixed" and rng.random() < 0.5):
        return "full"
    return structured(upstream, downstream)


def connect(
    rng: np.random.Generator,
    operators: Sequence[Operator],
    pairs: Sequence[tuple[int, int]],
    links: Links,
) -> tuple[Edge, ...]:
    """Edges for pairs of positions, with partitionings as `links` says."""
    return tuple(
        Edge(
            source=operators[u].name,
            target=operators[v].name,
            partitioning=partitioning(
                rng, links, operators[u].parallelism, operators[v].parallelism
            ),
        )
        for u, v in pairs
    )


def source_rates(
    operators: Sequence[Operator], pairs: Sequence[tuple[int, int]], rate: float
) -> dict[str, float]:
    fed = {v for _, v in pairs}
    return {operator.name: rate for i, operator in enumerate(operators) if i not in fed}
