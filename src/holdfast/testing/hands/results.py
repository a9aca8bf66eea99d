"""What sinks must get: exactly the rows of a run without failures, in each of their lives."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from holdfast.streams.records import Closing, Restart
from holdfast.testing.hands.scenario import Row, Scenario, Violation, apply


@dataclass(slots=True, kw_only=True)
class Sink:
    """One life of a sink: takes rows and progress in one transaction."""

    name: str
    starts: dict[str, int] = field(default_factory=dict)
    """Stream to the epoch after which it was begun anew last, as of this life."""
    life: int = 0
    """That of stream k, whose rows may be quarantined in one life and not in another."""
    end: int = -1
    batch: int = -1
    exact: tuple[int, list[list[Row]]] | None = None
    """Rows by epoch, and what was known of quarantined ones when that was worked out."""


class Results:
    """Takes what is delivered, and compares it."""

    def __init__(self, scenario: Scenario, rows: dict[str, list[list[Row]]]) -> None:
        self._scenario, self._rows = scenario, rows
        self._left_out: list[tuple[int, int, int, frozenset[Any]]] = []
        """Rows that count as quarantined: the life of stream k in which they are, the change that
        made the unit, the end of the slice that left them out, and which."""
        self._version = 0
        self._lives: dict[tuple[str, int], Sink] = {}
        self._begun: defaultdict[str, list[int]] = defaultdict(list)
        self.sinks: dict[str, Sink] = {}
        """The present life of each."""
        self.finished = False
        """Whether every sink has got all there is."""
        for name, seg in scenario.segments.items():
            if seg.operation == "sink" and name != scenario.late:
                self._lives[name, 0] = self.sinks[name] = Sink(name=name)

    def restart(self, record: Restart) -> None:
        """Take notice of what is to begin anew: its sinks have a new life."""
        if any(change.since is not None for change in record.changes):
            return  # others carry the stream on as it is
        for change in record.changes:
            self._begun[change.stream].append(-1 if change.start is None else change.start)
        starts = {stream: begun[-1] for stream, begun in self._begun.items() if begun}
        for change in record.changes:
            if change.stream in self._sink_names():
                name, life = change.stream, len(self._begun["k"])
                sink = Sink(name=name, starts=starts, life=life, end=starts[name])
                self._lives[name, len(self._begun[name])] = self.sinks[name] = sink
        self._look()

    def _sink_names(self) -> Iterable[str]:
        return [name for name, seg in self._scenario.segments.items() if seg.operation == "sink"]

    def leave_out(self, life: int, change: int, upto: int, rows: Iterable[Any]) -> None:
        """Take notice of rows that a slice was published without."""
        self._left_out.append((life, change, upto, frozenset(rows)))
        self._version += 1

    def close(self, closing: Closing) -> None:
        """What a log of stream k published beyond its closing is void; so is what it left out."""
        self._left_out = [
            item
            for item in self._left_out
            if not (item[1] < closing.next and item[2] > closing.end)
        ]
        self._version += 1

    def _dead(self, life: int) -> set[Any]:
        return {row for item in self._left_out if item[0] == life for row in item[3]}

    def deliver(
        self, name: str, life: int, number: int, after: int, upto: int, rows: list[Row]
    ) -> None:
        sink = self._lives[name, life]
        if number <= sink.batch:
            return
        if after != sink.end:
            raise Violation(f"{name}: batch {number} goes on from {after}, not from {sink.end}")
        expected, got = Counter(self._expected(sink, after, upto)), Counter(rows)
        if got != expected:
            more, less = list(got - expected)[:3], list(expected - got)[:3]
            raise Violation(f"{name}: epochs {after + 1}..{upto}: too many {more}, missing {less}")
        sink.batch, sink.end = number, upto
        self._look()

    def _look(self) -> None:
        last = self._scenario.epochs - 1
        self.finished = all(sink.end >= last for sink in self.sinks.values())

    def _expected(self, sink: Sink, after: int, upto: int) -> list[Row]:
        known = sink.exact
        if known is None or known[0] != self._version:
            # A row that is left out later changes nothing before it.
            known = sink.exact = (self._version, self._compute(sink, self._dead(sink.life)))
        return [row for part in known[1][after + 1 : upto + 1] for row in part]

    def _compute(self, sink: Sink, dead: set[Any]) -> list[list[Row]]:
        scenario = self._scenario
        segments = scenario.segments
        made = {name: [row for part in rows for row in part] for name, rows in self._rows.items()}

        def read(stream: str, by: str) -> list[Row]:
            start = sink.starts.get(by, -1)
            return [row for row in made[stream] if row[2] > start]

        made["j"] = apply("count" if scenario.shared else "map", {}, [read("s0", "j")])[1]
        into = [row for row in read(segments["K"].inputs[0], "k") if row[0] not in dead]
        made["k"] = apply("sum", {}, [into])[1]
        if "N" in segments:
            made["n"] = apply("join", {}, [read("k", "n"), read("s1", "n")])[1]
        epochs: list[list[Row]] = [[] for _ in range(scenario.epochs)]
        for row in read(segments[sink.name].inputs[0], sink.name):
            epochs[row[2]].append(row)
        return epochs
