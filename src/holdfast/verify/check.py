"""Is the result right? An independent answer, from the kept input alone.

For every sink with an expected computation: read what the sources published,
compute in plain Python what the sink must hold, read what it holds, compare row by row. Where the
run was stopped in the middle, this is what must hold:

- a row without `closes` is due when its input was delivered: the range records say up to which
  epoch the delivered rows reflect the sources, whose slices up to there, and none beyond, are
  reflected exactly once;
- a row with `closes` is due when the watermark of the last delivered slice has passed that column;
- the exporter's last batch may have been delivered or not, as a whole: both are right;
- no tentative row is left of what exact rows have replaced.

For generated sources the kept rows and the late ones together must be what the generator makes, so
that a loss at the source is found too.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.errors import BadInputError
from holdfast.verify.claims import Claims, MadeRows, ParquetFolder, Row, SinkClaim, SourceClaim
from holdfast.verify.compare import EXAMPLES, Canonical, Difference, canonical, compare
from holdfast.verify.sinks import SinkContent, read_sink
from holdfast.verify.slice_log import (
    Delivered,
    KeptSlice,
    begun_after,
    dead_rows,
    delivered,
    epoch_length,
    is_stream,
    kept_slices,
    late_rows,
    owned_parts,
)
from holdfast.verify.tentative import left_over

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


def verify(run_dir: Path, claims: Claims) -> Verdict:
    """Compare what a run delivered with what its input says it must have."""
    if not claims.sinks:
        raise BadInputError(
            "has no expected computation",
            where=claims.pipeline,
            hint="register one with @pipeline.expected(SINK)",
        )
    kept = {source.name: kept_slices(run_dir, source.name) for source in claims.sources}
    epoch_s = epoch_length(run_dir) or claims.epoch_s
    findings = [
        _check_source(run_dir, source, source.made, kept[source.name], epoch_s)
        for source in claims.sources
        if source.made is not None
    ]
    dead = dead_rows(run_dir)
    for sink in claims.sinks:
        rows = _Input(kept=kept, dead=_dead_for(sink, dead), after=_begun(run_dir, sink, kept))
        findings.append(_check_sink(run_dir, sink, rows))
    return Verdict(pipeline=claims.pipeline, findings=tuple(findings))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Input:
    """Everything the sources published, and what was quarantined of it."""

    kept: Mapping[str, Sequence[KeptSlice]]
    dead: Mapping[str, Counter[Canonical]]
    after: int | None = None
    """Of a sink that was begun anew: the epoch after which its rows count."""

    def rows(self, upto: int | None = None) -> dict[str, list[Row]]:
        """The rows of every source, or of its slices up to an epoch, quarantined ones left out."""
        first = -1 if self.after is None else self.after
        rows: dict[str, list[Row]] = {}
        for source, slices in self.kept.items():
            gone = Counter(self.dead.get(source, {}))
            rows[source] = []
            for item in slices:
                if item.upto <= first or (upto is not None and item.upto > upto):
                    continue
                for row in item.rows:
                    if gone and gone[key := canonical(row)]:
                        gone[key] -= 1
                    else:
                        rows[source].append(dict(row))
        return rows


def _begun(run_dir: Path, sink: SinkClaim, sources: Collection[str]) -> int | None:
    """Where a sink was begun anew, with all before it but the sources; raises if alone."""
    after = begun_after(run_dir, sink.name)
    if after is None:
        return None
    others = {name: begun_after(run_dir, name) for name in sink.upstream if name not in sources}
    older = sorted(name for name, start in others.items() if start not in (after, None))
    older += sorted(
        name for name, start in others.items() if start is None and is_stream(run_dir, name)
    )
    if older:
        raise BadInputError(
            f"was begun at epoch {after + 1}, and {older[0]} before it was not: what follows from "
            "the rows since then cannot be told",
            where=sink.name,
        )
    return after


def _dead_for(
    sink: SinkClaim, dead: Mapping[tuple[str, str], Sequence[Row]]
) -> dict[str, Counter[Canonical]]:
    """Source rows that never reached a sink because a segment before it quarantined them.

    Rows quarantined behind another operator cannot be traced back to an input row; an expected
    computation must then leave them out itself.
    """
    found: dict[str, Counter[Canonical]] = {}
    for (segment, operator_name), rows in dead.items():
        if segment in sink.upstream:
            # Two segments that fail on one row have lost one row.
            found[operator_name] = found.get(operator_name, Counter()) | Counter(
                map(canonical, rows)
            )
    return found


def _check_source(
    run_dir: Path,
    source: SourceClaim,
    made: MadeRows,
    slices: Sequence[KeptSlice],
    epoch_s: float,
) -> Finding:
    """Kept and late rows of a generated source against the generator itself."""
    parts, owned = _parts(run_dir, source, slices)
    last = [
        max((item.upto for item in slices if part in owned[item.unit]), default=-1)
        for part in range(parts)
    ]
    common = min(last)
    required: list[Row] = []
    for epoch in range(common + 1):
        required += made(epoch, epoch_s=epoch_s, shard=0, shards=1)
    for part in range(parts):
        for epoch in range(common + 1, last[part] + 1):
            required += made(epoch, epoch_s=epoch_s, shard=part, shards=parts)
    found = [row for item in slices for row in item.rows]
    for unit, batches in Counter(item.unit for item in slices).items():
        # A batch that was read and not yet published may have put late rows aside already.
        found += late_rows(run_dir, unit, batches)
    return Finding(
        name=source.name,
        kind="source",
        difference=compare(found, required),
        epoch=max((item.upto for item in slices), default=-1),
    )


def _parts(
    run_dir: Path, source: SourceClaim, slices: Sequence[KeptSlice]
) -> tuple[int, dict[str, range]]:
    """Over how many parts a source's rows are dealt out, and those that each unit reads."""
    if source.parts is None:
        parts = max((item.shard for item in slices), default=0) + 1
        return parts, {item.unit: range(item.shard, item.shard + 1) for item in slices}
    units = {item.unit for item in slices}
    return source.parts, {unit: owned_parts(run_dir, unit, source.parts) for unit in units}


