"""A stream: the output of one operator, and what can be made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack, overload

from holdfast.deployment import OutputMode
from holdfast.errors import BadInputError
from holdfast.pipeline.expressions import (
    JoinKind,
    OnColumns,
    Select,
    Where,
    WithColumns,
    join_kind,
    sql_texts,
)
from holdfast.pipeline.naming import derived, function_name, key_columns, named
from holdfast.pipeline.operators import OnError, OperatorFunction, PipelineOperator
from holdfast.pipeline.paths import (
    Path,
    PathState,
    Standby,
    hot_operators,
    hot_split,
    paths_between,
    split_operator,
)
from holdfast.pipeline.tables import StaticTable, WithTables

if TYPE_CHECKING:
    from holdfast.pipeline.api import Pipeline

Columns: TypeAlias = "str | Iterable[str]"
Output: TypeAlias = Literal["append", "upsert", "update"]
"""`update` is Structured Streaming's word for upserts."""


class JoinOptions(TypedDict, total=False):
    """What both forms of a join may be told, for type checkers; their defaults are below."""

    key: Columns | None
    other_key: Columns | None
    on: Columns | None
    how: JoinKind
    shards: int
    max_shards: int | None
    deterministic: bool
    on_error: OnError


@dataclass(frozen=True, slots=True)
class Stream:
    """The output of one operator, to be read by others.

    Every operator has a name, by which a run is resumed. It can be left out where the function has
    one: `lines.map(split)` is `lines.map("split", split)`.
    """

    pipeline: Pipeline
    name: str

    def map(
        self,
        name: str | OperatorFunction,
        function: OperatorFunction | None = None,
        *,
        key: Columns | None = None,
        shards: int = 1,
        max_shards: int | None = None,
        deterministic: bool = True,
        on_error: OnError = "fail",
        takes_upserts: bool = False,
    ) -> Stream:
        """A function of each batch of rows that keeps no state; of upserts it makes upserts.

        Without a `key` it runs in the shards of the operator before it. With one, by which rows are
        dealt out, it has `shards` of its own, and up to `max_shards`, a power of two, while it
        runs.
        """
        name, function = named(name, function, "map")
        if key is not None and self._upserts:
            raise BadInputError(
                "its rows are new versions of earlier ones, whose order several shards would lose",
                where=name,
                hint="leave its key out, or put it before the operator that makes upserts",
            )
        operator = PipelineOperator(
            name=name,
            kind="map",
            inputs=(self.name,),
            function=function,
            key=key_columns(key, name),
            shards=shards,
            max_shards=max_shards,
            deterministic=deterministic,
            on_error=on_error,
            takes_upserts=takes_upserts,
        )
        return self.pipeline._add(_keep_upserts(operator, self.operator))  # noqa: SLF001 - one API

    def where(self, condition: str, *, name: str | None = None) -> Stream:
        """The rows for which an SQL condition holds, named INPUT-where unless told otherwise."""
        name = name or derived(self.name, "where")
        (text,) = sql_texts((condition,), name)
        return self.map(name, Where(text), takes_upserts=self._upserts)

    def select(self, *expressions: str, name: str | None = None) -> Stream:
        """Columns and SQL expressions, named INPUT-select unless told otherwise."""
        name = name or derived(self.name, "select")
        return self.map(name, Select(sql_texts(expressions, name)), takes_upserts=self._upserts)

    def with_columns(self, *, name: str | None = None, **columns: str) -> Stream:
        """All columns and some made by SQL expressions; named INPUT-with-COLUMNS unless told."""
        name = name or derived(self.name, "with", *columns)
        texts = sql_texts(tuple(columns.values()), name)
        pairs = tuple(zip(columns, texts, strict=True))
        return self.map(name, WithColumns(pairs), takes_upserts=self._upserts)

    def aggregate(
        self,
        name: str | OperatorFunction,
        function: OperatorFunction | None = None,
        *,
        key: Columns | None = None,
        output: Output = "append",
        upsert_key: Columns | None = None,
        shards: int = 1,
        max_shards: int | None = None,
        deterministic: bool = True,
        on_error: OnError = "fail",
        takes_upserts: bool = False,
    ) -> Stream:
        """A groupBy: `append` gives a window's row once it has closed, `update` each new version.

        `key` names input columns by which the work may be sharded (all rows of a group must share
        it); without one the operator has one shard. With `max_shards`, a power of two, it can be
        given up to so many while it runs. `upsert_key` names the output columns that identify a
        row, by default those of `key`.
        """
        return self._keeping(
            "aggregate",
            *named(name, function, "aggregate"),
            key=key,
            output=output,
            upsert_key=upsert_key,
            shards=shards,
            max_shards=max_shards,
            deterministic=deterministic,
            on_error=on_error,
            takes_upserts=takes_upserts,
        )

    def stateful(
        self,
        name: str | OperatorFunction,
        function: OperatorFunction | None = None,
        *,
        key: Columns | None = None,
        output: Output = "append",
        upsert_key: Columns | None = None,
        shards: int = 1,
        max_shards: int | None = None,
        one_epoch_per_batch: bool = False,
        deterministic: bool = True,
        on_error: OnError = "fail",
        takes_upserts: bool = False,
    ) -> Stream:
        """Custom state: transformWithState, applyInPandasWithState, deduplication."""
        return self._keeping(
            "stateful",
            *named(name, function, "stateful"),
            key=key,
            output=output,
            upsert_key=upsert_key,
            shards=shards,
            max_shards=max_shards,
            one_epoch_per_batch=one_epoch_per_batch,
            deterministic=deterministic,
            on_error=on_error,
            takes_upserts=takes_upserts,
        )

    def _keeping(
        self,
        kind: Literal["aggregate", "stateful"],
        name: str,
        function: OperatorFunction,
        *,
        key: Columns | None,
        output: Output,
        upsert_key: Columns | None,
        **options: Any,
    ) -> Stream:
        """An operator of one stream that keeps state by key."""
        operator = PipelineOperator(
            name=name,
            kind=kind,
            inputs=(self.name,),
            function=function,
            key=key_columns(key, name),
            mode=_mode(output, name),
            upsert_key=key_columns(upsert_key, name),
            **options,
        )
        return self.pipeline._add(operator)  # noqa: SLF001 - one API in two classes

    @overload
    def join(
        self,
        name: str,
        other: Stream | StaticTable,
        function: OperatorFunction | None = None,
        **options: Unpack[JoinOptions],
    ) -> Stream: ...

    @overload
    def join(
        self,
        name: Stream | StaticTable,
        other: OperatorFunction | None = None,
        **options: Unpack[JoinOptions],
    ) -> Stream: ...

    def join(
        self,
        name: Any,
        other: Any = None,
        function: OperatorFunction | None = None,
        *,
        key: Columns | None = None,
        other_key: Columns | None = None,
        on: Columns | None = None,
        how: JoinKind = "inner",
        shards: int = 1,
        max_shards: int | None = None,
        deterministic: bool = True,
        on_error: OnError = "fail",
    ) -> Stream:
        """`function(left, right)` of two streams, or of a stream and a static table.

        Two streams need a `key`, and `other_key` if the right one names those columns otherwise. A
        static table needs none: it is joined row by row, as a map. `on` and `how` stand for a
        function there.
        """
        if not isinstance(name, str):
            name, other, function = None, name, other
        if isinstance(other, StaticTable):
            step = self._with_table(name, other, function, on, how)
            return self.map(*step, deterministic=deterministic, on_error=on_error)
        name = name or function_name(function, "join")
        if on is not None:
            raise BadInputError(
                "`on` is for static tables", where=name, hint="join two streams by a function"
            )
        operator = PipelineOperator(
            name=name,
            kind="join",
            inputs=(self.name, self.pipeline._own(other, name)),  # noqa: SLF001 - one API
            function=function,
            key=key_columns(key, name),
            other_key=key_columns(other_key, name),
            shards=shards,
            max_shards=max_shards,
            deterministic=deterministic,
            on_error=on_error,
        )
        return self.pipeline._add(operator)  # noqa: SLF001 - one API in two classes

    def union(self, name: str | Stream, *others: Stream) -> Stream:
        """All rows of several streams with the same columns, named union-A-B unless told."""
        if isinstance(name, Stream):
            others = (name, *others)
            name = derived("union", self.name, *(other.name for other in others))
        inputs = (self.name, *(self.pipeline._own(other, name) for other in others))  # noqa: SLF001
        return self.pipeline._add(PipelineOperator(name=name, kind="union", inputs=inputs))  # noqa: SLF001

    def paths(
        self,
        name: str,
        *,
        column: str | None = None,
        state: PathState = "fresh",
        standby: Standby = "cold",
        **paths: Callable[[Stream], Stream],
    ) -> Stream:
        """Several ways to make one stream, in order; one is taken at a time, at first the first.

        `events.paths("score", model=lambda s: s.map(...), rules=lambda s: s.map(...).map(...))`:
        each is a chain of operators, all with the same columns. `column` names a further one that
        says which path made a row. A path may keep state: when its turn comes it begins with none
        (`fresh`), or with that of the path before (`shared`), which all keep in the same way. With
        `standby="hot"` all paths run all along, each with its own state, and the rows of one count.
        """
        found = [one for path, build in paths.items() for one in self._built(name, path, build)]
        if standby == "hot":
            return self._hot(name, found, column=column, state=state)
        if standby != "cold":
            raise BadInputError(f"unknown standby {standby!r}", where=name, hint="cold or hot")
        operator = split_operator(name, self.name, found, column=column, state=state)
        return self.pipeline._add(operator)  # noqa: SLF001 - one API in two classes

    def _hot(self, name: str, paths: list[Path], *, column: str | None, state: PathState) -> Stream:
        """Paths that run along, each an operator, and what takes the rows of one of them."""
        if state != "fresh":
            raise BadInputError(
                "hot paths have their own state all along, and share none",
                where=name,
                hint='leave state out, or standby="cold"',
            )
        made = hot_operators(name, self.name, paths)
        for operator in made:
            self.pipeline._add(operator)  # noqa: SLF001 - one API in two classes
        return self.pipeline._add(hot_split(name, paths, made, column))  # noqa: SLF001 - one API

    def _built(self, split: str, path: str, build: Callable[[Stream], Stream]) -> list[Path]:
        """What a function makes of this stream, in a pipeline where it stays apart."""
        start = Stream(self.pipeline._only(self.name), self.name)  # noqa: SLF001 - one API
        end = build(start) if callable(build) else None
        if not isinstance(end, Stream) or end.pipeline is not start.pipeline:
            raise BadInputError(
                "must return a stream made of the one it is given",
                where=f"{split}:{path}",
                hint="lambda s: s.map(...)",
            )
        operators = {operator.name: operator for operator in start.pipeline.operators}
        return paths_between(operators, self.name, end.name, split=split, path=path)

    @property
    def operator(self) -> PipelineOperator:
        return self.pipeline.operator(self.name)

    @property
    def _upserts(self) -> bool:
        # An expression looks at one row at a time, so versions of rows do no harm to it.
        return self.operator.mode == "upsert"

    def _with_table(
        self,
        name: str | None,
        table: StaticTable,
        function: OperatorFunction | None,
        on: Columns | None,
        how: JoinKind,
    ) -> tuple[str, WithTables]:
        """Name and function of a join with a static table."""
        if name is None:
            name = function_name(function, "join") if function else derived(self.name, table.name)
        self.pipeline._own_table(table, name)  # noqa: SLF001 - one API in two classes
        if (function is None) == (on is None):
            raise BadInputError(
                "a join with a static table needs either a function or `on`",
                where=name,
                hint='write on="column", or a function(stream, table)',
            )
        if function is None:
            function = OnColumns(key_columns(on, name), join_kind(how, name))
        return name, WithTables(function, (table,))


def _mode(output: str, where: str) -> OutputMode:
    """Structured Streaming's words, and ours."""
    if output == "complete":
        raise BadInputError(
            "output 'complete' would write the whole result again with every batch",
            where=where,
            hint='write output="update": a Sqlite sink then holds the newest row of every key',
        )
    return "upsert" if output == "update" else output  # type: ignore[return-value] # checked later


def _keep_upserts(operator: PipelineOperator, producer: PipelineOperator) -> PipelineOperator:
    """A map of upserts gives upserts under the same key."""
    if producer.mode == "upsert":
        return replace(operator, mode="upsert", upsert_key=producer.upsert_key)
    return operator
