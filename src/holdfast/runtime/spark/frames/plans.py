"""Reading an analysed Spark plan: what keeps state, what is not deterministic.

The plan lives in the JVM, so it is walked through py4j, once, into a small frozen value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

_CLOCKS = {
    "CurrentTimestamp": "current_timestamp",
    "CurrentDate": "current_date",
    "CurrentTime": "current_time",
    "Now": "now",
    "LocalTimestamp": "localtimestamp",
    "CurrentBatchTimestamp": "current_timestamp",
}
_UNORDERED = {
    "First": "first",
    "Last": "last",
    "AnyValue": "any_value",
    "CollectList": "collect_list",
    "CollectSet": "collect_set",
    "ListAgg": "listagg",
    "Mode": "mode",
}
_NAMES = {
    "Rand": "rand",
    "Randn": "randn",
    "Uuid": "uuid",
    "Shuffle": "shuffle",
    "MonotonicallyIncreasingID": "monotonically_increasing_id",
    "SparkPartitionID": "spark_partition_id",
    "InputFileName": "input_file_name",
    "PythonUDF": "a UDF marked asNondeterministic",
}
_STATEFUL = {
    "Aggregate": "groupBy",
    "Distinct": "distinct",
    "Deduplicate": "dropDuplicates",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
    "TransformWithStateInPySpark": "transformWithState",
    "TransformWithStateInPandas": "transformWithStateInPandas",
    "Join": "a join of streams",
    "GlobalLimit": "limit",
}
_RELATIONS = {
    "LogicalRelation": "relation",
    "DataSourceV2Relation": "table",
    "HiveTableRelation": "tableMeta",
}
"""What reads from outside, and the method that tells what."""
_BY_BATCH = {"DeduplicateWithinWatermark", "GlobalLimit"}
"""Whose result depends on how the input is divided into batches."""
_FLOATS = {"FloatType", "DoubleType"}
_SAMPLE_MS = 10**12
"""A watermark to ask Spark with what it would make of it: any would do."""
WATERMARK = "spark.watermarkDelayMs"
"""Spark's mark of an event-time column, with the delay in milliseconds."""
_WINDOW = "spark.timeWindow"
"""Spark's mark of a column of windows; those of sessions have another."""
_BY_WINDOWS = "holdfast.byWindows"
"""Our mark on the first column of what an operator gives out that time closes by windows alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulStep:
    """A node of the plan that keeps state between batches."""

    what: str
    """As its author would call it."""
    grouped_by: frozenset[tuple[int, str]]
    """Columns, by index of the input, that rows in one group share, unchanged from the input."""
    one_epoch: bool
    """Its result depends on how the input is divided into batches."""
    windows: bool
    """Time closes its state by the ends of windows alone, or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the checks need to know about the plan of one operator."""

    streaming: bool
    stateful: tuple[StatefulStep, ...]
    nondeterministic: tuple[str, ...]
    """Names of functions whose result may differ when a batch is run again."""
    watermarks: int
    """How many the function added."""
    warnings: tuple[str, ...]
    outside: tuple[str, ...]
    """What it reads that no run keeps, and that may have changed when a batch is redone."""
    java: Any
    """The analysed plan itself."""

    def check_streaming(self, spark: SparkSession, mode: str) -> None:
        """Spark's own test whether the plan can be a stream; raises AnalysisException."""
        jvm: Any = spark._jvm  # noqa: SLF001 - pyspark offers no public way to ask
        modes = jvm.org.apache.spark.sql.streaming.OutputMode
        checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
        checker.checkForStreaming(self.java, getattr(modes, mode)())


def examine(result: DataFrame, inputs: list[DataFrame], tables: Sequence[DataFrame] = ()) -> Plan:
    """Walk the analysed plan of `result`, which was made from `inputs` and static `tables`."""
    java = _analysed(result)
    origin = {
        attribute.exprId().id(): (index, attribute.name())
        for index, frame in enumerate(inputs)
        for attribute in _items(_analysed(frame).output())
    }
    nodes = list(_nodes(java))
    _follow_renames(nodes, origin)
    names = [node.getClass().getSimpleName() for node in nodes]
    stateful = [
        _step(node, name, origin)
        for node, name in zip(nodes, names, strict=True)
        if name in _STATEFUL and _keeps_state(node, name)
    ]
    expected = sum(
        node.getClass().getSimpleName() == "EventTimeWatermark"
        for frame in inputs
        for node in _nodes(_analysed(frame))
    )
    loose, warnings = _expressions(nodes)
    loose.extend(_timers(nodes, names))
    return Plan(
        streaming=bool(java.isStreaming()),
        stateful=tuple(stateful),
        nondeterministic=tuple(dict.fromkeys(loose)),
        # A self-join reads its input's watermark twice; only more than that is the author's.
        watermarks=max(0, len({_text(n) for n in _watermarks(nodes, names)}) - expected),
        warnings=tuple(dict.fromkeys(warnings)),
        outside=tuple(dict.fromkeys(_outside(nodes, names, tables))),
        java=java,
    )


