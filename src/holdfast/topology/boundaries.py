"""Forced boundaries: whose output is logged in every plan, and why.

The rules stand here once. A topology file is judged by what it says of itself; a pipeline by its
operators and their shards (`holdfast.pipeline.graph`). Forced boundaries never depend on the cuts a
plan adds, so more cuts always refine fewer, and a planner can count them before it chooses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from holdfast.topology.graph import Topology, iter_links, per_operator

Reason = Literal[
    "source",
    "sink",
    "consumers",
    "exchange",
    "nondeterministic",
    "quarantine",
    "path",
    "state",
    "required",
]

REASONS: Mapping[Reason, str] = {
    "source": "its rows are kept as they came in, late ones apart, before anything is computed",
    "sink": "its output is a result that somebody reads",
    "consumers": "several operators read it, and Spark would compute it once for each",
    "exchange": "rows move between shards behind it, and they do so through the log only",
    "nondeterministic": "a redo may come out differently, so its first output is kept",
    "quarantine": "it or what follows it quarantines, and rows are put aside of the input of that "
    "operator alone",
    "path": "a split takes one of several paths here, and another one may begin at any time",
    "state": "another stateful operator or one with several inputs follows, and a segment keeps "
    "one state so that it survives a change of plan",
    "required": "the topology requires it",
}


def own_boundaries(
    readers: Sequence[Sequence[int]], *, declared: Mapping[int, Reason], results: Collection[int]
) -> dict[int, Reason]:
    """What is forced by an operator itself and by how many read it; positions and reasons.

    `readers` are the operators that read each one, `results` those whose output somebody reads.
    """
    forced: dict[int, Reason] = {}
    for i, reading in enumerate(readers):
        if not reading:
            forced[i] = "sink"
        elif i in declared:
            forced[i] = declared[i]
        elif len(reading) > 1:
            forced[i] = "consumers"
        elif i in results:
            forced[i] = "sink"
    return forced


def rows_move(upstream: int, downstream: int, *, one_to_one: bool) -> bool:
    """Whether an edge between so many shards is an exchange."""
    return max(upstream, downstream) > 1 and not one_to_one


def all_boundaries(
    own: Mapping[int, Reason],
    *,
    exchanges: Iterable[int],
    readers: Sequence[Sequence[int]],
    inputs: Sequence[int],
    stateful: Sequence[bool],
) -> dict[int, Reason]:
    """`own` boundaries, those of exchanges, and those that keep one state to a segment.

    `exchanges` are producers behind which rows move; `inputs` counts what each operator reads.
    O(operators * depth).
    """
    forced = dict(own)
    for i in exchanges:
        forced.setdefault(i, "exchange")
    for i, keeps in enumerate(stateful):
        if keeps and _state_follows(i, forced, readers, inputs, stateful):
            forced[i] = "state"
    return forced


def _state_follows(
    i: int,
    forced: Mapping[int, Reason],
    readers: Sequence[Sequence[int]],
    inputs: Sequence[int],
    stateful: Sequence[bool],
) -> bool:
    """Whether the segment of `i` would reach another stateful operator or several inputs."""
    while i not in forced:
        (i,) = readers[i]
        if stateful[i] or inputs[i] > 1:
            return True
    return False


def is_stateful(topology: Topology, i: int) -> bool:
    return per_operator(topology.operators[i].state_size, how="sum") > 0


def forced_boundaries(
    topology: Topology, *, stateful: Sequence[bool] | None = None
) -> dict[int, Reason]:
    """The forced boundaries of a topology.

    `stateful` tells which operators keep state when statistics know better than the file. A
    topology that was derived from a pipeline has that pipeline's marked as `backup: required`
    already; finding them again changes nothing.
    """
    operators = topology.operators
    own = own_boundaries(
        topology.downstream,
        declared={i: "required" for i, op in enumerate(operators) if op.backup == "required"},
        results={topology.index[query.sink] for query in topology.queries},
    )
    return all_boundaries(
        own,
        exchanges=[
            u
            for _, u, v, kind in iter_links(topology)
            if rows_move(
                operators[u].parallelism,
                operators[v].parallelism,
                one_to_one=kind == "one-to-one",
            )
        ],
        readers=topology.downstream,
        inputs=[len(producers) for producers in topology.upstream],
        stateful=stateful or [is_stateful(topology, i) for i in range(len(operators))],
    )
