"""The topology: a DAG of operators, validated once, then only read.

Numbers may be one value or one per task. One value of an extensive quantity (`state_size`,
`failure_rate`) is that of the whole operator; a list of it gives each task's own, and the operator
has their sum. For intensive quantities (`selectivity`, `cost`, `tuple_size`, `reprocess_time` and
the rest) one value holds for every task, and the operator-level value of a list is its mean
(`reprocess_time`: its maximum, because a bound has to hold for the slowest task).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from holdfast.topology.checks import TopologyError, check
from holdfast.topology.links import Partitioning, effective_partitioning

InputKind = Literal["independent", "correlated"]
Choice = Literal["free", "required", "forbidden"]
Numbers = float | tuple[float, ...]
"""One value, or one per task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One operator with `parallelism` tasks."""

    name: str
    parallelism: int = 1
    input: InputKind = "independent"
    """`correlated`: a join, which needs all its inputs for a result."""
    selectivity: Numbers = 1.0
    """Output tuples per input tuple."""
    cost: Numbers = 0.0
    """Processing time per input tuple, in the file's time unit."""
    tuple_size: Numbers = 1.0
    """Size of a tuple the operator receives, in the file's size unit."""
    state_size: Numbers = 0.0
    """Size of the operator's state; a list gives each task's part."""
    failure_rate: Numbers = 0.0
    """Failures of the operator per time unit; a list gives each task's."""
    reprocess_time: Numbers | None = None
    """Time a task needs to reprocess what it lost (FTC's T); None: derived or zero."""
    checkpoint_interval: Numbers | None = None
    """Time between two checkpoints, from which a missing `reprocess_time` is derived."""
    min_interval: float = 0.0
    """Smallest time allowed between two checkpoints (a Spark batch has a floor)."""
    max_recovery: float | None = None
    """A bound on the recovery of this operator alone, next to the global one."""
    backup: Choice = "free"
    """Whether the operator must or must not be a backup."""
    backup_cost: Numbers | None = None
    """Cost of making a task a backup; None: 1, or bytes logged when asked for."""
    replica: Choice = "free"
    """Whether the operator's tasks must or must not have a hot replica."""
    replica_cost: Numbers = 1.0
    """What a replica of a task takes from the replica budget."""
    failure_domain: str | tuple[str, ...] | None = None
    """What fails together with it: one label, or one per task."""
    paths: tuple[str, ...] = ()
    """Of a split: its alternative paths in their order, one of which is taken at a time. Numbers
    are those of the first."""

    def task_name(self, index: int) -> str:
        return self.name if self.parallelism == 1 else f"{self.name}.{index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A stream from one operator to another."""

    source: str
    target: str
    partitioning: Partitioning = "full"
    shares: tuple[float, ...] | tuple[tuple[float, ...], ...] | None = None
    """How a producer's output divides among its consumers: one number per downstream task, or one
    list per upstream task over the tasks it reaches. None: equal shares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A sink operator that somebody reads, with its weight."""

    name: str
    sink: str
    priority: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitsOfMeasure:
    """What the file's numbers are counted in."""

    time: str = "s"
    size: str = "KB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Time to write or read one size unit, plus a fixed time per access."""

    tuple_cost: float = 5.0e-5
    state_cost: float = 3.0e-7
    tuple_fixed: float = 0.0
    state_fixed: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Topology:
    """A validated DAG of operators; construct it and every number in it is usable."""

    name: str
    operators: tuple[Operator, ...]
    edges: tuple[Edge, ...] = ()
    rates: Mapping[str, float] = field(default_factory=dict)
    """Input rate of source operators, tuples per time unit (default 0)."""
    task_rates: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Output rates of source tasks, where they are not spread evenly."""
    queries: tuple[Query, ...] = ()
    """Empty: every sink operator is a query with priority 1 (see `effective_queries`)."""
    unit: UnitsOfMeasure = field(default_factory=UnitsOfMeasure)
    storage: Storage = field(default_factory=Storage)

    def __post_init__(self) -> None:
        # The cached property need not look for the order again.
        self.__dict__["order"] = check(self)

    def __hash__(self) -> int:
        # Cheap and consistent with equality; derived graphs are cached by topology.
        return hash((self.name, len(self.operators), len(self.edges)))

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Operator name to its position in `operators`."""
        return {operator.name: i for i, operator in enumerate(self.operators)}

    @cached_property
    def upstream(self) -> tuple[tuple[int, ...], ...]:
        """Per operator, the positions of its producers, in the order of the edges."""
        return _neighbours(self, incoming=True)

    @cached_property
    def downstream(self) -> tuple[tuple[int, ...], ...]:
        """Per operator, the positions of its consumers, in the order of the edges."""
        return _neighbours(self, incoming=False)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Operator positions, every producer before its consumers."""
        return check(self)

    @property
    def sources(self) -> tuple[int, ...]:
        return tuple(i for i, producers in enumerate(self.upstream) if not producers)

    @property
    def sinks(self) -> tuple[int, ...]:
        return tuple(i for i, consumers in enumerate(self.downstream) if not consumers)

    @property
    def effective_queries(self) -> tuple[Query, ...]:
        """The queries given, or one per sink."""
        if self.queries:
            return self.queries
        return tuple(
            Query(name=self.operators[i].name, sink=self.operators[i].name) for i in self.sinks
        )

    @property
    def task_count(self) -> int:
        return sum(operator.parallelism for operator in self.operators)

    @cached_property
    def task_names(self) -> tuple[str, ...]:
        """Task ids: `name` when the operator has one task, else `name.0`, `name.1`, ..."""
        return tuple(
            operator.task_name(k)
            for operator in self.operators
            for k in range(operator.parallelism)
        )

    def operator(self, name: str) -> Operator:
        try:
            return self.operators[self.index[name]]
        except KeyError:
            raise TopologyError(f"there is no operator {name!r}") from None


def per_task(value: Numbers, parallelism: int, *, extensive: bool = False) -> tuple[float, ...]:
    """Spell a number out per task; one value of an extensive quantity is spread evenly."""
    if isinstance(value, tuple):
        return value
    return (value / parallelism if extensive else value,) * parallelism


def per_operator(value: Numbers, *, how: Literal["mean", "sum", "max"] = "mean") -> float:
    """The operator-level value of a number that may be given per task."""
    if not isinstance(value, tuple):
        return value
    match how:
        case "mean":
            return math.fsum(value) / len(value)
        case "sum":
            return math.fsum(value)
        case "max":
            return max(value)


def iter_links(topology: Topology) -> Iterator[tuple[Edge, int, int, Partitioning]]:
    """Every edge with the positions of its ends and its effective partitioning."""
    index, operators = topology.index, topology.operators
    for edge in topology.edges:
        u, v = index[edge.source], index[edge.target]
        kind = effective_partitioning(
            edge.partitioning, operators[u].parallelism, operators[v].parallelism
        )
        yield edge, u, v, kind


def _neighbours(topology: Topology, *, incoming: bool) -> tuple[tuple[int, ...], ...]:
    lists: list[list[int]] = [[] for _ in topology.operators]
    index = topology.index
    for edge in topology.edges:
        u, v = index[edge.source], index[edge.target]
        if incoming:
            lists[v].append(u)
        else:
            lists[u].append(v)
    return tuple(map(tuple, lists))
