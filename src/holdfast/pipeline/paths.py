"""Alternative paths: several ways to make one stream, of which one is taken at a time.

`events.paths("score", model=lambda s: s.map(...), rules=lambda s: s.map(...).map(...))` is one
operator whose function is a `Paths`: it takes rows of `events` along one of its paths, at first the
first. A run may have the stream change hands while it goes on: the units of the old path are
stopped where they are, those of the new one begin right there.

A path is a chain of maps on the split's stream. A path may split again: then each of the inner
paths is one of the outer, named `model/fast`, in its place of the order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from holdfast.deployment import PATH_MARK
from holdfast.errors import BadInputError
from holdfast.pipeline.operators import PipelineOperator
from holdfast.pipeline.tables import WithTables


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One way: maps, one after another."""

    name: str
    operators: tuple[PipelineOperator, ...]

    def __call__(self, frame: Any) -> Any:
        for operator in self.operators:
            if operator.function is None:
                raise BadInputError("has no function to run", where=operator.name)
            frame = operator.function(frame)
        return frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """The function of a split: that of the path which is taken."""

    paths: tuple[Path, ...]
    """In their order: the first is taken unless told otherwise."""
    column: str | None = None
    """An output column that names the path which made the row; None: there is none."""
    taken: str = ""
    """Empty: the first."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(path.name for path in self.paths)

    def taking(self, name: str) -> Self:
        """The same split on another path."""
        if name not in self.names:
            raise BadInputError(f"no path {name!r}", hint=f"there are: {', '.join(self.names)}")
        return replace(self, taken=name)

    def __call__(self, frame: Any) -> Any:
        path = next((one for one in self.paths if one.name == self.taken), self.paths[0])
        result = path(frame)
        if self.column is None:
            return result
        return result.selectExpr("*", f"'{path.name}' AS `{self.column}`")


def paths_of(operator: PipelineOperator) -> Paths | None:
    """The paths of a split; None: the operator is none."""
    return operator.function if isinstance(operator.function, Paths) else None


def taking(split: str, path: str) -> Callable[[PipelineOperator], PipelineOperator]:
    """What `Pipeline.replaced` needs to have a split take one of its paths."""

    def change(operator: PipelineOperator) -> PipelineOperator:
        found = paths_of(operator)
        if operator.name != split or found is None:
            return operator
        return replace(operator, function=found.taking(path))

    return change


def split_operator(
    name: str, source: str, paths: Sequence[Path], column: str | None
) -> PipelineOperator:
    """The operator of a split that reads `source`; raises BadInputError."""
    if len(paths) < 2:
        raise BadInputError("needs at least two paths", where=name, hint="model=..., rules=...")
    if column is not None and not (column.isascii() and column.isidentifier()):
        raise BadInputError(f"{column!r} cannot be a column", where=name)
    return PipelineOperator(
        name=name,
        kind="map",
        inputs=(source,),
        function=Paths(paths=tuple(paths), column=column),
        deterministic=all(op.deterministic for path in paths for op in path.operators),
        takes_upserts=all(op.takes_upserts for path in paths for op in path.operators),
    )


def paths_between(
    operators: Mapping[str, PipelineOperator], start: str, end: str, *, split: str, path: str
) -> list[Path]:
    """The paths that one function has made of the operator `start`: several if it splits again."""
    where = f"{split}{PATH_MARK}{path}"
    chain: list[PipelineOperator] = []
    at = end
    while at != start:
        _check_member(operators[at], where)
        chain.insert(0, operators[at])
        (at,) = operators[at].inputs
    if not chain:
        raise BadInputError("does nothing", where=where, hint="give it at least one map")
    left = set(operators) - {start, *(operator.name for operator in chain)}
    if left:
        raise BadInputError(f"nothing reads {min(left)!r}", where=where)
    return _flat(path, chain)


def _check_member(operator: PipelineOperator, where: str) -> None:
    if operator.kind != "map":
        raise BadInputError(
            f"a path is made of maps, and {operator.name!r} is a {operator.kind}",
            where=where,
            hint="put it before the split or after it",
        )
    if operator.key:
        raise BadInputError(
            f"{operator.name!r} has a key, and a path has one shard",
            where=where,
            hint="leave it out, or put it before the split or after it",
        )
    if isinstance(operator.function, WithTables):
        raise BadInputError(
            f"{operator.name!r} joins a static table, which a path cannot",
            where=where,
            hint="join before the split or after it",
        )
    if operator.on_error != "fail":
        raise BadInputError(
            f"{operator.name!r} quarantines, which a path cannot",
            where=where,
            hint="put it before the split or after it",
        )


def _flat(name: str, chain: list[PipelineOperator]) -> list[Path]:
    for place, operator in enumerate(chain):
        inner = paths_of(operator)
        if inner is not None:
            if inner.column is not None:
                raise BadInputError(
                    "only the outermost split can name the path in a column", where=operator.name
                )
            return [
                flat
                for one in inner.paths
                for flat in _flat(
                    f"{name}/{one.name}", [*chain[:place], *one.operators, *chain[place + 1 :]]
                )
            ]
    return [Path(name=name, operators=tuple(chain))]
