"""Topology files: text to the frozen model and back.

The format is described by typed dictionaries that pydantic checks and turns into a JSON Schema.
Line numbers are worked out only when something is wrong: looking for them costs more than loading.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import lru_cache
from typing import Annotated, Any, Literal, NotRequired, cast

import yaml
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from holdfast.errors import BadInputError
from holdfast.topology.checks import Path, TopologyError
from holdfast.topology.graph import (
    Choice,
    Edge,
    InputKind,
    Operator,
    Query,
    Storage,
    Topology,
    UnitsOfMeasure,
)
from holdfast.topology.links import Partitioning
from holdfast.topology.locate import line_of

Format = Literal["yaml", "json"]

_STRICT = ConfigDict(extra="forbid", strict=True)

_Numbers = Annotated[float | list[float], Field(description="one value, or one per task")]


@with_config(_STRICT)
class OperatorEntry(TypedDict):
    """One operator; every field but the name has a default."""

    name: Annotated[str, Field(min_length=1)]
    parallelism: NotRequired[Annotated[int, Field(ge=1, description="number of tasks")]]
    input: NotRequired[Annotated[InputKind, Field(description="correlated: a join")]]
    selectivity: NotRequired[_Numbers]
    cost: NotRequired[_Numbers]
    tuple_size: NotRequired[_Numbers]
    state_size: NotRequired[_Numbers]
    failure_rate: NotRequired[_Numbers]
    reprocess_time: NotRequired[_Numbers]
    checkpoint_interval: NotRequired[_Numbers]
    min_interval: NotRequired[float]
    max_recovery: NotRequired[float]
    backup: NotRequired[Choice]
    backup_cost: NotRequired[_Numbers]
    replica: NotRequired[Choice]
    replica_cost: NotRequired[_Numbers]
    failure_domain: NotRequired[str | list[str]]
    paths: NotRequired[Annotated[list[str], Field(description="a split's, in their order")]]
    task_rates: NotRequired[Annotated[list[float], Field(description="a source's, per task")]]


EdgeEntry = TypedDict(  # `from` is a keyword, so the class form cannot say it
    "EdgeEntry",
    {
        "from": str,
        "to": str,
        "partitioning": NotRequired[Partitioning],
        "shares": NotRequired[
            Annotated[
                list[float] | list[list[float]],
                Field(description="per downstream task, or per upstream task a list"),
            ]
        ],
    },
)
EdgeEntry.__pydantic_config__ = _STRICT  # type: ignore[attr-defined]


@with_config(_STRICT)
class QueryEntry(TypedDict):
    """A sink with a priority."""

    name: str
    sink: str
    priority: NotRequired[float]


@with_config(_STRICT)
class UnitEntry(TypedDict, total=False):
    """What the numbers are counted in."""

    time: str
    size: str


@with_config(_STRICT)
class StorageEntry(TypedDict, total=False):
    """Time per size unit, and per access."""

    tuple_cost: float
    state_cost: float
    tuple_fixed: float
    state_fixed: float


@with_config(_STRICT)
class TopologyFile(TypedDict):
    """A Holdfast topology."""

    name: NotRequired[str]
    unit: NotRequired[UnitEntry]
    storage: NotRequired[StorageEntry]
    operators: list[OperatorEntry]
    edges: NotRequired[list[EdgeEntry]]
    rates: NotRequired[dict[str, float]]
    task_rates: NotRequired[dict[str, list[float]]]
    queries: NotRequired[list[QueryEntry]]


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[TopologyFile]:
    return TypeAdapter(TopologyFile)


def topology_schema() -> dict[str, Any]:
    """The JSON Schema of topology files."""
    schema = _adapter().json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def parse_topology(
    text: str,
    *,
    format: Format,
    origin: str,
    name: str = "topology",
) -> Topology:
    """Read a topology; `origin` is what error messages call the text, `name` its default name."""
    data = _parse_json(text, origin) if format == "json" else _parse_yaml(text, origin)
    if not isinstance(data, dict):
        raise BadInputError(
            "is not a topology" if data is not None else "is empty",
            where=origin,
            hint="write a mapping with an `operators:` list",
        )
    try:
        return _build(cast("dict[str, Any]", _adapter().validate_python(data)), name)
    except ValidationError as error:
        path, what, hint = _first_problem(error, data)
        spelled = TopologyError(what, path=path, hint=hint)
    except TopologyError as error:
        path, spelled = error.path, error
    line = line_of(text, format, path)
    place = f"{origin}:{line}" if line else origin
    where = f"{place}: {spelled.where}" if spelled.where else place
    raise BadInputError(spelled.what, where=where, hint=spelled.hint)


def dump_topology(topology: Topology, format: Format = "yaml") -> str:
    """Write a topology so that reading it back gives an equal one."""
    data = topology_to_dict(topology)
    if format == "json":
        return json.dumps(data, indent=1) + "\n"
    return yaml.dump(
        data,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=120,
        default_flow_style=None,
    )


def topology_to_dict(topology: Topology) -> dict[str, Any]:
    """The plain form of a topology, defaults left out."""
    data: dict[str, Any] = {"name": topology.name}
    for key, value in (("unit", topology.unit), ("storage", topology.storage)):
        entry = _set_fields(value)
        if entry:
            data[key] = entry
    data["operators"] = [_set_fields(operator) for operator in topology.operators]
    if topology.edges:
        data["edges"] = [
            {
                {"source": "from", "target": "to"}.get(key, key): value
                for key, value in entry.items()
            }
            for entry in map(_set_fields, topology.edges)
        ]
    if topology.rates:
        data["rates"] = dict(topology.rates)
    if topology.task_rates:
        data["task_rates"] = {name: list(rates) for name, rates in topology.task_rates.items()}
    if topology.queries:
        data["queries"] = [_set_fields(query) for query in topology.queries]
    return data


# -- reading -------------------------------------------------------------------------------------


def _build(data: Mapping[str, Any], name: str) -> Topology:
    task_rates = {key: tuple(value) for key, value in data.get("task_rates", {}).items()}
    operators = []
    for entry in data["operators"]:
        for key in entry:
            if type(entry[key]) is list:
                entry[key] = tuple(entry[key])
        own = entry.pop("task_rates", None)
        if own is not None:
            task_rates[entry["name"]] = own
        operators.append(Operator(**entry))
    return Topology(
        name=data.get("name", name),
        operators=tuple(operators),
        edges=tuple(_edge(entry) for entry in data.get("edges", ())),
        rates=data.get("rates", {}),
        task_rates=task_rates,
        queries=tuple(Query(**entry) for entry in data.get("queries", ())),
        unit=UnitsOfMeasure(**data.get("unit", {})),
        storage=Storage(**data.get("storage", {})),
    )


def _edge(entry: Mapping[str, Any]) -> Edge:
    shares = entry.get("shares")
    if shares is not None:
        shares = tuple(tuple(row) if isinstance(row, list) else row for row in shares)
    return Edge(
        source=entry["from"],
        target=entry["to"],
        partitioning=entry.get("partitioning", "full"),
        shares=shares,
    )


def _parse_json(text: str, origin: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise BadInputError(
            f"is not JSON: {error.msg.lower()}", where=f"{origin}:{error.lineno}"
        ) from None
    except _DuplicateKeyError as error:
        raise BadInputError(
            f"the key {error.key!r} is given twice", where=origin, hint="keep one of them"
        ) from None
    except RecursionError:
        raise BadInputError("is nested too deeply to be a topology", where=origin) from None


_MAX_DEPTH = 200
_DEEP_BLOCKS = re.compile(rf"(?:[-?:] +){{{_MAX_DEPTH}}}|^ {{{10 * _MAX_DEPTH}}}", re.MULTILINE)


def _check_depth(text: str, origin: str) -> None:
    """Refuse deep nesting before the C parser sees it: its recursion would end the process."""
    deep = _DEEP_BLOCKS.search(text) is not None
    if not deep and text.count("[") + text.count("{") > _MAX_DEPTH:
        depth = 0
        for match in re.finditer(r"[\[\]{}]", text):
            depth += 1 if match[0] in "[{" else -1
            if depth > _MAX_DEPTH:
                deep = True
                break
    if deep:
        raise BadInputError("is nested too deeply to be a topology", where=origin)


def _parse_yaml(text: str, origin: str) -> Any:
    _check_depth(text, origin)
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506  the loader is a safe one
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise BadInputError(f"is not YAML: {error.problem}", where=f"{origin}{line}") from None
    except yaml.YAMLError as error:
        first = str(error).splitlines()[0]
        raise BadInputError(f"is not YAML: {first}", where=origin) from None
    except (RecursionError, ValueError) as error:
        said = "is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise BadInputError(f"is not a topology: {said}", where=origin) from None


class _DuplicateKeyError(Exception):
    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(key)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKeyError(key)
            seen.add(key)
    return found


_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BaseDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Loader(_BaseLoader):  # type: ignore[misc]
    """Safe YAML by the 1.2 rules people expect: `no` is a word, `1e-5` a number."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, Any]]] = {}  # noqa: RUF012

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        found = super().construct_mapping(node, deep=deep)
        if len(found) != len(node.value):
            keys = [key.value for key, _ in node.value]
            twice = next((key for key in keys if keys.count(key) > 1), "<<")
            if twice != "<<":
                raise yaml.MarkedYAMLError(
                    problem=f"the key {twice!r} is given twice", problem_mark=node.start_mark
                )
        return found


