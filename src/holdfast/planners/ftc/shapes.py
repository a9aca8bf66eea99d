"""Which special shape an instance has; each shape has an algorithm that is exact and quick."""

from __future__ import annotations

from holdfast.planners.ftc.core import Core
from holdfast.topology.graph import Topology, iter_links


def is_tree(core: Core) -> bool:
    """Every task feeds at most one other: a forest of in-trees."""
    return all(len(consumers) <= 1 for consumers in core.successors)


def is_out_forest(core: Core) -> bool:
    """Every task is fed by at most one other: a forest of out-trees."""
    return all(len(producers) <= 1 for producers in core.predecessors)


def is_lines(core: Core) -> bool:
    """Parallel lines: an in-tree that joins only at its sinks."""
    return is_tree(core) and all(
        len(producers) <= 1 or not core.successors[v]
        for v, producers in enumerate(core.predecessors)
    )


def is_full_chain(topology: Topology) -> bool:
    """Operators in one line, every link Full."""
    if len(topology.sources) != 1 or any(len(up) > 1 for up in topology.upstream):
        return False
    if any(len(consumers) > 1 for consumers in topology.downstream):
        return False
    return all(kind == "full" for *_, kind in iter_links(topology))
