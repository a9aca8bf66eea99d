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
from operator import attrgetter
from typing import Literal, get_args

from holdfast.errors import BadInputError

Partitioning = Literal["one-to-one", "split", "merge", "full"]
InputKind = Literal["independent", "correlated"]
Choice = Literal["free", "required", "forbidden"]
Numbers = float | tuple[float, ...]
"""One value, or one per task."""
Path = tuple[str | int, ...]

PARTITIONINGS: tuple[Partitioning, ...] = get_args(Partitioning)


class TopologyError(BadInputError):
    """A topology that cannot be; `path` leads to the place in the file's own structure."""

    def __init__(self, what: str, *, path: Path = (), hint: str = "") -> None:
        self.path = path
        super().__init__(what, where=_spell(path), hint=hint)


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
class Unit:
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
    unit: Unit = field(default_factory=Unit)
    storage: Storage = field(default_factory=Storage)

    def __post_init__(self) -> None:
        _validate(self)

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
        order, _ = _topological(self)
        return tuple(order)

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


def effective_partitioning(declared: Partitioning, upstream: int, downstream: int) -> Partitioning:
    """A link into a single task is full, whatever it was called; else as declared."""
    if downstream == 1 or (declared == "merge" and upstream == downstream):
        return "full" if downstream == 1 else "one-to-one"
    if declared == "split" and upstream == downstream:
        return "one-to-one"
    return declared


# -- validation ----------------------------------------------------------------------------------

_NUMBERS = (
    "selectivity",
    "cost",
    "tuple_size",
    "state_size",
    "failure_rate",
    "reprocess_time",
    "checkpoint_interval",
    "backup_cost",
    "replica_cost",
    "min_interval",
    "max_recovery",
)
_get_numbers = attrgetter(*_NUMBERS)


def _validate(topology: Topology) -> None:
    if not topology.operators:
        raise TopologyError("the topology is empty", path=("operators",), hint="list an operator")
    seen: dict[str, int] = {}
    for i, operator in enumerate(topology.operators):
        _validate_operator(operator, i)
        if operator.name in seen:
            raise TopologyError(
                f"operator name {operator.name!r} is used twice",
                path=("operators", i, "name"),
                hint="give every operator its own name",
            )
        seen[operator.name] = i
    _validate_edges(topology, seen)
    order, cycle = _topological(topology)
    if cycle:
        raise TopologyError(
            f"the edges form a cycle: {' -> '.join(cycle)}",
            path=("edges",),
            hint="remove one of these edges; a topology has no cycles",
        )
    _validate_rates(topology, seen)
    _validate_queries(topology, seen)
    for name in ("tuple_cost", "state_cost", "tuple_fixed", "state_fixed"):
        _check_number(getattr(topology.storage, name), ("storage", name))
    # The order is known now; the cached property need not look for it again.
    topology.__dict__["order"] = tuple(order)


def _validate_operator(operator: Operator, i: int) -> None:
    if not operator.name:
        raise TopologyError("an operator has no name", path=("operators", i, "name"))
    if operator.parallelism < 1:
        raise TopologyError(
            f"operator {operator.name!r} has parallelism {operator.parallelism}",
            path=("operators", i, "parallelism"),
            hint="write a whole number of at least 1",
        )
    for name, value in zip(_NUMBERS, _get_numbers(operator), strict=True):
        if value is None:
            continue
        if isinstance(value, tuple):
            if len(value) != operator.parallelism:
                raise TopologyError(
                    f"operator {operator.name!r} has {operator.parallelism} tasks but "
                    f"{len(value)} values of {name}",
                    path=("operators", i, name),
                    hint="write one value, or one per task",
                )
            for j, item in enumerate(value):
                _check_number(item, ("operators", i, name, j))
        # Comparing once is much cheaper than the full check, and 100,000 operators have many.
        elif not 0.0 <= value < math.inf:
            _check_number(value, ("operators", i, name))
    domain = operator.failure_domain
    if isinstance(domain, tuple) and len(domain) != operator.parallelism:
        raise TopologyError(
            f"operator {operator.name!r} has {operator.parallelism} tasks but {len(domain)} "
            "failure domains",
            path=("operators", i, "failure_domain"),
            hint="write one label, or one per task",
        )


