"""The unit graph of a pipeline: what really runs, fails and is replicated.

A pipeline's topology has a task per shard of every operator. What runs is a unit per shard of every
segment, and one per exporter. Operators that no boundary separates are one operator here, so a plan
never replicates half of a query, and an exporter is one more, for a result that nobody delivers is
none. O(operators + edges).

Reading: a segment that joins counts as a join of all its inputs. If it also unites some of them,
what survives the loss of one of those is understated.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from holdfast.predict.recovery import RecoveryModel
from holdfast.predict.segments import segments_of
from holdfast.predict.statistics import Statistics
from holdfast.topology.boundaries import forced_boundaries
from holdfast.topology.graph import Edge, Operator, Query, Topology, per_operator
from holdfast.topology.rates import operator_rates


def unit_graph(
    topology: Topology, statistics: Statistics | None = None, *, cuts: Collection[str] = ()
) -> Topology:
    """The topology of the units that run with forced boundaries, and with `cuts` beside them.

    Segments are named as deployments name them, exporters after their queries. With statistics the
    rates are the measured ones.
    """
    known = _rated(topology if statistics is None else _measured(topology, statistics))
    rates = operator_rates(known)
    parts = segments_of(known, {*forced_boundaries(known), *(known.index[name] for name in cuts)})
    place = {v: part[-1] for part in parts for v in part}
    name = {part[-1]: known.operators[part[-1]].name for part in parts}
    edges = {
        (place[u], place[v]): edge.partitioning
        for edge in known.edges
        for u, v in [(known.index[edge.source], known.index[edge.target])]
        if place[u] != place[v]
    }
    queries = known.effective_queries
    return Topology(
        name=known.name,
        operators=(
            *(_segment(known, part, rates.input.tolist(), rates.output.tolist()) for part in parts),
            *(Operator(name=_exporter(known, query)) for query in queries),
        ),
        edges=(
            *(
                Edge(source=name[u], target=name[v], partitioning=kind)
                for (u, v), kind in edges.items()
            ),
            *(Edge(source=query.sink, target=_exporter(known, query)) for query in queries),
        ),
        rates={
            known.operators[part[-1]].name: float(rates.input[v])
            for part in parts
            for v in part
            if not known.upstream[v]
        },
        queries=tuple(replace(query, sink=_exporter(known, query)) for query in queries),
        unit=known.unit,
    )


def _exporter(topology: Topology, query: Query) -> str:
    """A topology file may name a query like an operator; a pipeline never does."""
    return f"{query.name}-export" if query.name in topology.index else query.name


def _segment(
    topology: Topology, part: tuple[int, ...], into: list[float], out: list[float]
) -> Operator:
    members = [topology.operators[v] for v in part]
    inside = set(part)
    read = [u for v in part for u in topology.upstream[v] if u not in inside]
    received = sum(out[u] for u in read) + sum(into[v] for v in part if not topology.upstream[v])
    root = members[-1]
    choices = {one.replica for one in members}
    return Operator(
        name=root.name,
        parallelism=root.parallelism,
        input="correlated" if any(one.input == "correlated" for one in members) else "independent",
        selectivity=out[part[-1]] / received if received > 0 else per_operator(root.selectivity),
        replica="forbidden"
        if "forbidden" in choices
        else "required"
        if "required" in choices
        else "free",
    )


def _rated(topology: Topology) -> Topology:
    """Where no rate is known, all sources have the same: only the ratio counts."""
    if any(topology.rates.values()) or topology.task_rates:
        return topology
    return replace(topology, rates={topology.operators[i].name: 1.0 for i in topology.sources})


def _measured(topology: Topology, statistics: Statistics) -> Topology:
    load = RecoveryModel(topology, statistics).load
    received, emitted = load.received.value.tolist(), load.emitted.value.tolist()
    return replace(
        topology,
        operators=tuple(
            replace(
                operator,
                selectivity=emitted[i] / received[i]
                if received[i] > 0
                else per_operator(operator.selectivity),
            )
            for i, operator in enumerate(topology.operators)
        ),
        rates={topology.operators[i].name: received[i] for i in topology.sources},
        task_rates={},
    )
