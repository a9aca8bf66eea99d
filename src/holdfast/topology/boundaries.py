"""Which boundaries a topology has in every plan, and what is left to choose.

The rules of a pipeline's own forced boundaries, for topologies that come from a file. A topology
that was derived from a pipeline has them marked as `backup: required` already; finding them again
changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from holdfast.topology.graph import Topology, iter_links, per_operator

Reason = Literal["sink", "consumers", "exchange", "state", "required"]

REASONS: Mapping[Reason, str] = {
    "sink": "its output is a result that somebody reads",
    "consumers": "several operators read it, and Spark would compute it once for each",
    "exchange": "rows move between shards behind it, and they do so through the log only",
    "state": "another stateful operator or one with several inputs follows, and a segment keeps "
    "one state so that it survives a change of plan",
    "required": "the topology requires it",
}


def is_stateful(topology: Topology, i: int) -> bool:
    return per_operator(topology.operators[i].state_size, how="sum") > 0


def forced_boundaries(
    topology: Topology, *, stateful: Sequence[bool] | None = None
) -> dict[int, Reason]:
    """Positions of the operators whose output is logged in every plan, and why; O(V * depth).

    `stateful` tells which operators keep state when statistics know better than the file.
    """
    keeps = stateful or [is_stateful(topology, i) for i in range(len(topology.operators))]
    forced: dict[int, Reason] = {}
    for i, operator in enumerate(topology.operators):
        if not topology.downstream[i]:
            forced[i] = "sink"
        elif operator.backup == "required":
            forced[i] = "required"
        elif len(topology.downstream[i]) > 1:
            forced[i] = "consumers"
    for query in topology.queries:
        forced.setdefault(topology.index[query.sink], "sink")
    for _, u, v, kind in iter_links(topology):
        parallel = topology.operators[u].parallelism, topology.operators[v].parallelism
        if max(parallel) > 1 and kind != "one-to-one":
            forced.setdefault(u, "exchange")
    for i in topology.order:
        if keeps[i] and _state_follows(topology, i, forced, keeps):
            forced.setdefault(i, "state")
    return forced


def _state_follows(
    topology: Topology, i: int, forced: Mapping[int, Reason], keeps: Sequence[bool]
) -> bool:
    while i not in forced:
        (i,) = topology.downstream[i]
        if keeps[i] or len(topology.upstream[i]) > 1:
            return True
    return False