def _check_number(value: float, path: Path) -> None:
    if math.isnan(value):
        raise TopologyError("is not a number", path=path, hint="write a finite number of 0 or more")
    if value < 0 or math.isinf(value):
        raise TopologyError(f"is {value:g}", path=path, hint="write a finite number of 0 or more")


def _validate_edges(topology: Topology, index: Mapping[str, int]) -> None:
    seen: set[tuple[str, str]] = set()
    for i, edge in enumerate(topology.edges):
        for end, name in (("from", edge.source), ("to", edge.target)):
            if name not in index:
                raise TopologyError(
                    f"edge leads {end} {name!r}, which is no operator",
                    path=("edges", i, end),
                    hint=_suggest(name, index),
                )
        if edge.source == edge.target:
            raise TopologyError(
                f"edge leads from {edge.source!r} to itself",
                path=("edges", i),
                hint="remove it; a topology has no cycles",
            )
        if (edge.source, edge.target) in seen:
            raise TopologyError(
                f"edge from {edge.source!r} to {edge.target!r} is given twice",
                path=("edges", i),
                hint="keep one of them",
            )
        seen.add((edge.source, edge.target))
        a = topology.operators[index[edge.source]].parallelism
        b = topology.operators[index[edge.target]].parallelism
        _check_partitioning(edge, i, a, b)
        if edge.shares is not None:
            _check_shares(edge, i, a, b)


def _check_partitioning(edge: Edge, i: int, a: int, b: int) -> None:
    match edge.partitioning:
        case "full":
            return
        case "one-to-one":
            said, fits = "the same number of tasks", a == b
        case "split":
            said, fits = "at least as many tasks downstream as upstream", b >= a
        case "merge":
            said, fits = "at least as many tasks upstream as downstream", a >= b
    if not fits:
        raise TopologyError(
            f"partitioning {edge.partitioning} from {edge.source!r} ({a} tasks) to "
            f"{edge.target!r} ({b} tasks) is impossible",
            path=("edges", i, "partitioning"),
            hint=f"{edge.partitioning} needs {said}; write full, or change the parallelism",
        )