def _check_sink(run_dir: Path, sink: SinkClaim, kept: _Input) -> Finding:
    progress = delivered(run_dir, sink.name, sink.reads)
    everything = sink.expected(kept.rows())
    content = read_sink(run_dir, sink.name, sink.place, everything)
    if sink.key and isinstance(sink.place, ParquetFolder):
        content = _newest(content, sink.key)
    certain = content.batch is not None and content.batch >= progress.batch
    now = sink.expected(kept.rows(progress.upto))
    before = sink.expected(kept.rows(progress.upto_before))
    if sink.closes:
        difference = _compare_closed(sink.closes, everything, content, progress)
    elif sink.key:
        states = [now] if certain else [now, before]
        difference = _compare_states(states, content, sink.key)
    else:
        difference = compare(content.rows, now if certain else before, now)
    stays = left_over(run_dir, sink.place, progress.upto if certain else progress.upto_before)
    if stays:
        difference = replace(
            difference,
            unexpected=difference.unexpected + len(stays),
            examples=(*difference.examples, *stays[:EXAMPLES]),
        )
    return Finding(
        name=sink.name,
        kind="sink",
        difference=difference,
        epoch=progress.upto if certain else progress.upto_before,
        note="" if difference.compared else "nothing was due yet: let it run longer",
    )


def _newest(content: SinkContent, key: tuple[str, ...]) -> SinkContent:
    """Of upserts in files the newest version of each row, which is what they mean.

    A table must hold one version of each, so there a second one is a mistake to be found.
    """
    rows = {_key(row, key): row for row in content.rows}
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


def _key(row: Row, key: tuple[str, ...]) -> Canonical:
    return canonical({column: row[column] for column in key})


def _micros(value: dt.datetime) -> int:
    return (value - _EPOCH) // dt.timedelta(microseconds=1)
