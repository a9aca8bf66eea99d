"""The pipeline as its author writes it: sources, streams, operators, sinks.

A `Pipeline` only collects frozen `PipelineOperator` values; nothing here imports Spark, so a
pipeline can be planned, drawn and cut on a machine that has none. A stream can only be made from
streams that are there already, so a pipeline is acyclic by construction and its operators stand in
topological order. Each mistake is reported where it is made, in one line that names the operator.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, get_args

from holdfast.deployment import KEY_GROUPS, OutputMode
from holdfast.deployment.blocks import check_max_shards
from holdfast.errors import BadInputError
from holdfast.pipeline.naming import key_columns
from holdfast.pipeline.operators import OnError, OperatorKind, PipelineOperator
from holdfast.pipeline.problems import report
from holdfast.pipeline.sinks import Sink, overlaps
from holdfast.pipeline.sources import Source, SparkSource
from holdfast.pipeline.stream import Stream
from holdfast.pipeline.tables import StaticTable, Table
from holdfast.quantities import parse_time

if TYPE_CHECKING:
    from holdfast.topology.graph import Topology

ExpectedRows: TypeAlias = list[dict[str, Any]]
ExpectedFunction: TypeAlias = Callable[[Mapping[str, ExpectedRows]], ExpectedRows]
_ExpectedT = TypeVar("_ExpectedT", bound=ExpectedFunction)

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """Which column says when a row happened, and how long to wait for late ones."""

    column: str
    delay_s: float
    """A row older than the newest one seen by its source by more than this is late, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """An independent computation of a sink's content, for `holdfast verify`."""

    function: ExpectedFunction
    """Kept rows by source name -> the rows the sink must hold once everything has closed."""
    closes: str | None = None
    """Column of the result that the watermark must have passed before a row is due; None: every row
    is due as soon as its input's epoch is delivered."""