def reach(kind: Partitioning, upstream: int, downstream: int) -> tuple[tuple[int, ...], ...]:
    """Per upstream task, the downstream tasks it feeds."""
    match kind:
        case "full":
            return (tuple(range(downstream)),) * upstream
        case "one-to-one":
            return tuple((k,) for k in range(upstream))
        case "split":
            fed: list[list[int]] = [[] for _ in range(upstream)]
            for j in range(downstream):
                fed[j * upstream // downstream].append(j)
            return tuple(map(tuple, fed))
        case "merge":
            return tuple((k * downstream // upstream,) for k in range(upstream))


def _check_shares(edge: Edge, i: int, a: int, b: int) -> None:
    shares = edge.shares
    if shares is None:
        return
    kind = effective_partitioning(edge.partitioning, a, b)
    reached = reach(kind, a, b)
    path: Path = ("edges", i, "shares")
    if shares and isinstance(shares[0], tuple):
        rows = [row for row in shares if isinstance(row, tuple)]
        if len(rows) != a or any(
            len(row) != len(fed) for row, fed in zip(rows, reached, strict=False)
        ):
            raise TopologyError(
                f"shares of the edge from {edge.source!r} to {edge.target!r} do not fit",
                path=path,
                hint=f"write {a} lists, one number for each task that an upstream task feeds",
            )
    else:
        flat = [float(x) for x in shares if not isinstance(x, tuple)]
        if len(flat) != b:
            raise TopologyError(
                f"edge from {edge.source!r} to {edge.target!r} has {len(flat)} shares",
                path=path,
                hint=f"write {b} numbers, one per downstream task",
            )
        rows = [tuple(flat[j] for j in fed) for fed in reached]
    for row in rows:
        for value in row:
            _check_number(value, path)
        if abs(math.fsum(row) - 1.0) > 1e-6:
            raise TopologyError(
                f"shares of one upstream task add up to {math.fsum(row):g}",
                path=path,
                hint="the shares of each upstream task's output must add up to 1",
            )


def _validate_rates(topology: Topology, index: Mapping[str, int]) -> None:
    fed = {edge.target for edge in topology.edges}
    for table in ("rates", "task_rates"):
        for name, value in getattr(topology, table).items():
            if name not in index:
                raise TopologyError(
                    f"a rate is given for {name!r}, which is no operator",
                    path=(table, name),
                    hint=_suggest(name, index),
                )
            if name in fed:
                raise TopologyError(
                    f"a rate is given for {name!r}, which is not a source",
                    path=(table, name),
                    hint="give rates of sources only; all others are derived",
                )
            values = value if isinstance(value, tuple) else (value,)
            parallelism = topology.operators[index[name]].parallelism
            if table == "task_rates" and len(values) != parallelism:
                raise TopologyError(
                    f"{len(values)} task rates are given for {name!r} with {parallelism} tasks",
                    path=(table, name),
                    hint="write one output rate per task",
                )
            for item in values:
                _check_number(item, (table, name))


def _validate_queries(topology: Topology, index: Mapping[str, int]) -> None:
    names: set[str] = set()
    for i, query in enumerate(topology.queries):
        if query.sink not in index:
            raise TopologyError(
                f"query {query.name!r} reads {query.sink!r}, which is no operator",
                path=("queries", i, "sink"),
                hint=_suggest(query.sink, index),
            )
        if query.name in names:
            raise TopologyError(
                f"query name {query.name!r} is used twice", path=("queries", i, "name")
            )
        names.add(query.name)
        _check_number(query.priority, ("queries", i, "priority"))
    if topology.queries and not any(query.priority > 0 for query in topology.queries):
        raise TopologyError(
            "every query has priority 0",
            path=("queries",),
            hint="give at least one query a priority above 0",
        )


def _suggest(name: str, index: Mapping[str, int]) -> str:
    import difflib  # noqa: PLC0415  only when something is wrong

    near = difflib.get_close_matches(name, list(index)[:10_000], n=1)
    return f"did you mean {near[0]!r}?" if near else "name one of the operators"


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


def _topological(topology: Topology) -> tuple[list[int], list[str]]:
    """Kahn's order, smallest position first among the ready; and a cycle if there is one."""
    missing = [len(producers) for producers in topology.upstream]
    order = [i for i, count in enumerate(missing) if count == 0]
    for i in order:
        for j in topology.downstream[i]:
            missing[j] -= 1
            if missing[j] == 0:
                order.append(j)
    if len(order) == len(topology.operators):
        return order, []
    return order, _find_cycle(topology, {i for i, count in enumerate(missing) if count > 0})


def _find_cycle(topology: Topology, left: set[int]) -> list[str]:
    walk: list[int] = []
    at: dict[int, int] = {}
    node = min(left)
    while node not in at:
        at[node] = len(walk)
        walk.append(node)
        node = next(u for u in topology.upstream[node] if u in left)
    cycle = [*walk[at[node] :], node]
    names = [topology.operators[i].name for i in reversed(cycle)]
    return names if len(names) <= 8 else [*names[:4], "...", *names[-3:]]


def _spell(path: Path) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text


def iter_links(topology: Topology) -> Iterator[tuple[Edge, int, int, Partitioning]]:
    """Every edge with the positions of its ends and its effective partitioning."""
    index, operators = topology.index, topology.operators
    for edge in topology.edges:
        u, v = index[edge.source], index[edge.target]
        kind = effective_partitioning(
            edge.partitioning, operators[u].parallelism, operators[v].parallelism
        )
        yield edge, u, v, kind