def _resolvers() -> None:
    for tag, pattern, first in (
        ("null", r"(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
        ("bool", r"(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
        ("int", r"[-+]?[0-9]+$", list("-+0123456789")),
        (
            "float",
            r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
            list("-+.0123456789"),
        ),
    ):
        _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), first)
    _Loader.add_constructor(
        "tag:yaml.org,2002:int", lambda loader, node: int(loader.construct_scalar(node))
    )


_resolvers()


# -- telling what is wrong -----------------------------------------------------------------------

_FIELDS = {
    "operators": tuple(OperatorEntry.__annotations__),
    "edges": ("from", "to", "partitioning", "shares"),
    "queries": tuple(QueryEntry.__annotations__),
    "unit": ("time", "size"),
    "storage": tuple(StorageEntry.__annotations__),
    "": tuple(TopologyFile.__annotations__),
}


def _first_problem(error: ValidationError, data: Mapping[str, Any]) -> tuple[Path, str, str]:
    # The input is left out on purpose: its text can be as large as the file.
    problem = error.errors(include_input=False, include_url=False)[0]
    path = _real_path(problem["loc"], data)
    kind = problem["type"]
    allowed = _FIELDS.get(str(path[0]) if len(path) > 1 else "", _FIELDS[""])
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(str(path[-1]), allowed, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known fields: {', '.join(allowed)}"
        return path, "unknown field", hint
    if kind == "missing":
        return path[:-1], f"the field {path[-1]!r} is missing", f"write {path[-1]}: ..."
    if kind == "literal_error":
        return path, "unknown value", f"write {problem['ctx']['expected']}"
    message = problem["msg"].replace("Input should be", "should be").replace("valid ", "")
    message = message.replace("a integer", "a whole number")
    hint = "write a number without quotes" if path and path[-1] in _NUMBER_FIELDS else ""
    return path, message[:1].lower() + message[1:], hint


_NUMBER_FIELDS = {field.name for field in fields(Operator) if "Numbers" in str(field.type)} | {
    "min_interval",
    "max_recovery",
    "priority",
}


def _real_path(loc: tuple[str | int, ...], data: Any) -> Path:
    """Pydantic's location without the names of union branches it tried."""
    path: list[str | int] = []
    at = data
    for part in loc:
        if isinstance(at, dict):
            path.append(part)
            at = at.get(part)
        elif isinstance(at, list) and isinstance(part, int) and part < len(at):
            path.append(part)
            at = at[part]
    return tuple(path)


# -- writing -------------------------------------------------------------------------------------


def _set_fields(value: Any) -> dict[str, Any]:
    """The fields of a frozen value that differ from their defaults, in order."""
    entry: dict[str, Any] = {}
    for field in fields(value):
        own = getattr(value, field.name)
        if field.default is not MISSING and own == field.default:
            continue
        entry[field.name] = _listed(own)
    return entry


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value


class _Dumper(_BaseDumper):  # type: ignore[misc]
    """Safe YAML without anchors for repeated values."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _represent_str(dumper: Any, text: str) -> Any:
    # Quote what the 1.1 reader of other tools would take for a boolean, and what ours would take
    # for a number: `1e5` is one by the rules of 1.2, and PyYAML writes by those of 1.1.
    taken = text.lower() in ("y", "n", "yes", "no", "on", "off") or any(
        pattern.match(text) for _, pattern in _Loader.yaml_implicit_resolvers.get(text[:1], ())
    )
    style = "'" if taken else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_str)

__all__ = [
    "Format",
    "dump_topology",
    "parse_topology",
    "topology_schema",
    "topology_to_dict",
]