def mark_windows(schema: StructType) -> StructType:
    """The schema of an operator whose state time closes by the ends of windows alone."""
    first, *others = schema.fields
    mark = {**(first.metadata or {}), _BY_WINDOWS: True}
    return StructType([StructField(first.name, first.dataType, first.nullable, mark), *others])


def closes_by_windows(schema: StructType) -> bool:
    """Whether an operator's schema says so."""
    return bool((schema.fields[0].metadata or {}).get(_BY_WINDOWS)) if schema.fields else False


def join_lag_us(result: DataFrame, column: str) -> int | None:
    """How much older than the watermark an event time given out by a join may be, microseconds.

    A join gives out a row when its partner comes, which may be long after the watermark has passed
    the row's own time: until it is dropped from the state. Spark derives from the condition when
    that is, for each side. 0 without a join of streams, None if rows are kept for ever.
    """
    java = _analysed(result)
    if "Join " not in str(java.toString()):
        return 0  # one call: a walk is some for every node, and every takeover comes by here
    nodes = list(_nodes(java))
    names = [node.getClass().getSimpleName() for node in nodes]
    joins = [
        node
        for node, name in zip(nodes, names, strict=True)
        if name == "Join" and _keeps_state(node, name)
    ]
    if not joins:
        return 0
    (join,) = joins
    jvm: Any = result.sparkSession._jvm  # noqa: SLF001 - pyspark offers no public way to ask
    sides = (join.left(), join.right())
    origin = {
        item.exprId().id(): (at, item.name())
        for at, side in enumerate(sides)
        for item in _items(side.output())
    }
    _follow_renames(nodes[: nodes.index(join)], origin)
    given = [item for item in _items(java.output()) if item.name() == column]
    where = {origin[item.exprId().id()][0] for item in given if item.exprId().id() in origin}
    lags = [_side_lag_us(jvm, join, sides[at], sides[1 - at]) for at in sorted(where or {0, 1})]
    return None if None in lags else max(lag for lag in lags if lag is not None)


def _side_lag_us(jvm: Any, join: Any, side: Any, other: Any) -> int | None:
    """How long after the watermark has passed a row of one side a partner may still come."""
    condition = join.condition()
    watched = _event_times(other)
    if condition.isEmpty() or not watched:
        return None
    times = {item.exprId().id() for item in (*watched, *_event_times(side))}
    if any(_id(item) in times for item in _equated(condition.get())):
        return 0  # joined on equal times: a partner is as old as the row
    found = jvm.org.apache.spark.sql.catalyst.analysis.StreamingJoinHelper.getStateValueWatermark(
        side.outputSet(), watched[0].references(), condition, jvm.scala.Option.apply(_SAMPLE_MS)
    )
    return max(0, _SAMPLE_MS - int(found.get())) * 1000 if found.isDefined() else None


def _event_times(plan: Any) -> list[Any]:
    return [item for item in _items(plan.output()) if item.metadata().contains(WATERMARK)]


def _id(expression: Any) -> int | None:
    if expression.getClass().getSimpleName() != "AttributeReference":
        return None
    return int(expression.exprId().id())


def _analysed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - pyspark offers no public way


def _items(sequence: Any) -> Iterator[Any]:
    for index in range(sequence.size()):
        yield sequence.apply(index)


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _items(plan.children()):
        yield from _nodes(child)


def _follow_renames(nodes: list[Any], origin: dict[int, tuple[int, str]]) -> None:
    """Let a column that was only renamed count as the column it comes from."""
    for node in reversed(nodes):
        if node.getClass().getSimpleName() != "Project":
            continue
        for expression in _items(node.projectList()):
            if expression.getClass().getSimpleName() == "Alias":
                child = expression.child()
                if child.getClass().getSimpleName() == "AttributeReference":
                    where = origin.get(child.exprId().id())
                    if where:
                        origin[expression.exprId().id()] = where


def _outside(nodes: list[Any], names: list[str], tables: Sequence[DataFrame]) -> Iterator[str]:
    """Files and tables read beside the inputs; rows made in the code itself are part of it."""
    kept = [
        (name, node)
        for table in tables
        for node in _nodes(_analysed(table))
        if (name := node.getClass().getSimpleName()) in _RELATIONS
    ]
    for node, name in zip(nodes, names, strict=True):
        if name not in _RELATIONS or node.isStreaming():
            continue
        # A table that is joined twice is there twice, with other columns but the same content.
        content = _RELATIONS[name]
        read = getattr(node, content)()
        if not any(name == other and getattr(one, content)().equals(read) for other, one in kept):
            yield name


