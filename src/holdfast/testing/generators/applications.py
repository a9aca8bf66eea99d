"""The two applications of the FTC paper's evaluation: SignalGuru and Twitter Sentiment."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

from holdfast.errors import BadInputError
from holdfast.testing.generators.common import (
    Links,
    RateOption,
    SeedOption,
    WeightsOption,
    at_least,
    generator_of,
    plain_operator,
    structured,
)
from holdfast.topology.graph import Edge, Topology

SIGNALGURU_STEPS = (
    "camera",
    "dispatch",
    "color",
    "shape",
    "motion",
    "vote",
    "group",
    "predict",
    "sink",
)
SIGNALGURU_TASKS = (4, 4, 12, 12, 12, 4, 4, 2, 1)
"""Tasks of each step; 55 in all."""


def signalguru(
    *,
    tasks: Annotated[tuple[int, ...], "tasks of each of the 9 steps"] = SIGNALGURU_TASKS,
    links: Annotated[Links, "full: all-to-all in every step, not only where votes meet"] = (
        "structured"
    ),
    weights: WeightsOption = "uniform",
    rate: RateOption = 1000.0,
    seed: SeedOption = 0,
) -> Topology:
    """Traffic signals from phone cameras: paths of nine steps, 55 tasks.

    The paper prints the number of steps and tasks; its drawing, and with it the parallelism of
    each step, is lost. This reading follows the application: four cameras, each with a dispatcher
    that spreads frames over three filter lines (colour, shape, motion), whose votes are counted
    per camera, then grouped and predicted across cameras.
    """
    if len(tasks) != len(SIGNALGURU_STEPS):
        raise BadInputError(
            f"has {len(tasks)} numbers",
            where="tasks",
            hint=f"write {len(SIGNALGURU_STEPS)}, one for each step",
        )
    for count in tasks:
        at_least("tasks", count, 1)
    rng = generator_of(seed)
    operators = tuple(
        plain_operator(rng, name, count, weights)
        for name, count in zip(SIGNALGURU_STEPS, tasks, strict=True)
    )
    edges = []
    for up, down in pairwise(operators):
        meets = down.name in {"group", "predict", "sink"} or links == "full"
        if links == "mixed" and not meets:
            meets = bool(rng.random() < 0.5)
        kind = "full" if meets else structured(up.parallelism, down.parallelism)
        edges.append(Edge(source=up.name, target=down.name, partitioning=kind))
    return Topology(
        name="signalguru", operators=operators, edges=tuple(edges), rates={"camera": rate}
    )


def sentiment(
    a: Annotated[int, "tasks of hot-topics"] = 50,
    b: Annotated[int, "tasks of filter"] = 20,
    c: Annotated[int, "tasks of sentiment"] = 20,
    *,
    weights: WeightsOption = "uniform",
    rate: RateOption = 1000.0,
    seed: SeedOption = 0,
) -> Topology:
    """Twitter Sentiment with three autoscaled operators.

    It has 2a + 2b + bc + c task links: 560 for (50, 20, 20) and 1050 for (30, 30, 30), as printed.
    """
    rng = generator_of(seed)
    counts = {"source": 1, "hot-topics": a, "merger": 1, "filter": b, "sentiment": c, "sink": 1}
    for name, count in counts.items():
        at_least(f"tasks of {name}", count, 1)
    streams = (
        ("source", "hot-topics"),
        ("hot-topics", "merger"),
        ("merger", "filter"),
        ("source", "filter"),
        ("filter", "sentiment"),
        ("sentiment", "sink"),
    )
    return Topology(
        name=f"sentiment-{a}-{b}-{c}",
        operators=tuple(plain_operator(rng, *item, weights) for item in counts.items()),
        edges=tuple(Edge(source=up, target=down) for up, down in streams),
        rates={"source": rate},
    )
