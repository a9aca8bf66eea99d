"""What makes a topology usable: checked once, when it is made.

Every complaint names the place in the file's own structure, so that a file's line can be found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING

from holdfast.errors import BadInputError
from holdfast.topology.links import effective_partitioning, reach

if TYPE_CHECKING:
    from holdfast.topology.graph import Edge, Operator, Topology

Path = tuple[str | int, ...]


class TopologyError(BadInputError):
    """A topology that cannot be; `path` leads to the place in the file's own structure."""

    def __init__(self, what: str, *, path: Path = (), hint: str = "") -> None:
        self.path = path
        super().__init__(what, where=_spell(path), hint=hint)


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


def check(topology: Topology) -> tuple[int, ...]:
    """Refuse what cannot be; the positions of the operators, every producer before its consumers.

    O(operators + edges).
    """
    if not topology.operators:
        raise TopologyError("the topology is empty", path=("operators",), hint="list an operator")
    seen: dict[str, int] = {}
    for i, operator in enumerate(topology.operators):
        _check_operator(operator, i)
        if operator.name in seen:
            raise TopologyError(
                f"operator name {operator.name!r} is used twice",
                path=("operators", i, "name"),
                hint="give every operator its own name",
            )
        seen[operator.name] = i
    _check_edges(topology, seen)
    order, cycle = _topological(topology)
    if cycle:
        raise TopologyError(
            f"the edges form a cycle: {' -> '.join(cycle)}",
            path=("edges",),
            hint="remove one of these edges; a topology has no cycles",
        )
    _check_rates(topology, seen)
    _check_queries(topology, seen)
    for name in ("tuple_cost", "state_cost", "tuple_fixed", "state_fixed"):
        _check_number(getattr(topology.storage, name), ("storage", name))
    return tuple(order)


def _check_operator(operator: Operator, i: int) -> None:
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
    if len(operator.paths) == 1 or len(set(operator.paths)) != len(operator.paths):
        raise TopologyError(
            f"operator {operator.name!r} has the paths {', '.join(operator.paths)}",
            path=("operators", i, "paths"),
            hint="name two or more, each once",
        )


def _check_number(value: float, path: Path) -> None:
    if math.isnan(value):
        raise TopologyError("is not a number", path=path, hint="write a finite number of 0 or more")
    if value < 0 or math.isinf(value):
        raise TopologyError(f"is {value:g}", path=path, hint="write a finite number of 0 or more")


def _check_edges(topology: Topology, index: Mapping[str, int]) -> None:
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


def _check_rates(topology: Topology, index: Mapping[str, int]) -> None:
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


def _check_queries(topology: Topology, index: Mapping[str, int]) -> None:
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
