"""Drawing a pipeline by chance, such that it can be run and its result be told.

Rows of a stream are there in one of three ways. *As they come*: once the input is delivered, they
are. *Closed*: a row is there when the watermark has passed it. *Mixed*: neither can be told from
the row, as behind a join of windows; such a stream is brought to an end by a window of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

import numpy as np

from holdfast.testing.random_pipelines.steps import Kind, Row, Step

Arrival: TypeAlias = Literal["as they come", "closed", "mixed"]

MAPS: tuple[Kind, ...] = ("scale", "keep", "rekey", "copies", "digits")
CLOSING: tuple[Kind, ...] = ("window", "session", "own_sessions")
MAX_GROWTH = 6.0
"""Rows of a stream per row of all sources; joins and copies must not run away."""
TRIED_EPOCHS = 20
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """A source."""

    name: str
    number: int
    rows: int
    """Per epoch, outside bursts."""
    keys: int
    shards: int
    disorder_ms: int
    late_share: float
    late_ms: int
    rests_every: int
    rests_for: int
    bursts_every: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A pipeline before it is built."""

    seed: int
    epoch_ms: int
    delay_s: int
    feeds: tuple[Feed, ...]
    steps: tuple[Step, ...]
    arrivals: Mapping[str, Arrival]
    sinks: tuple[str, ...]

    def closes(self, name: str) -> bool:
        """Whether the rows of a stream are due by the watermark."""
        return self.arrivals[name] == "closed"

    def evaluate(self, rows: Mapping[str, list[Row]]) -> dict[str, list[Row]]:
        """All streams, from all rows of the sources."""
        known = dict(rows)
        for step in self.steps:
            known[step.name] = step.of(*(known[name] for name in step.inputs))
        return known

    def lines(self) -> list[str]:
        """What it does, a line per operator."""
        found = [f"{feed.name}: {feed.rows} rows an epoch, {feed.keys} keys" for feed in self.feeds]
        for step in self.steps:
            numbers = ", ".join(f"{name} {value}" for name, value in step.numbers)
            shards = f", {step.shards} shards" if step.shards > 1 else ""
            found.append(f"{step.name}({', '.join(step.inputs)}) {numbers}{shards}".rstrip())
        return [*found, f"sinks: {', '.join(self.sinks)}"]


def draw(seed: int, *, operators: int = 8) -> Drawing:
    """The drawing of a seed: the first one that gives every sink rows, and no stream too many."""
    attempt = 0
    while True:
        drawing = _Draw(seed, attempt).draw(operators)
        if _is_sound(drawing):
            return drawing
        attempt += 1


def feed_rows(epoch: int, seed: int, *, feed: Feed, epoch_ms: int) -> Iterator[Row]:
    """What a source gives in an epoch: bursts, gaps, disorder and a few rows that come too late."""
    rng = np.random.default_rng((seed, epoch, feed.number))
    if feed.rests_every and epoch % feed.rests_every < feed.rests_for:
        return
    start = START + timedelta(milliseconds=epoch * epoch_ms)
    rows = feed.rows * (4 if feed.bursts_every and epoch % feed.bursts_every == 0 else 1)
    for _ in range(rows):
        ahead = int(rng.integers(0, epoch_ms)) - int(rng.integers(0, feed.disorder_ms + 1))
        if rng.random() < feed.late_share:
            ahead -= feed.late_ms
        at = start + timedelta(milliseconds=ahead)
        yield Row(at, f"k{int(feed.keys * rng.random() ** 2)}", int(rng.integers(0, 1000)))


def _is_sound(drawing: Drawing) -> bool:
    rows = {
        feed.name: [
            row
            for epoch in range(TRIED_EPOCHS)
            for row in feed_rows(epoch, drawing.seed, feed=feed, epoch_ms=drawing.epoch_ms)
        ]
        for feed in drawing.feeds
    }
    most = MAX_GROWTH * sum(map(len, rows.values()))
    made = drawing.evaluate(rows)
    return all(made[name] for name in drawing.sinks) and all(
        len(found) <= most for found in made.values()
    )


