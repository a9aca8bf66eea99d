"""Comparing rows exactly: each as often as it should be, and what is wrong said with examples.

Problem: given what was delivered, what must be there and what may be there (they differ by the last
batch, which a stop can catch between delivery and its note), find what is missing, doubled or
altered. Rows are compared as multisets of canonical values, in time linear in their number; an
extra and a missing row that agree in most columns are told as one altered row.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Row: TypeAlias = Mapping[str, Any]
Canonical: TypeAlias = tuple[tuple[str, Any], ...]

EXAMPLES = 5
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What is wrong with some rows; empty when they are right."""

    compared: int = 0
    """Rows that had to be there."""
    missing: int = 0
    doubled: int = 0
    """Rows that are there more often than they may be."""
    altered: int = 0
    unexpected: int = 0
    """Rows that nothing in the input explains, or that are not due yet."""
    examples: tuple[str, ...] = field(default=())

    @property
    def ok(self) -> bool:
        return not (self.missing or self.doubled or self.altered or self.unexpected)

    def __str__(self) -> str:
        parts = [
            f"{count} {what}"
            for what in ("missing", "doubled", "altered", "unexpected")
            if (count := getattr(self, what))
        ]
        return ", ".join(parts) or f"{self.compared} rows right"


def compare(
    found: Iterable[Row], required: Iterable[Row], allowed: Iterable[Row] | None = None
) -> Difference:
    """Every required row exactly once per requirement, nothing beyond what is allowed."""
    have = Counter(map(canonical, found))
    must = Counter(map(canonical, required))
    may = Counter(map(canonical, allowed)) | must if allowed is not None else must
    missing = must - have
    extra = have - may
    doubled = Counter({row: count for row, count in extra.items() if may[row]})
    strange = extra - doubled
    pairs = _pairs(missing, strange)
    for old, new in pairs:
        missing[old] -= 1
        strange[new] -= 1
    missing, strange = +missing, +strange
    examples = [
        *(f"missing: {_show(row)}" for row in list(missing)[:EXAMPLES]),
        *(f"{have[row]} times: {_show(row)}" for row in list(doubled)[:EXAMPLES]),
        *(f"altered: {_change(old, new)}" for old, new in pairs[:EXAMPLES]),
        *(f"unexpected: {_show(row)}" for row in list(strange)[:EXAMPLES]),
    ]
    return Difference(
        compared=must.total(),
        missing=missing.total(),
        doubled=doubled.total(),
        altered=len(pairs),
        unexpected=strange.total(),
        examples=tuple(examples),
    )


def canonical(row: Row) -> Canonical:
    """A hashable form in which equal rows are equal, whatever store they come from."""
    return tuple((name, _value(value)) for name, value in sorted(row.items()))


def _value(value: Any) -> Any:
    match value:
        case bool():
            return int(value)
        case float():
            return "nan" if math.isnan(value) else value
        case decimal.Decimal():
            return str(value.normalize())
        case dt.datetime():
            aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
            return f"@{(aware - _EPOCH) // dt.timedelta(microseconds=1)}"
        case dt.date():
            return value.isoformat()
        case bytes() | bytearray():
            return bytes(value)
        case Mapping():
            return canonical(value)
        case list() | tuple():
            return tuple(_value(item) for item in value)
    return value


def _pairs(
    missing: Counter[Canonical], strange: Counter[Canonical]
) -> list[tuple[Canonical, Canonical]]:
    """Missing rows matched with strange ones that differ in one column; each used once."""
    open_rows: dict[tuple[str, Canonical], list[Canonical]] = {}
    for row in strange:
        for column, rest in _without_each(row):
            open_rows.setdefault((column, rest), []).append(row)
    used: set[Canonical] = set()
    pairs = []
    for row in missing:
        for key in _without_each(row):
            match = next((new for new in open_rows.get(key, ()) if new not in used), None)
            if match is not None:
                used.add(match)
                pairs.append((row, match))
                break
    return pairs


def _without_each(row: Canonical) -> list[tuple[str, Canonical]]:
    return [(column, (*row[:index], *row[index + 1 :])) for index, (column, _) in enumerate(row)]


def _show(row: Canonical) -> str:
    return "{" + ", ".join(f"{name}: {_readable(value)}" for name, value in row) + "}"


def _change(old: Canonical, new: Canonical) -> str:
    now = dict(new)
    parts = [
        f"{name}: {_readable(now[name])}"
        + ("" if now[name] == value else f" instead of {_readable(value)}")
        for name, value in old
    ]
    return "{" + ", ".join(parts) + "}"


def _readable(value: Any) -> str:
    if isinstance(value, str) and value[:1] == "@" and value[1:].lstrip("-").isdigit():
        return (_EPOCH + dt.timedelta(microseconds=int(value[1:]))).isoformat()
    return repr(value)
