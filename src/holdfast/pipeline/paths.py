"""Alternative paths: several ways to make one stream, of which one is taken at a time.

`events.paths("score", model=lambda s: s.map(...), rules=lambda s: s.map(...).map(...))` is one
operator whose function is a `Paths`: it takes rows of `events` along one of its paths, at first the
first. A run may have the stream change hands while it goes on: the units of the old path are
stopped where they are, those of the new one begin right there.

A path is a chain of operators on the split's stream, of which one may keep state. A path may split
again: then each of the inner paths is one of the outer, named `model/fast`, in its place of the
order.

What a path finds when its turn comes: *fresh* state is empty, *shared* state is that of the path
before, so that all of them must keep it in the same way.

A *cold* path runs only while it is taken. *Hot* ones run all along: each is an operator of its own,
`score.model`, with a log and with state that is always right, and the split takes the rows of one.
All of them end a batch with every epoch, so that each can go on wherever another one has stopped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypeAlias, get_args

from holdfast.deployment import PATH_MARK
from holdfast.errors import BadInputError
from holdfast.pipeline.operators import OperatorKind, PipelineOperator
from holdfast.pipeline.tables import WithTables

PathState: TypeAlias = Literal["fresh", "shared"]
Standby: TypeAlias = Literal["cold", "hot"]
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
MEMBERS: frozenset[OperatorKind] = frozenset({"map", "aggregate", "stateful"})
"""Kinds that a path can be made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One way: operators, one after another."""

    name: str
    operators: tuple[PipelineOperator, ...]

    @property
    def keeper(self) -> PipelineOperator | None:
        """The one that keeps state, if one does."""
        return next((one for one in self.operators if one.keeps_state), None)

    @property
    def kind(self) -> OperatorKind:
        """What it is as a whole."""
        return self.keeper.kind if self.keeper is not None else "map"

    def up_to_state(self) -> Self:
        """What comes before the one that keeps state."""
        place = next(i for i, one in enumerate(self.operators) if one.keeps_state)
        return replace(self, operators=self.operators[:place])

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
    shared_state: bool = False
    """A path begins with the state of the one before; else with none."""
    hot_paths: tuple[str, ...] = ()
    """The operators that are its paths, in their order, if all of them run along."""

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
        result = frame if self.hot_paths else path(frame)
        if self.column is None:
            return result
        return result.selectExpr("*", f"'{path.name}' AS `{self.column}`")


def paths_of(operator: PipelineOperator) -> Paths | None:
    """The paths of a split; None: the operator is none."""
    return operator.function if isinstance(operator.function, Paths) else None


def hot_path_of(operator: PipelineOperator) -> str:
    """The path that an operator is, of a split whose paths run along; empty: it is none."""
    return operator.function.name if isinstance(operator.function, Path) else ""


def taking(split: str, path: str) -> Callable[[PipelineOperator], PipelineOperator]:
    """What `Pipeline.replaced` needs to have a split take one of its paths."""

    def change(operator: PipelineOperator) -> PipelineOperator:
        found = paths_of(operator)
        if operator.name != split or found is None:
            return operator
        taken = replace(operator, function=found.taking(path))
        if not found.hot_paths:
            return taken
        place = found.names.index(path)
        return replace(taken, kind="map", inputs=(found.hot_paths[place],))

    return change


def split_operator(
    name: str, source: str, paths: Sequence[Path], *, column: str | None, state: PathState
) -> PipelineOperator:
    """The operator of a split that reads `source`; raises BadInputError."""
    if len(paths) < 2:
        raise BadInputError("needs at least two paths", where=name, hint="model=..., rules=...")
    if column is not None and not (column.isascii() and column.isidentifier()):
        raise BadInputError(f"{column!r} cannot be a column", where=name)
    if state not in get_args(PathState):
        raise BadInputError(f"unknown state {state!r}", where=name, hint="fresh or shared")
    _check_states(name, paths, state)
    _check_modes(name, paths)
    members = [operator for path in paths for operator in path.operators]
    last = paths[0].operators[-1]
    return PipelineOperator(
        name=name,
        kind="stateful" if any(path.keeper for path in paths) else "map",
        inputs=(source,),
        function=Paths(paths=tuple(paths), column=column, shared_state=state == "shared"),
        mode=last.mode,
        upsert_key=last.upsert_key,
        deterministic=all(member.deterministic for member in members),
        takes_upserts=all(member.takes_upserts for member in members),
        one_epoch_per_batch=any(member.one_epoch_per_batch for member in members),
    )


def hot_name(split: str, path: str) -> str:
    """What the operator is called that is a hot path of a split."""
    return f"{split}.{path.replace('/', '.')}"


def hot_operators(name: str, source: str, paths: Sequence[Path]) -> list[PipelineOperator]:
    """An operator for each path of a split that is to run along; raises BadInputError."""
    split_operator(name, source, paths, column=None, state="fresh")
    if len({path.keeper is None for path in paths}) > 1:
        # One with state gives rows out later, which the other has ruled out by its watermark.
        raise BadInputError(
            "hot paths keep state all or none, and one here does while another does not",
            where=name,
            hint='standby="cold"',
        )
    return [
        replace(
            path.operators[-1],
            name=hot_name(name, path.name),
            kind=path.kind,
            inputs=(source,),
            function=path,
            key=(),
            deterministic=all(one.deterministic for one in path.operators),
            takes_upserts=all(one.takes_upserts for one in path.operators),
            one_epoch_per_batch=True,
        )
        for path in paths
    ]


def hot_split(
    name: str, paths: Sequence[Path], operators: Sequence[PipelineOperator], column: str | None
) -> PipelineOperator:
    """The split that takes the rows of one of these operators."""
    names = tuple(operator.name for operator in operators)
    first = operators[0]
    return PipelineOperator(
        name=name,
        kind="union",
        inputs=names,
        function=Paths(paths=tuple(paths), column=column, hot_paths=names),
        mode=first.mode,
        upsert_key=first.upsert_key,
        takes_upserts=True,
    )


def _check_states(name: str, paths: Sequence[Path], state: PathState) -> None:
    """What a path with state asks of itself and of the others."""
    for path in paths:
        where = f"{name}{PATH_MARK}{path.name}"
        keepers = [operator.name for operator in path.operators if operator.keeps_state]
        if len(keepers) > 1:
            raise BadInputError(
                f"{keepers[0]!r} and {keepers[1]!r} keep state, and a path has room for one",
                where=where,
                hint="put one of them before the split or after it",
            )
        if state == "shared" and not keepers:
            raise BadInputError(
                "keeps no state that it could share with the others",
                where=where,
                hint='state="fresh", or give all paths the same stateful operator',
            )
    chance = [one.name for path in paths for one in path.operators if not one.deterministic]
    if chance and any(path.keeper for path in paths):
        # A redo would put other rows into the state than those that were published.
        raise BadInputError(
            f"its paths keep state, so {chance[0]!r} must be deterministic",
            where=name,
            hint="put it before the split or after it",
        )


def _check_modes(name: str, paths: Sequence[Path]) -> None:
    first, *others = [(path.name, path.operators[-1]) for path in paths]
    for path, last in others:
        if (last.mode, last.upsert_key) != (first[1].mode, first[1].upsert_key):
            told = [_mode(one) for one in (last, first[1])]
            raise BadInputError(
                f"its path {path!r} gives {told[0]}, {first[0]!r} gives {told[1]}",
                where=name,
                hint="all paths must have the same output and the same upsert_key",
            )


def _mode(operator: PipelineOperator) -> str:
    by = f" by {', '.join(operator.upsert_key)}" if operator.upsert_key else ""
    return f"{operator.mode}s{by}"


def paths_between(
    operators: Mapping[str, PipelineOperator], start: str, end: str, *, split: str, path: str
) -> list[Path]:
    """The paths that one function has made of the operator `start`: several if it splits again."""
    where = f"{split}{PATH_MARK}{path}"
    if not _NAME.fullmatch(path):
        # What is nested is named by a slash, what a unit runs by a colon, a fork by a plus.
        raise BadInputError(
            f"{path!r} cannot be a path's name",
            where=split,
            hint="start with a letter; letters, digits, '_', '-' and '.', at most 64",
        )
    chain: list[PipelineOperator] = []
    at = end
    while at != start:
        _check_member(operators[at], where)
        chain.insert(0, operators[at])
        (at,) = operators[at].inputs
    if not chain:
        raise BadInputError("does nothing", where=where, hint="give it at least one operator")
    left = set(operators) - {start, *(operator.name for operator in chain)}
    if left:
        raise BadInputError(f"nothing reads {min(left)!r}", where=where)
    return _flat(path, chain)


def _check_member(operator: PipelineOperator, where: str) -> None:
    if paths_of(operator) is not None and operator.kind not in MEMBERS:
        raise BadInputError(
            f"{operator.name!r} has hot paths, which only the outermost split can",
            where=where,
            hint='say standby="hot" there, and leave it out here',
        )
    if operator.kind not in MEMBERS:
        raise BadInputError(
            f"a path has one input, and {operator.name!r} is a {operator.kind}",
            where=where,
            hint="put it before the split or after it",
        )
    if operator.shards > 1 or operator.max_shards is not None:
        raise BadInputError(
            f"{operator.name!r} asks for shards, and a path has one",
            where=where,
            hint="leave shards and max_shards out, or put it before the split or after it",
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
            if inner.shared_state:
                raise BadInputError(
                    "only the outermost split can say that paths share state", where=operator.name
                )
            return [
                flat
                for one in inner.paths
                for flat in _flat(
                    f"{name}/{one.name}", [*chain[:place], *one.operators, *chain[place + 1 :]]
                )
            ]
    return [Path(name=name, operators=tuple(chain))]