def _watermarks(nodes: list[Any], names: list[str]) -> Iterator[Any]:
    for node, name in zip(nodes, names, strict=True):
        if name == "EventTimeWatermark":
            yield node


def _text(node: Any) -> str:
    return str(node.nodeId().toString())


def _keeps_state(node: Any, name: str) -> bool:
    children = list(_items(node.children()))
    if name == "Join":
        return all(child.isStreaming() for child in children)
    return any(child.isStreaming() for child in children)


def _step(node: Any, name: str, origin: dict[int, tuple[int, str]]) -> StatefulStep:
    found: set[tuple[int, str]] = set()
    for attribute in _grouping(node, name):
        if attribute.getClass().getSimpleName() == "AttributeReference":
            where = origin.get(attribute.exprId().id())
            found.update({where} if where else ())
    return StatefulStep(
        what=_STATEFUL[name],
        grouped_by=frozenset(found),
        one_epoch=name in _BY_BATCH or _keeps_the_first(node, name),
        windows=name == "Aggregate" and _closes_by_windows(node),
    )


def _closes_by_windows(aggregate: Any) -> bool:
    """Whether every time that an aggregation groups by is a window."""
    marks = [
        item.metadata()
        for item in _items(aggregate.groupingExpressions())
        if item.getClass().getSimpleName() in ("AttributeReference", "Alias")
    ]
    return all(mark.contains(_WINDOW) for mark in marks if mark.contains(WATERMARK))


def _keeps_the_first(node: Any, name: str) -> bool:
    """Whether rows that count as the same may differ, so that it matters which comes first.

    A batch of several epochs has all rows of one input or shard before those of the next.
    """
    if name != "Deduplicate":
        return False
    compared = {item.exprId().id() for item in _items(node.keys())}
    return any(item.exprId().id() not in compared for item in _items(node.output()))


def _grouping(node: Any, name: str) -> Iterator[Any]:
    match name:
        case "Aggregate":
            yield from _items(node.groupingExpressions())
        case "Deduplicate" | "DeduplicateWithinWatermark":
            yield from _items(node.keys())
        case "Distinct":
            yield from _items(node.output())
        case "FlatMapGroupsInPandasWithState":
            yield from _items(node.groupingAttributes())
        case "Join":
            condition = node.condition()
            if condition.isDefined():
                yield from _equated(condition.get())
        case "GlobalLimit":
            pass  # it counts all rows
        case _:
            output = list(_items(node.children().apply(0).output()))
            yield from output[: node.groupingAttributesLen()]


def _equated(condition: Any) -> Iterator[Any]:
    """Both sides of every equality that must hold."""
    match condition.getClass().getSimpleName():
        case "And":
            for part in _items(condition.children()):
                yield from _equated(part)
        case "EqualTo" | "EqualNullSafe":
            yield from _items(condition.children())


def _expressions(nodes: list[Any]) -> tuple[list[str], list[str]]:
    loose: list[str] = []
    warnings: list[str] = []

    def walk(expression: Any, *, ordered: bool) -> None:
        name = expression.getClass().getSimpleName()
        if name in _CLOCKS:
            loose.append(_CLOCKS[name])
        elif name in _UNORDERED and not (ordered and name.startswith("Collect")):
            loose.append(_UNORDERED[name])
        elif name in _NAMES and not expression.deterministic():
            loose.append(_NAMES[name])
        elif name in ("Sum", "Average") and _is_float(expression):
            warnings.append(
                f"{'sum' if name == 'Sum' else 'avg'} of floating-point numbers depends on their "
                "order in its last digits; a decimal does not"
            )
        children = list(_items(expression.children()))
        for child in children:
            walk(child, ordered=name == "SortArray" or (ordered and name == "AggregateExpression"))
        if not expression.deterministic() and all(child.deterministic() for child in children):
            loose.append(_NAMES.get(name, name))

    for node in nodes:
        for expression in _items(node.expressions()):
            walk(expression, ordered=False)
    return loose, warnings


def _is_float(expression: Any) -> bool:
    kinds = {str(child.dataType().toString()) for child in _items(expression.children())}
    return bool(kinds & _FLOATS)


def _timers(nodes: list[Any], names: list[str]) -> Iterator[str]:
    for node, name in zip(nodes, names, strict=True):
        if name == "FlatMapGroupsInPandasWithState":
            mode = str(node.timeout().toString())
        elif name.startswith("TransformWithState"):
            mode = str(node.timeMode().toString())
        else:
            continue
        if mode.startswith("ProcessingTime"):
            yield "a processing-time timer"