class _Draw:
    def __init__(self, seed: int, attempt: int) -> None:
        self._seed = seed
        self._rng = np.random.default_rng((seed, attempt, 0x51E9))
        self._steps: list[Step] = []
        self._arrivals: dict[str, Arrival] = {}
        self._growth: dict[str, float] = {}
        self._unread: list[str] = []
        self._timeless: set[str] = set()
        """Streams whose event time may be behind the watermark: only maps and sinks read them."""

    def draw(self, operators: int) -> Drawing:
        delay_s, epoch_ms = self._pick(1, 2, 4), self._pick(500, 1000)
        feeds = tuple(self._feed(number, delay_s) for number in range(self._pick(1, 2, 2, 3)))
        for feed in feeds:
            self._know(feed.name, "as they come", 1.0)
        while len(self._steps) < operators:
            self._grow()
        self._finish()
        return Drawing(
            seed=self._seed,
            epoch_ms=epoch_ms,
            delay_s=delay_s,
            feeds=feeds,
            steps=tuple(self._steps),
            arrivals=self._arrivals,
            sinks=tuple(self._unread),
        )

    def _feed(self, number: int, delay_s: int) -> Feed:
        return Feed(
            name=f"feed{number}",
            number=number,
            rows=self._between(5, 30),
            keys=self._between(3, 30),
            shards=self._pick(1, 1, 2),
            disorder_ms=self._between(0, 1000 * delay_s),
            late_share=self._pick(0, 0, 2) / 100,
            late_ms=self._between(1000 * delay_s, 5000 * delay_s),
            rests_every=self._pick(0, 0, 7, 11),
            rests_for=self._between(1, 4),
            bursts_every=self._pick(0, 0, 5, 13),
        )

    def _grow(self) -> None:
        """One operator more, mostly on what nobody reads yet."""
        what = self._rng.random()
        if what < 0.4:
            self._map()
        elif what < 0.6:
            self._close(self._any())
        elif what < 0.7:
            self._distinct()
        elif what < 0.87:
            self._join()
        else:
            self._union()

    def _map(self) -> None:
        source = self._any(timeless=True)
        kind: Kind = MAPS[self._between(0, len(MAPS) - 1)]
        growth = self._growth[source]
        match kind:
            case "scale":
                numbers = {"factor": self._between(2, 40), "offset": self._between(0, 500)}
            case "keep":
                numbers = {"modulus": self._between(2, 6)}
            case "rekey":
                numbers = {"buckets": self._between(2, 20)}
            case "copies":
                numbers = {"number": self._pick(2, 3), "same": self._pick(0, 1)}
                growth *= numbers["number"]
            case _:
                numbers = {}
        if growth <= MAX_GROWTH:
            name = self._add(kind, (source,), numbers, self._arrivals[source], growth)
            if source in self._timeless:
                self._timeless.add(name)

    def _close(self, source: str) -> str:
        kind: Kind = CLOSING[self._pick(0, 0, 0, 1, 2)]
        if kind == "window":
            slide = self._between(1, 5)
            numbers = {"width_s": slide * self._pick(1, 1, 2, 3), "slide_s": slide}
        else:
            numbers = {"gap_s": self._between(1, 4)}
        name = self._add(kind, (source,), numbers, "closed", 1.0, shards=self._pick(1, 1, 2))
        if kind == "session":  # Spark tells when a session has ended, and that is behind it
            self._timeless.add(name)
        return name

    def _distinct(self) -> None:
        source = self._any()
        arrival = self._after(source)
        self._add("distinct", (source,), {}, arrival, self._growth[source], shards=1)

    def _join(self) -> None:
        left, right = self._any(), self._any()
        growth = 1.5 * (self._growth[left] + self._growth[right])
        if left == right or growth > MAX_GROWTH:
            return
        arrivals = {self._arrivals[left], self._arrivals[right]}
        arrival: Arrival = "as they come" if arrivals == {"as they come"} else "mixed"
        numbers = {"reach_s": self._between(1, 3)}
        shards = self._pick(1, 1, 2)
        self._add("join", (left, right), numbers, arrival, growth, shards=shards)

    def _union(self) -> None:
        inputs = tuple(dict.fromkeys(self._any() for _ in range(self._pick(2, 2, 3))))
        growth = sum(self._growth[name] for name in inputs)
        if len(inputs) < 2 or growth > MAX_GROWTH:
            return
        arrivals = {self._arrivals[name] for name in inputs}
        arrival: Arrival = "as they come" if arrivals == {"as they come"} else "mixed"
        self._add("union", inputs, {}, arrival, growth)

    def _finish(self) -> None:
        """Every end gets a sink; what cannot be told from its rows, a window first."""
        for name in list(self._unread):
            if self._arrivals[name] == "mixed":
                self._close(name)
            elif self._arrivals[name] == "as they come" and self._pick(0, 1):
                self._add("running", (name,), {}, "as they come", 1.0, shards=self._pick(1, 2))

    def _after(self, source: str) -> Arrival:
        """How rows are there that an operator with state gives out at once."""
        return "as they come" if self._arrivals[source] == "as they come" else "mixed"

    def _any(self, *, timeless: bool = False) -> str:
        """A stream to read: mostly one that nobody reads."""
        unread = [name for name in self._unread if timeless or name not in self._timeless]
        if unread and self._rng.random() < 0.75:
            return unread[self._between(0, len(unread) - 1)]
        names = [name for name in self._arrivals if timeless or name not in self._timeless]
        return names[self._between(0, len(names) - 1)]

    def _add(
        self,
        kind: Kind,
        inputs: tuple[str, ...],
        numbers: Mapping[str, int],
        arrival: Arrival,
        growth: float,
        *,
        shards: int = 1,
    ) -> str:
        name = f"{kind}{len(self._steps)}"
        self._steps.append(
            Step(name=name, kind=kind, inputs=inputs, numbers=tuple(numbers.items()), shards=shards)
        )
        self._unread = [other for other in self._unread if other not in inputs]
        self._know(name, arrival, growth)
        return name

    def _know(self, name: str, arrival: Arrival, growth: float) -> None:
        self._arrivals[name] = arrival
        self._growth[name] = growth
        self._unread.append(name)

    def _pick(self, *choices: int) -> int:
        return choices[int(self._rng.integers(len(choices)))]

    def _between(self, low: int, high: int) -> int:
        return int(self._rng.integers(low, high + 1))
