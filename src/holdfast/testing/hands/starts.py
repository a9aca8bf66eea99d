"""Whoever starts a run: carries out what was decided before, and may have it begin anew in part.

While a world is restarted nobody trims and nobody leads. Units may sleep through it, or go on, if
what they make is begun anew. Where others take over what they have made, none of them runs until
that is carried out: what it published would have to be run again, and a commit could be gone.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from holdfast.streams.floors import Floors
from holdfast.streams.records import Change, Restart
from holdfast.testing.hands.memory import Local, Process
from holdfast.testing.hands.schedule import Running, Schedule, seeded

STARTER = "starter"


class Starts(Schedule):
    """Restarts of a world."""

    def __init__(self, seed: int, **options: Any) -> None:
        super().__init__(seed, **options)
        self.restarts_left = self.scenario.restarts
        self.at_rest: set[str] = set()
        """Units that nobody may start: a starter looks at their state, and others go on from it."""
        self._restart_at = self._next_restart(0)

    def _next_restart(self, first: int) -> int:
        """How far a sink has come when the world is restarted next."""
        if not self.restarts_left:
            return self.scenario.epochs
        return self.rng.randrange(first, self.scenario.epochs)

    def delivered(self, upto: int) -> None:
        if upto >= self._restart_at:
            self._restart_at = self._next_restart(upto // 2)
            self.at(self.step + self.rng.randrange(1, 60), self.restart)

    def restart(self) -> None:
        """End what runs, but for some units that nobody could reach, and start it again."""
        if not self.restarts_left:
            return
        self.restarts_left -= 1
        for process in list(self.processes):
            if process.name.startswith(STARTER):
                return
        anew = self.rng.random() < self.scenario.anew
        at_rest = not anew and self.broken != "at-rest"
        for process in list(self.processes):
            if not at_rest and self._lives_on(process):
                process.given_up = True
                continue
            self.end(process)
            process.steps.close()
        self.count["restart"] += 1
        self.at_rest = set(self.units) if at_rest else set()
        self.start(
            Running(
                f"{STARTER}0",
                self.starter(asks=self._asked if anew else self._taken_over),
                alone=True,
            )
        )
        if self.rng.random() < 0.3:  # someone is too early, and only records can tell him
            self.at(self.step + self.rng.randrange(5, 300), self.run_missing)

    def _lives_on(self, process: Running) -> bool:
        """Whether nobody could reach a process that is to be ended."""
        if process.unit:
            return self.rng.random() < self.scenario.survivors
        if not self.scenario.deposed or not process.name.startswith("coordinator"):
            return False
        return self.rng.random() < self.scenario.deposed

    def starter(self, asks: Callable[[Floors, random.Random], Process] | None = None) -> Process:
        """What `holdfast run` does before any node runs; `asks` for what it is told to begin."""
        protocol = self.protocol()
        rng = seeded(self.seed, protocol.writer)
        yield from protocol.finish_restarts()
        if asks is not None:
            asked = yield from asks(protocol, rng)
            yield Local(hurts=True)
            if asked:
                yield from self._begin_anew(protocol, asked)
        self.at_rest.clear()
        self.launch()

    def _begin_anew(self, protocol: Floors, asked: Sequence[Change]) -> Process:
        if self.broken == "one-record":
            self.results.restart(Restart(number=0, changes=tuple(asked)))
            for change in asked:
                if (yield from protocol.decide(change)) and change.number:
                    yield from protocol.seal_halted(change)
            return
        if (yield from protocol.decide_restart(asked)):
            self.count["begun anew"] += 1
            yield from protocol.finish_restarts()

    def _asked(self, protocol: Floors, rng: random.Random) -> Process:
        """What is to begin anew, and where; nothing if that is refused."""
        late = self.scenario.late
        if late and late not in self.results.sinks and rng.random() < 0.7:
            chosen = late
        else:
            known = [seg.output for seg in self.segments.values() if seg.operation != "source"]
            chosen = rng.choice([name for name in known if name != late])
        fresh = self._affected(chosen)
        outside = list(
            dict.fromkeys(
                stream
                for seg in self.segments.values()
                if seg.output in fresh
                for stream in seg.inputs
                if stream not in fresh
            )
        )
        epoch = yield from self._epoch(protocol, outside, rng)
        if epoch is None or not (yield from protocol.may_begin_at(outside, epoch)):
            self.count["refused"] += 1
            return []
        asked = []
        for stream in reversed(fresh):
            known_changes = yield from protocol.changes_of(stream)
            asked.append(self._fresh_change(stream, len(known_changes), epoch, rng))
        return asked if self.broken != "readers-first" else asked[::-1]

    def _taken_over(self, protocol: Floors, rng: random.Random) -> Process:
        """A stream that other units carry on, from a commit that all its units have."""
        known = [
            seg.output
            for seg in self.segments.values()
            if seg.inputs and self.publishes(seg.output)
        ]
        if self.scenario.shared:  # paths that share their state are not taken over
            known = [stream for stream in known if stream != "j"]
        stream = rng.choice(known)
        start = yield from protocol.last_end(stream)
        units = [child.unit for child in (yield from protocol.carriers(stream))]
        found = [self._committed(unit, start) for unit in units]
        common = set.intersection(*map(set, found))
        inputs = self.segments[self.units[units[0]].segment].inputs
        since = max(common, default=None)
        if common and self.scenario.torn and rng.random() < self.scenario.torn:
            since = min(common)
        quarantines = self.scenario.poison and stream == "k"
        if (
            since is None
            or not (yield from protocol.may_begin_at(inputs, since + 1))
            or not protocol.may_take_over(since, start, quarantines=quarantines)
        ):
            self.count["refused"] += 1
            return []
        number = len((yield from protocol.changes_of(stream)))
        change = self._fresh_change(stream, number, start + 1, rng)
        self.count["taken over"] += 1
        state = tuple((unit, mine[since]) for unit, mine in zip(units, found, strict=True))
        return [replace(change, start=None, since=since, state=state)]

    def _committed(self, unit: str, start: int) -> dict[int, int]:
        """Epochs up to one at which a unit has committed a batch, and which."""
        return {
            snapshot.position.after: batch
            for checkpoint in self.commits.get(unit, ())
            for batch, snapshot in checkpoint.items()
            if snapshot.position.after <= start
        }

    def _affected(self, chosen: str) -> list[str]:
        """A stream and all that is made of it, upstream first; a sink that is not there is not."""
        found = [chosen]
        for seg in self.segments.values():
            missing = seg.output == self.scenario.late and seg.output not in self.results.sinks
            if set(seg.inputs) & set(found) and seg.output not in found and not missing:
                found.append(seg.output)
        return found

    def _epoch(self, protocol: Floors, outside: Sequence[str], rng: random.Random) -> Process:
        kind = rng.choice(["now", "earliest", "stated", "stated"])
        if kind == "earliest":
            return (yield from protocol.first_whole_epoch(outside))
        newest = self.scenario.epochs
        for stream in outside:
            newest = min(newest, (yield from protocol.last_end(stream)))
        if kind == "now":
            return newest + 1
        return rng.randrange(newest + 2)

    def _fresh_change(self, stream: str, number: int, epoch: int, rng: random.Random) -> Change:
        names = [name for name, seg in self.segments.items() if seg.output == stream]
        segment = rng.choice(names)
        sink = self.segments[segment].operation == "sink"
        parts = self._even(1 if sink else rng.choice([1, 2, 3]))
        return Change(
            stream=stream,
            number=number,
            how="halt" if number else "run",
            children=self._children(segment, stream, number, parts),
            start=epoch - 1,
        )

    @abstractmethod
    def run_missing(self) -> None:
        """Start the units that no process believed alive runs."""

    @abstractmethod
    def launch(self) -> None:
        """Let everything run that is to run."""