class Pipeline:
    """A named DAG of operators with one clock and one event-time column."""

    def __init__(
        self,
        name: str,
        *,
        event_time: str | tuple[str, str | float] | None = None,
        watermark: str | float | None = None,
        epoch: str | float = "1s",
    ) -> None:
        """`event_time="ts", watermark="10 seconds"`: which column says when a row happened, and how
        long to wait for late ones; the pair `("ts", "10 seconds")` says the same.
        """
        if not _NAME.fullmatch(name):
            raise BadInputError(f"{name!r} cannot be a pipeline's name", hint=_NAME_HINT)
        self.name = name
        self.epoch_s = parse_time(epoch, where=name)
        """Length of an epoch, seconds."""
        if self.epoch_s <= 0:
            raise BadInputError("epoch must be greater than 0", where=name)
        self.event_time = _event_time(event_time, watermark, name)
        """None: no watermark, so nothing closes by time."""
        self._operators: dict[str, PipelineOperator] = {}
        self._expected: dict[str, Expected] = {}
        self._tables: dict[str, StaticTable] = {}
        self.broken: set[str] = set()
        """Operators against a rule; always empty unless problems are collected."""

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, operators={list(self._operators)})"

    @property
    def operators(self) -> tuple[PipelineOperator, ...]:
        """Every operator, sinks included, upstream before downstream."""
        return tuple(self._operators.values())

    @property
    def sources(self) -> tuple[PipelineOperator, ...]:
        return tuple(operator for operator in self.operators if operator.kind == "source")

    @property
    def sinks(self) -> tuple[PipelineOperator, ...]:
        return tuple(operator for operator in self.operators if operator.kind == "sink")

    @property
    def expectations(self) -> Mapping[str, Expected]:
        """The independent computations registered with `expected`, by sink."""
        return dict(self._expected)

    def operator(self, name: str) -> PipelineOperator:
        """The operator of that name."""
        try:
            return self._operators[name]
        except KeyError:
            raise BadInputError(
                f"no operator {name!r}",
                where=self.name,
                hint=f"it has {', '.join(self._operators) or 'none'}",
            ) from None

    def consumers(self, name: str) -> tuple[PipelineOperator, ...]:
        """The operators that read the output of `name`, sinks included."""
        return tuple(operator for operator in self.operators if name in operator.inputs)

    def source(
        self, name: str, source: Source, *, parallelism: int = 1, max_shards: int | None = None
    ) -> Stream:
        """A stream of rows from outside.

        With `max_shards`, a power of two, the number of its shards can be changed while it runs.
        Its rows, or its files, are dealt out over so many parts, of which every shard reads some:
        so what is read does not depend on how many shards there are.
        """
        if not isinstance(source, get_args(Source)):
            raise BadInputError(
                f"{source!r} is not a source",
                where=name,
                hint="use Rate, Files, Generator or SparkSource",
            )
        return self._add(
            PipelineOperator(
                name=name,
                kind="source",
                source=source,
                shards=parallelism,
                max_shards=max_shards,
            )
        )

    def sink(self, name: str, stream: Stream, sink: Sink, *, priority: float = 1.0) -> None:
        """Deliver a stream.

        When failures leave too few places or too little input for all sinks, what is worth more
        comes back first and goes on first; a sink of priority 0 waits for its input.
        """
        if not isinstance(sink, get_args(Sink)):
            raise BadInputError(
                f"{sink!r} is not a sink",
                where=name,
                hint="use Parquet, Sqlite, Console or ForeachBatch",
            )
        if not isinstance(priority, int | float) or not 0 <= priority < math.inf:
            raise BadInputError(
                f"priority is {priority!r}", where=name, hint="a number, 0 or greater; usual is 1"
            )
        self._add(
            PipelineOperator(
                name=name,
                kind="sink",
                inputs=(self._own(stream, name),),
                sink=sink,
                priority=float(priority),
                takes_upserts=True,
            )
        )

    def table(self, name: str, table: Table) -> StaticTable:
        """A static table to join streams with, read once when a run begins."""
        if not isinstance(table, Table):
            raise BadInputError(
                f"{table!r} is not a table", where=name, hint='use Table("file.csv", "id bigint")'
            )
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise BadInputError(f"{name!r} cannot be a table's name", hint=_NAME_HINT)
        if name in self._tables:
            raise BadInputError("there is a table of that name already", where=name)
        self._tables[name] = StaticTable(name, table)
        return self._tables[name]

    def expected(
        self, sink: str, *, closes: str | None = None
    ) -> Callable[[_ExpectedT], _ExpectedT]:
        """Register the plain-Python computation of what a sink must hold; see `Expected`."""
        if self.operator(sink).kind != "sink":
            raise BadInputError("only a sink's content can be expected", where=sink)

        def register(function: _ExpectedT) -> _ExpectedT:
            self._expected[sink] = Expected(function=function, closes=closes)
            return function

        return register

    def validate(self) -> None:
        """Report what can only be seen once the pipeline is whole."""
        if not self.sinks:
            report(BadInputError("has no sink", where=self.name, hint="end it with p.sink(...)"))
        elif not any(sink.priority for sink in self.sinks):
            report(BadInputError("every sink has priority 0", where=self.name, hint="raise one"))
        for operator in self.operators:
            if self.sinks and operator.kind != "sink" and not self.consumers(operator.name):
                report(
                    BadInputError(
                        "nothing reads its output", where=operator.name, hint="give it a sink"
                    )
                )
        # Where relative paths begin is known only when it runs, and looked at again then.
        sinks = [(sink.name, sink.sink) for sink in self.sinks if sink.sink is not None]
        for problem in overlaps(sinks, "/run directory"):
            report(problem)

    def replaced(
        self,
        change: Callable[[PipelineOperator], PipelineOperator],
        *,
        epoch_s: float | None = None,
    ) -> Pipeline:
        """A copy with every operator changed, for trying it out with other sources and sinks."""
        copy = Pipeline(self.name, epoch=epoch_s or self.epoch_s)
        copy.event_time = self.event_time
        copy._tables = dict(self._tables)
        copy._expected = dict(self._expected)
        copy._operators = {name: change(one) for name, one in self._operators.items()}
        return copy

    def _only(self, name: str) -> Pipeline:
        """A pipeline of one of the operators alone, for what is tried out on its output."""
        copy = self.replaced(lambda operator: operator)
        copy._operators = {name: self.operator(name)}  # noqa: SLF001 - of its own kind
        return copy

    def topology(self, *, shards: Mapping[str, int] | None = None) -> Topology:
        """The planner's view of this pipeline; see `holdfast.pipeline.graph`."""
        from holdfast.pipeline.graph import topology  # noqa: PLC0415 - it imports this module

        return topology(self, shards=shards)

    def _own(self, stream: Stream, where: str) -> str:
        if not isinstance(stream, Stream):
            raise BadInputError(f"{stream!r} is not a stream", where=where)
        if stream.pipeline is not self:
            raise BadInputError(
                f"the stream {stream.name!r} belongs to the pipeline {stream.pipeline.name!r}",
                where=where,
            )
        return stream.name

    def _own_table(self, table: StaticTable, where: str) -> None:
        if self._tables.get(table.name) is not table:
            raise BadInputError(
                f"the table {table.name!r} belongs to another pipeline", where=where
            )

    def _add(self, operator: PipelineOperator) -> Stream:
        if operator.name in self._operators:
            report(
                BadInputError(
                    "there is an operator of that name already",
                    where=operator.name,
                    hint="give this one another name",
                )
            )
            return Stream(self, operator.name)
        try:
            _check(operator, [self._operators[name] for name in operator.inputs])
        except BadInputError as problem:
            report(problem)
            self.broken.add(operator.name)
        if operator.mode == "upsert" and not operator.upsert_key:
            operator = replace(operator, upsert_key=operator.key)
        self._operators[operator.name] = operator
        return Stream(self, operator.name)


