"""Is the result right? An independent answer, from the kept input alone.

For every sink with an expected computation (`@pipeline.expected`): read what the sources published,
compute in plain Python what the sink must hold, read what it holds, compare row by row. Where the
run was stopped in the middle, this is what must hold:

- a row without `closes` is due when its input was delivered: the slice records say which slices of
  the sources the delivered rows reflect, and those, and none beyond, are reflected exactly once.
  Shards end their slices at different epochs, so the newest rows are held to the states that one
  of the shards may be in;
- a row with `closes` is due when the watermark of the last delivered slice has passed that column;
- the exporter's last batch may have been delivered or not, as a whole: both are right.

For generated sources the kept rows and the late ones together must be what the generator makes, so
that a loss at the source is found too.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import Any

from holdfast.errors import BadInputError
from holdfast.faults.compare import Canonical, Difference, canonical, compare
from holdfast.faults.rundir import (
    Delivered,
    KeptSlice,
    Prefix,
    Row,
    dead_rows,
    delivered,
    epoch_length,
    kept_slices,
    late_rows,
)
from holdfast.faults.sinks import SinkContent, read_sink
from holdfast.pipeline import Expected, Generator, Pipeline, PipelineOperator, Rate

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The verdict on one source or sink."""

    name: str
    kind: str
    difference: Difference
    epoch: int = -1
    """Last epoch that was certainly delivered; -1: none."""
    note: str = ""

    @property
    def ok(self) -> bool:
        return self.difference.ok

    def to_json(self) -> dict[str, Any]:
        found = self.difference
        return {
            "name": self.name,
            "kind": self.kind,
            "ok": self.ok,
            "epoch": self.epoch,
            "compared": found.compared,
            "missing": found.missing,
            "doubled": found.doubled,
            "altered": found.altered,
            "unexpected": found.unexpected,
            "examples": list(found.examples),
            "note": self.note,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """All findings of one run."""

    pipeline: str
    findings: tuple[Finding, ...]

    @property
    def compared(self) -> int:
        """Sink rows that had to be there."""
        return sum(item.difference.compared for item in self.findings if item.kind == "sink")

    @property
    def ok(self) -> bool:
        """Whether everything compared is right, and there was something to compare."""
        return self.compared > 0 and all(item.ok for item in self.findings)

    def to_json(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "ok": self.ok,
            "compared": self.compared,
            "findings": [item.to_json() for item in self.findings],
        }


def verify(run_dir: Path, pipeline: Pipeline) -> Verdict:
    """Compare what a run delivered with what its input says it must have."""
    if not pipeline.expectations:
        raise BadInputError(
            "has no expected computation",
            where=pipeline.name,
            hint="register one with @pipeline.expected(SINK)",
        )
    kept = {source.name: kept_slices(run_dir, source.name) for source in pipeline.sources}
    epoch_s = epoch_length(run_dir) or pipeline.epoch_s
    findings = [
        _check_source(run_dir, operator.name, operator.source, kept[operator.name], epoch_s)
        for operator in pipeline.sources
        if isinstance(operator.source, Rate | Generator)
    ]
    dead = dead_rows(run_dir)
    for sink, expected in pipeline.expectations.items():
        rows = _Input(kept=kept, dead=_dead_for(pipeline, sink, dead))
        findings.append(_check_sink(run_dir, pipeline, pipeline.operator(sink), expected, rows))
    return Verdict(pipeline=pipeline.name, findings=tuple(findings))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Input:
    """Everything the sources published, and what was quarantined of it."""

    kept: Mapping[str, Sequence[KeptSlice]]
    dead: Mapping[str, Counter[Canonical]]

    def rows(self, prefix: Prefix | None = None) -> dict[str, list[Row]]:
        """The rows of every source, or of some first slices, quarantined ones left out."""
        rows: dict[str, list[Row]] = {}
        for source, slices in self.kept.items():
            gone = Counter(self.dead.get(source, {}))
            rows[source] = []
            for item in slices:
                if prefix is not None and item.number >= prefix.get((source, item.shard), 0):
                    continue
                for row in item.rows:
                    if gone and gone[key := canonical(row)]:
                        gone[key] -= 1
                    else:
                        rows[source].append(dict(row))
        return rows


def _dead_for(
    pipeline: Pipeline, sink: str, dead: Mapping[tuple[str, str], Sequence[Row]]
) -> dict[str, Counter[Canonical]]:
    """Source rows that never reached a sink because a segment before it quarantined them.

    Rows quarantined behind another operator cannot be traced back to an input row; an expected
    computation must then leave them out itself.
    """
    before = {sink}
    for operator in reversed(pipeline.operators):
        if operator.name in before:
            before.update(operator.inputs)
    found: dict[str, Counter[Canonical]] = {}
    for (segment, operator_name), rows in dead.items():
        if segment in before:
            # Two segments that fail on one row have lost one row.
            found[operator_name] = found.get(operator_name, Counter()) | Counter(
                map(canonical, rows)
            )
    return found


def _check_source(
    run_dir: Path,
    name: str,
    source: Rate | Generator,
    slices: Sequence[KeptSlice],
    epoch_s: float,
) -> Finding:
    """Kept and late rows of a generated source against the generator itself."""
    shards = max((item.shard for item in slices), default=0) + 1
    made: list[Row] = []
    found: list[Row] = []
    for shard in range(shards):
        own = [item for item in slices if item.shard == shard]
        last = max((item.upto for item in own), default=-1)
        for epoch in range(last + 1):
            table = source.table(epoch, epoch_s=epoch_s, shard=shard, shards=shards)
            made += table.to_pylist()
        found += [row for item in own for row in item.rows]
        # A batch that was read and not yet published may have put late rows aside already.
        found += late_rows(run_dir, f"{name}#{shard}", len(own))
    return Finding(
        name=name,
        kind="source",
        difference=compare(found, made),
        epoch=max((item.upto for item in slices), default=-1),
    )


def _check_sink(
    run_dir: Path, pipeline: Pipeline, sink: PipelineOperator, expected: Expected, kept: _Input
) -> Finding:
    if sink.sink is None:
        raise AssertionError("a sink operator has a sink")
    producer = pipeline.operator(sink.inputs[0])
    progress = delivered(run_dir, sink.name, kept.kept.keys())
    everything = expected.function(kept.rows())
    content = _newest(read_sink(run_dir, sink.name, sink.sink, everything), producer)
    certain = content.batch is not None and content.batch >= progress.batch
    now = [expected.function(kept.rows(prefix)) for prefix in progress.reflects]
    before = [expected.function(kept.rows(prefix)) for prefix in progress.reflects_before]
    if expected.closes:
        difference = _compare_closed(expected.closes, everything, content, progress)
    elif producer.mode == "upsert":
        states = now if certain else [*now, *before]
        difference = _compare_states(states, content, producer.upsert_key)
    else:
        least = reduce(and_, map(_multiset, now if certain else before))
        most = reduce(or_, map(_multiset, now))
        difference = compare(content.rows, _rows(least), _rows(most))
    return Finding(
        name=sink.name,
        kind="sink",
        difference=difference,
        epoch=progress.upto if certain else progress.upto_before,
        note="" if difference.compared else "nothing was due yet: let it run longer",
    )


def _newest(content: SinkContent, producer: PipelineOperator) -> SinkContent:
    """Of upserted rows the newest version of each, which is what they mean."""
    if producer.mode != "upsert":
        return content
    rows = {_key(row, producer.upsert_key): row for row in content.rows}
    return SinkContent(rows=tuple(rows.values()), batch=content.batch)


def _compare_closed(
    column: str, everything: Sequence[Row], content: SinkContent, progress: Delivered
) -> Difference:
    """Rows that close by time: due below one watermark, allowed below another."""
    certain = content.batch is not None and content.batch >= progress.batch
    low = progress.watermark_us if certain else progress.watermark_before_us
    required = [row for row in everything if low is not None and _micros(row[column]) < low]
    high = progress.watermark_most_us
    allowed = [row for row in everything if high is not None and _micros(row[column]) < high]
    return compare(content.rows, required, allowed)


def _compare_states(
    states: Sequence[Sequence[Row]], content: SinkContent, key: tuple[str, ...]
) -> Difference:
    """Upserted rows: each as it is in one of the states its shard may be in."""
    known = [{_key(row, key): row for row in state} for state in states]
    found = {_key(row, key): row for row in content.rows}
    required = []
    for name in dict.fromkeys(name for state in known for name in state):
        versions = [state[name] for state in known if name in state]
        row = found.get(name)
        if row is not None and canonical(row) in map(canonical, versions):
            required.append(row)
        elif row is not None or len(versions) == len(known):
            required.append(versions[0])
    return compare(content.rows, required)


def _key(row: Row, key: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row[column] for column in key)


def _multiset(rows: Sequence[Row]) -> Counter[Canonical]:
    return Counter(map(canonical, rows))


def _rows(multiset: Counter[Canonical]) -> list[Row]:
    return [dict(row) for row in multiset.elements()]


def _micros(value: dt.datetime) -> int:
    return (value - _EPOCH) // dt.timedelta(microseconds=1)
