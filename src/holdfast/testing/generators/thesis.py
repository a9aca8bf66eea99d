"""Random chains and trees by the parameter rules of the FastRecover thesis (section 4.1).

Minutes and kilobytes throughout. Per operator: 2 to 6 instances, selectivity uniform in [0.1, 1],
1e-5 minutes per tuple, state of 10 to 20 MB, input tuples of 1 KB. The failure frequency of an
operator is proportional to its instances (table 4.1). The thesis draws "a fixed failure frequency"
from a Gaussian of mean 0.1 with 0.03 as its spread; it says variance, but a variance of 0.03 makes
a quarter of the draws negative, so 0.03 is read as the standard deviation. It is read as one draw
per topology, the frequency of an operator of average size (4 instances); `failures="operator"`
draws once per operator instead. The cost of storing a byte is never stated: 5e-5 and 3e-7 minutes
per KB of tuples and of state reproduce the thesis' figures.

Trees have one source and at most three consumers per operator; how the thesis attaches nodes is
not said. Here each hangs below a node drawn evenly from those with room.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

from holdfast.testing.generators.common import (
    RateOption,
    SeedOption,
    Weights,
    WeightsOption,
    at_least,
    generator_of,
    weight,
)
from holdfast.testing.generators.shapes import random_tree
from holdfast.topology.graph import Edge, Operator, Storage, Topology, UnitsOfMeasure

Failures = Literal["topology", "operator"]

INSTANCES = (2, 6)
SELECTIVITY = (0.1, 1.0)
STATE_KB = (10_000.0, 20_000.0)
FAILURE_MEAN = 0.1
FAILURE_SD = 0.03
_MEAN_INSTANCES = sum(INSTANCES) / 2


def thesis_chain(
    n: Annotated[int, "operators in the chain"] = 15,
    *,
    rate: RateOption = 3000.0,
    failures: Annotated[Failures, "draw the failure frequency once, or per operator"] = "topology",
    weights: WeightsOption = "uniform",
    seed: SeedOption = 0,
) -> Topology:
    """A random chain of the FastRecover thesis."""
    pairs = [(i, i + 1) for i in range(n - 1)]
    return _thesis(
        f"thesis-chain-{n}",
        n,
        pairs,
        generator_of(seed),
        rate=rate,
        failures=failures,
        weights=weights,
    )


def thesis_tree(
    n: Annotated[int, "operators in the tree"] = 15,
    *,
    fan_out: Annotated[int, "most consumers of one operator"] = 3,
    rate: RateOption = 1000.0,
    failures: Annotated[Failures, "draw the failure frequency once, or per operator"] = "topology",
    weights: WeightsOption = "uniform",
    seed: SeedOption = 0,
) -> Topology:
    """A random tree of the FastRecover thesis."""
    at_least("n", n, 1)
    at_least("fan_out", fan_out, 1)
    rng = generator_of(seed)
    pairs = random_tree(rng, n, fan_out)
    return _thesis(f"thesis-tree-{n}", n, pairs, rng, rate=rate, failures=failures, weights=weights)


def _thesis(
    name: str,
    n: int,
    pairs: Sequence[tuple[int, int]],
    rng: np.random.Generator,
    *,
    rate: float,
    failures: Failures,
    weights: Weights,
) -> Topology:
    at_least("n", n, 1)
    at_least("rate", rate, 0)
    shared = _failure_frequency(rng)
    operators = []
    for i in range(n):
        instances = int(rng.integers(INSTANCES[0], INSTANCES[1] + 1))
        frequency = shared if failures == "topology" else _failure_frequency(rng)
        operators.append(
            Operator(
                name=f"op{i + 1}",
                parallelism=instances,
                selectivity=float(rng.uniform(*SELECTIVITY)),
                cost=1.0e-5,
                tuple_size=1.0,
                state_size=float(rng.uniform(*STATE_KB)),
                failure_rate=frequency * instances / _MEAN_INSTANCES,
                reprocess_time=weight(rng, weights, instances),
            )
        )
    return Topology(
        name=name,
        operators=tuple(operators),
        edges=tuple(Edge(source=f"op{u + 1}", target=f"op{v + 1}") for u, v in pairs),
        rates={"op1": rate},
        unit=UnitsOfMeasure(time="min", size="KB"),
        storage=Storage(tuple_cost=5.0e-5, state_cost=3.0e-7),
    )


def _failure_frequency(rng: np.random.Generator) -> float:
    """A Gaussian draw, again while it is not positive (once in 2,300 topologies)."""
    for _ in range(100):
        drawn = float(rng.normal(FAILURE_MEAN, FAILURE_SD))
        if drawn > 0:
            return drawn
    return FAILURE_MEAN