_NAME_HINT = "start with a letter; letters, digits, '_', '-' and '.', at most 64"
_FUNCTION_KINDS: frozenset[OperatorKind] = frozenset({"map", "aggregate", "stateful", "join"})


def _check(operator: PipelineOperator, inputs: list[PipelineOperator]) -> None:
    """Every rule that needs the operator and its inputs only."""
    name = operator.name
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadInputError(f"{name!r} cannot be an operator's name", hint=_NAME_HINT)
    if operator.kind in _FUNCTION_KINDS and not callable(operator.function):
        raise BadInputError(f"{operator.function!r} is not a function", where=name)
    _check_options(operator)
    if len(set(operator.inputs)) != len(operator.inputs):
        raise BadInputError(
            f"reads {operator.inputs[-1]!r} twice", where=name, hint="put a map between them"
        )
    if operator.kind == "union" and len(inputs) < 2:
        raise BadInputError("a union needs at least two streams", where=name)
    for producer in inputs:
        if producer.kind == "sink":
            raise BadInputError(f"cannot read the sink {producer.name!r}", where=name)
        if producer.mode == "upsert" and not operator.takes_upserts:
            raise BadInputError(
                f"reads the upserts of {producer.name!r}, and would take each new version of a row "
                "for another row",
                where=name,
                hint="declare takes_upserts=True if its function copes, or make "
                f"{producer.name!r} append",
            )


def _check_options(operator: PipelineOperator) -> None:
    name = operator.name
    if operator.mode not in get_args(OutputMode):
        raise BadInputError(
            f"unknown output {operator.mode!r}", where=name, hint="append or update"
        )
    if operator.on_error not in get_args(OnError):
        raise BadInputError(
            f"unknown on_error {operator.on_error!r}", where=name, hint="fail or quarantine"
        )
    if operator.mode == "upsert" and not (operator.upsert_key or operator.key):
        raise BadInputError(
            "upserts need a key", where=name, hint="name the columns that identify a row"
        )
    if operator.mode == "append" and operator.upsert_key:
        raise BadInputError("has an upsert_key but appends", where=name, hint='output="upsert"')
    if operator.keeps_state and not operator.deterministic:
        # A redo would put other rows into its state than those that were published.
        raise BadInputError(
            "keeps state, so it must be deterministic",
            where=name,
            hint="put the chance into a map before it, with deterministic=False",
        )
    if operator.kind == "join" and not operator.key:
        raise BadInputError("a join needs a key", where=name, hint="name the columns it joins on")
    if operator.other_key and len(operator.other_key) != len(operator.key):
        raise BadInputError("key and other_key differ in length", where=name)
    if not 1 <= operator.shards <= KEY_GROUPS:
        raise BadInputError(
            f"{operator.shards} shards", where=name, hint=f"between 1 and {KEY_GROUPS}"
        )
    if operator.shards > 1 and operator.kind != "source" and not operator.key:
        raise BadInputError("several shards need a key", where=name)
    if operator.max_shards is not None:
        check_max_shards(operator.max_shards, name)
        if isinstance(operator.source, SparkSource) and operator.max_shards > 1:
            raise BadInputError(
                "a SparkSource cannot scale: where it stands is known to Spark's checkpoint alone, "
                "which cannot be divided",
                where=name,
                hint="leave max_shards out: Spark reads its partitions in parallel; what reads it "
                "may scale",
            )
        if not operator.key and operator.kind != "source":
            raise BadInputError("max_shards needs a key", where=name)


def _event_time(
    event_time: str | tuple[str, str | float] | None, watermark: str | float | None, where: str
) -> EventTime | None:
    if event_time is None:
        if watermark is not None:
            raise BadInputError(
                "has a watermark but no event time", where=where, hint='event_time="ts"'
            )
        return None
    pair: object = event_time
    if isinstance(event_time, str):
        if watermark is None:
            raise BadInputError(
                f"does not say how late rows may be on {event_time!r}",
                where=where,
                hint='watermark="10 seconds"',
            )
        pair = (event_time, watermark)
    elif watermark is not None:
        raise BadInputError(
            "says twice how late rows may be", where=where, hint='event_time="ts" with watermark'
        )
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise BadInputError(
            f"{event_time!r} is not an event time", where=where, hint="write ('ts', '10 seconds')"
        )
    column, delay = pair
    (column,) = key_columns(column, where) or ("",)
    return EventTime(column=column, delay_s=parse_time(delay, where=where))
