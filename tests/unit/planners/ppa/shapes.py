"""The paper's small topologies, and mixed ones of about 37 tasks."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import reject

from holdfast.planners.ppa.fidelity import FidelityModel
from holdfast.planners.ppa.mc_trees import McTree, TooManyTreesError, list_trees
from holdfast.testing.generators import ppa_random
from holdfast.topology.graph import Edge, Operator, Topology


def shape(
    widths: Sequence[int],
    links: Sequence[tuple[int, int, str]],
    joins: Sequence[int] = (),
) -> Topology:
    """Operators o0, o1, ... of the given widths."""
    return Topology(
        name="shape",
        operators=tuple(
            Operator(
                name=f"o{i}",
                parallelism=width,
                input="correlated" if i in joins else "independent",
            )
            for i, width in enumerate(widths)
        ),
        edges=tuple(
            Edge(source=f"o{u}", target=f"o{v}", partitioning=kind) for u, v, kind in links
        ),
    )


def fig1a(*, joined: bool) -> Topology:
    links = [(0, 2, "split"), (1, 2, "one-to-one"), (2, 3, "full")]
    return shape([2, 4, 4, 2], links, joins=[2] if joined else [])


def fig3a() -> Topology:
    return shape([4, 2, 4], [(0, 1, "merge"), (1, 2, "split")])


def fig3b() -> Topology:
    return shape([4, 1, 2], [(0, 2, "merge"), (1, 2, "split")], joins=[2])


def fig5() -> Topology:
    return shape([4, 2, 1], [(0, 1, "merge"), (1, 2, "merge")])


def mixed(count: int) -> list[Topology]:
    """Topologies of 32 to 42 tasks with all kinds of links, joins, and skew in every other."""
    found: list[Topology] = []
    seed = 0
    while len(found) < count:
        seed += 1
        topology = ppa_random(
            (5, 10),
            parallelism=(1, 8),
            full=0.5,
            joins=0.3,
            skew=0.1 if seed % 2 else 0.0,
            seed=seed,
        )
        if 32 <= topology.task_count <= 42:
            found.append(topology)
    return found


def few_trees(model: FidelityModel) -> list[McTree]:
    """All trees; a topology with few tasks that has tens of thousands of them is drawn again."""
    try:
        return list_trees(model)
    except TooManyTreesError:
        reject()
