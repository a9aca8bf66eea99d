"""What the operators of generated pipelines do, in plain Python: nested loops and dictionaries.

Nothing is shared with what runs on Spark but the numbers of the operator, so that an agreement of
both says something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias

SCHEMA = "ts timestamp, key string, n bigint"
MODULUS = 99_991
"""Numbers stay below it, whatever is done to them."""

Kind: TypeAlias = Literal[
    "scale", "keep", "rekey", "copies", "digits", "union",
    "window", "session", "own_sessions", "distinct", "join", "running",
]  # fmt: skip


class Row(NamedTuple):
    """A row of any stream."""

    ts: datetime
    key: str
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One operator of a generated pipeline."""

    name: str
    kind: Kind
    inputs: tuple[str, ...]
    numbers: tuple[tuple[str, int], ...] = ()
    shards: int = 1

    def of(self, *inputs: list[Row]) -> list[Row]:
        """What it makes of all its input."""
        return RULES[self.kind](*inputs, **dict(self.numbers))


def digit_sum(number: int) -> int:
    """The sum of a number's digits: something that only Python does."""
    return sum(map(int, str(number)))


def scale(rows: list[Row], *, factor: int, offset: int) -> list[Row]:
    return [row._replace(n=(row.n * factor + offset) % MODULUS) for row in rows]


def keep(rows: list[Row], *, modulus: int) -> list[Row]:
    return [row for row in rows if row.n % modulus]


def rekey(rows: list[Row], *, buckets: int) -> list[Row]:
    return [row._replace(key=f"b{row.n % buckets}") for row in rows]


def copies(rows: list[Row], *, number: int, same: int) -> list[Row]:
    return [row._replace(n=row.n + (0 if same else copy)) for row in rows for copy in range(number)]


def digits(rows: list[Row]) -> list[Row]:
    return [row._replace(n=digit_sum(row.n)) for row in rows]


def union(*inputs: list[Row]) -> list[Row]:
    return [row for rows in inputs for row in rows]


def window(rows: list[Row], *, width_s: int, slide_s: int) -> list[Row]:
    groups: dict[tuple[int, str], list[int]] = {}
    for row in rows:
        newest = int(row.ts.timestamp()) // slide_s * slide_s
        for start in range(newest, newest - width_s, -slide_s):
            groups.setdefault((start, row.key), []).append(row.n)
    last = timedelta(seconds=width_s, microseconds=-1)
    return [
        Row(datetime.fromtimestamp(start, UTC) + last, key, _summed(numbers))
        for (start, key), numbers in groups.items()
    ]


def session(rows: list[Row], *, gap_s: int) -> list[Row]:
    return list(_sessions(rows, timedelta(seconds=gap_s), ends_before=True))


def own_sessions(rows: list[Row], *, gap_s: int) -> list[Row]:
    return list(_sessions(rows, timedelta(seconds=gap_s), ends_before=False))


def distinct(rows: list[Row]) -> list[Row]:
    return list(dict.fromkeys(rows))


def running(rows: list[Row]) -> list[Row]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.key, []).append(row)
    return [
        Row(max(row.ts for row in found), key, _summed([row.n for row in found]))
        for key, found in groups.items()
    ]


def join(left: list[Row], right: list[Row], *, reach_s: int) -> list[Row]:
    others: dict[str, list[Row]] = {}
    for row in right:
        others.setdefault(row.key, []).append(row)
    reach = timedelta(seconds=reach_s)
    return [
        row._replace(n=(row.n * 3 + other.n) % MODULUS)
        for row in left
        for other in others.get(row.key, ())
        if other.ts <= row.ts <= other.ts + reach
    ]


RULES: dict[Kind, Callable[..., list[Row]]] = {
    "scale": scale,
    "keep": keep,
    "rekey": rekey,
    "copies": copies,
    "digits": digits,
    "union": union,
    "window": window,
    "session": session,
    "own_sessions": own_sessions,
    "distinct": distinct,
    "running": running,
    "join": join,
}


def _summed(numbers: list[int]) -> int:
    return (sum(numbers) + 7 * len(numbers)) % MODULUS


def _sessions(rows: Iterable[Row], gap: timedelta, *, ends_before: bool) -> Iterable[Row]:
    """Rows of a key that follow each other within the gap, or at its very end, as in Spark.

    Spark's own sessions give out the last instant before they are over.
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.key, []).append(row)
    for key, found in groups.items():
        found.sort()
        start = 0
        for index in range(1, len(found) + 1):
            over = index == len(found)
            if not over:
                over = found[index].ts - found[index - 1].ts > gap
            if over:
                end = found[index - 1].ts + gap
                closed = end - timedelta(microseconds=1) if ends_before else end
                yield Row(closed, key, _summed([row.n for row in found[start:index]]))
                start = index
