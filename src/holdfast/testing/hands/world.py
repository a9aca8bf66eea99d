"""A world in which streams change hands, with everything that can go wrong between two operations.

Every process (units and their replicas, coordinators, trimmers) is a generator over the production
decisions of `holdfast.streams`. The scheduler lets one of them do one operation on the records at a
time, and may crash it there for good, or put it to sleep for so long that others have taken its
place when it wakes up with what it knew. Rows are checked where they leave: every sink must get,
batch by batch, exactly the rows of a run without failures, and everything must be delivered once
faults stop.

`broken` names a rule to be switched off: a check that cannot fail is none.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

from holdfast.streams.floors import Floors
from holdfast.streams.records import (
    Change,
    Child,
    Closing,
    Restart,
    Seal,
    Slice,
    change_of,
    stream_of,
)
from holdfast.streams.steps import Delete, GetFloor, Operation, Put, changes, closings, slices
from holdfast.streams.term import Terms, admits, journal_to_read, journals_to_remove
from holdfast.testing.hands.memory import Local, Process, Rest
from holdfast.testing.hands.scenario import Violation, left_out
from holdfast.testing.hands.schedule import Running, seeded
from holdfast.testing.hands.starts import STARTER, Starts

PATIENCE = 40_000
"""Operations without a result after faults have stopped: then something is stuck."""
QUIET = 40
"""Rounds of those who trim, while nobody else has anything to do: the same."""


class World(Starts):
    """Runs one scenario to its end; raises `Violation`."""

    def __init__(self, seed: int, **options: Any) -> None:
        super().__init__(seed, **options)
        self.journals: dict[int, Counter[tuple[str, int]]] = {}
        """Term to what its coordinator has written down: the next generation of each replica."""
        self.nodes: Counter[str] = Counter(dict.fromkeys(self.segments, -1))
        """Node to the newest term it has seen."""

    # Coordinators: they decide when, the records what

    def coordinator(self) -> Process:
        """Claims a term and leads until there is a newer one; it may not notice for long."""
        protocol = self.protocol()
        rng = seeded(self.seed, protocol.writer)
        terms = Terms(protocol.writer)
        while (term := (yield from terms.begin())) is None:
            yield Rest(rng.choice([10, 40, 150]))
        journal = self._journal(term.number)
        while True:
            yield Rest(rng.choice([10, 40, 150]))
            if not (yield from terms.leads(term)):
                return
            yield from self._start_missing(term.number, journal, rng)
            if rng.random() < self.scenario.restless:
                yield from self._change_something(protocol, rng)
            for name in self.streams:
                yield from protocol.carry_out(name)

    def _journal(self, term: int) -> Counter[tuple[str, int]]:
        """The generations that a coordinator knows to be taken: those in the journal before."""
        whole = dict.fromkeys(self.journals, True)
        before = journal_to_read(whole, term)
        self.journals[term] = Counter() if before is None else Counter(self.journals[before])
        for old in journals_to_remove({**whole, term: True}, term):
            if old != before:  # one who still believes to lead goes on writing his own
                del self.journals[old]
        return self.journals[term]

    def _start_missing(
        self, term: int, journal: Counter[tuple[str, int]], rng: random.Random
    ) -> Process:
        """Tell nodes to run units that nobody seems to run."""
        for unit, replica in self.missing():
            odds = 0.6 if unit in self.commits else 0.6 * self.scenario.spares
            if rng.random() < odds:
                generation = journal[unit, replica]
                journal[unit, replica] += 1
                yield Local(hurts=True)
                self._command(term, unit, replica, generation)

    def _command(self, term: int, unit: str, replica: int, generation: int) -> None:
        """What a node does with a command; there is one node for each segment."""
        node = self.units[unit].segment
        if not admits(self.nodes[node], term) and self.broken != "terms":
            self.count["old term"] += 1
            return
        if term < self.nodes[node]:
            raise Violation(f"{node} obeys term {term} after {self.nodes[node]}")
        self.nodes[node] = term
        if unit not in self.sealed:
            self.run_unit(unit, replica, generation)

    def _change_something(self, protocol: Floors, rng: random.Random) -> Process:
        stream = rng.choice([name for name in self.streams if self.publishes(name)])
        if "j" in self.streams and rng.random() < 0.4:
            stream = "j"
        known = yield from protocol.changes_of(stream)
        if len(known) > self.scenario.changes:
            return
        if stream == "j" and rng.random() < 0.6:
            change = self._switch(known, rng)
        else:
            carriers = yield from protocol.carriers(stream)
            change = self._rescale(stream, len(known), carriers, rng)
        change = replace(change, writer=protocol.writer)
        yield Local(hurts=True)
        if (yield from protocol.decide(change)):
            self.count[change.how] += 1
            if change.how == "halt" and rng.random() < 0.5:
                # At once, whatever became of the changes before.
                yield from protocol.seal_halted(change)

    def _switch(self, known: list[Change], rng: random.Random) -> Change:
        number = len(known)
        segment = rng.choice(self.scenario.alternatives)
        parts = self._even(rng.choice([1, 2]))
        children = self._children(segment, "j", number, parts)
        return Change(
            stream="j",
            number=number,
            how="halt",
            children=children,
            shared=self.scenario.shared,
        )

    def _rescale(
        self, stream: str, number: int, carriers: list[Child], rng: random.Random
    ) -> Change:
        kind = rng.choice(["split", "merge", "all"])
        wide = [item for item in carriers if item.groups[1] - item.groups[0] > 1]
        ordered = sorted(carriers, key=lambda item: item.groups)
        if kind == "split" and wide:
            one = rng.choice(wide)
            at = rng.randrange(one.groups[0] + 1, one.groups[1])
            parents, parts = [one], [(one.groups[0], at), (at, one.groups[1])]
        elif kind == "merge" and len(ordered) > 1:
            first = rng.randrange(len(ordered) - 1)
            parents = ordered[first : first + 2]
            parts = [(parents[0].groups[0], parents[1].groups[1])]
        else:
            parents, parts = ordered, self._even(rng.choice([1, 2, 3]))
        return Change(
            stream=stream,
            number=number,
            how="run",
            parents=tuple(item.unit for item in parents),
            children=self._children(parents[0].segment, stream, number, parts),
        )

    def one_change(self, stream: str, *, halt: bool) -> Process:
        """Ask for one change of a stream and carry out what is on record."""
        protocol = self.protocol()
        rng = seeded(self.seed, protocol.writer)
        known = yield from protocol.changes_of(stream)
        if halt and stream == "j":
            change = self._switch(known, rng)
        else:
            carriers = yield from protocol.carriers(stream)
            change = self._rescale(stream, len(known), carriers, rng)
        yield from protocol.decide(replace(change, writer=protocol.writer))
        yield from protocol.carry_out(stream)

    def _tempt(self, change: Change) -> None:
        """Let one who has been deposed leave a path just when a restart has begun it anew.

        Whoever starts the run has put the change and not sealed what was before: a gap of a few
        operations, which chance alone does not find.
        """
        if change.restart is None or change.number == 0 or change.stream != "j":
            return
        if self.scenario.rivals and self.rng.random() < self.scenario.rivals:
            self.at(self.step, self._rival_comes)

    def _rival_comes(self) -> None:
        for process in [item for item in self.ready if item.name.startswith(STARTER)]:
            self.sleep(process, self.rng.choice(self.scenario.sleeps))
        self.count["rival"] += 1
        self.start(Running("rival0", self.rival()))

    def rival(self) -> Process:
        """Leaves the path that carries stream j, whatever others have decided about it."""
        protocol = self.protocol()
        rng = seeded(self.seed, protocol.writer)
        known = yield from protocol.changes_of("j")
        change = replace(self._switch(known, rng), writer=protocol.writer)
        if (yield from protocol.decide(change)):
            yield from protocol.seal_halted(change)

    def one_trim(self, unit: str) -> Process:
        """Trim what one unit owns."""
        protocol = self.protocol()
        yield from protocol.trim(unit, stream_of(unit))
        if (yield from protocol.is_over(unit)):
            self.drop_checkpoints(unit)

    def trimmer(self) -> Process:
        protocol = self.protocol()
        rng = seeded(self.seed, protocol.writer)
        while True:
            most = self.scenario.trim_rest
            yield Rest(rng.randrange(1, most) if not self.calm else rng.randrange(50, 250))
            live = [unit for unit in self.units if unit not in self.sealed]
            unit = rng.choice(live if live and rng.random() < 0.7 else list(self.units))
            yield from protocol.trim(unit, stream_of(unit))
            if (yield from protocol.is_over(unit)):
                self.drop_checkpoints(unit)

    def finisher(self) -> Process:
        protocol = self.protocol()
        for stream in self.streams:
            yield from protocol.carry_out(stream)

    # Running it

    def run(self) -> None:
        scenario = self.scenario
        self.launch()
        late = next((item for item in self.processes if self._lags(item)), None)
        if late is not None:
            self.sleep(late, int(scenario.epochs / scenario.pace / 2))
        self.now_and_then(scenario.pace, self.next_epoch)
        self.now_and_then(scenario.faults, lambda: self.fault(self.rng.choice(self.processes)))
        self.now_and_then(scenario.faults * scenario.slow, self._slow_segment)
        if scenario.damaged:
            self.now_and_then(scenario.losses, self.lose_slice)
        limit = int(1.3 * scenario.epochs / scenario.pace)
        while self.step < limit and not self.results.finished:
            self.turn()
        self.calm_down()

    def launch(self) -> None:
        """Let everything run that is to run."""
        for index in range(0 if self.calm else self.scenario.coordinators):
            self.start(Running(f"coordinator{index}", self.coordinator()))
        if self.scenario.trim:
            for index in range(2):
                self.start(Running(f"trimmer{index}", self.trimmer(), trims=True))
        self.run_missing()

    def _lags(self, process: Running) -> bool:
        return (
            bool(self.scenario.laggard) and stream_of(process.unit or "") == self.scenario.laggard
        )

    def execute(self, operation: Operation) -> Any:
        result = self.memory.execute(operation)
        if type(operation) is Put and result is operation.record:
            match result:
                case Change():
                    self.learn(result)
                    self._tempt(result)
                case Restart():
                    self.results.restart(result)
                case Seal(unit=unit):
                    self.sealed.add(unit)
                case Slice(unit=unit, number=0) if self._is_void(unit):
                    raise Violation(f"{unit}: it publishes and was never born")
                case Closing(stream="k") if self._goes_on(result):
                    self.results.close(result)
                case Slice(unit=unit, skip=skip, number=number, upto=upto) if skip:
                    # What is published decides which rows are left out, whoever lives to see it.
                    if number >= self.memory.execute(GetFloor(operation.folder)).number:
                        rows = left_out(skip)
                        self.results.leave_out(self.life_of(unit), change_of(unit), upto, rows)
        elif type(operation) is Delete:
            # A seal that was put too late is taken back.
            owner = operation.folder.rpartition("/")[0]
            if owner in self.sealed and not self.sealed_on_record(owner):
                self.sealed.discard(owner)
        return result

    def _goes_on(self, closing: Closing) -> bool:
        """Whether a stream is carried on after a closing, and not begun anew.

        If it is begun anew, a sink of the old life that looked before it was sealed may still
        deliver what it has read; what was left out of that is left out in that life.
        """
        change: Change = self.memory.folders[changes(closing.stream)][closing.next]
        return change.start is None

    def _is_void(self, unit: str) -> bool:
        """Whether the records on which a unit's birth rests are missing."""
        stream, number = stream_of(unit), change_of(unit)
        folders = self.memory.folders
        change = folders[changes(stream)][number]
        if change.how == "halt":
            closed = folders.get(closings(stream), {}).values()
            return all(closing.next != number for closing in closed)
        return any(
            all(
                item.kind != "seal" or item.how != "run"
                for item in folders[slices(parent)].values()
            )
            for parent in change.parents
        )

    def next_epoch(self) -> None:
        if self.now < self.scenario.epochs - 1:
            self.now += 1
            self.memory.touch("now")
            self.tell()

    def replace(self, name: str) -> None:
        kind = name.rstrip("0123456789")
        if sum(1 for item in self.processes if item.name.startswith(kind)) >= 4:
            return
        if kind == "coordinator":
            self.start(Running(name, self.coordinator()))
        elif kind == "trimmer":
            self.start(Running(name, self.trimmer(), trims=True))
        elif kind == STARTER:
            self.start(Running(name, self.starter(), alone=True))

    def _slow_segment(self) -> None:
        """One unit, or most of those beside it, stand still for long, and nobody is worried."""
        units = [item for item in self.processes if item.unit]
        if not units:
            return
        slow = self.rng.choice(units).unit or ""
        alone = self.rng.random() < 0.5
        for item in units:
            beside = not alone and stream_of(item.unit or "") == stream_of(slow)
            if item.unit == slow or (beside and self.rng.random() < 0.6):
                self.sleep(item, self.rng.choice(self.scenario.sleeps[1:]) * 2)

    def missing(self) -> list[tuple[str, int]]:
        """Units and replicas that no process believed alive runs."""
        running = {(item.unit, item.replica) for item in self.processes if not item.given_up}
        return [
            (unit, replica)
            for unit, child in self.units.items()
            if unit not in self.sealed and unit not in self.at_rest
            for replica in range(self.scenario.replicas[child.segment])
            if (unit, replica) not in running
        ]

    def run_missing(self) -> None:
        for unit, replica in self.missing():
            self.run_unit(unit, replica, self.generations[unit, replica])

    def run_unit(self, unit: str, replica: int, generation: int) -> None:
        newest = max(self.generations[unit, replica], generation + 1)
        self.generations[unit, replica] = newest
        self.start(
            Running(
                f"{unit}/{replica}/{generation}/",
                self.unit_main(unit, replica, generation),
                unit=unit,
                replica=replica,
            )
        )

    def calm_down(self) -> None:
        """Faults stop: everything must be delivered."""
        self.calm, self.keep_on = True, max(0.9, self.keep_on)
        self.now = self.scenario.epochs - 1
        self.memory.touch("now")
        for item in list(self.processes):
            if item.name.startswith("coordinator"):
                self.end(item)
        self.wake_all()
        self.run_missing()
        self.start(Running("finisher", self.finisher()))
        quiet, moved_at, ends, version = 0, self.step, -1, -1
        while not self.results.finished or self.restarts_left:
            if self.results.finished:
                self.restart()
            if (reached := sum(sink.end for sink in self.sinks.values())) != ends:
                ends, moved_at = reached, self.step
            if not self.ready:
                # Nobody can go on by himself; those who trim come next, if there are any.
                self.run_missing()
                if self.memory.version != version:
                    version, quiet = self.memory.version, 0
                    self.start(Running("finisher", self.finisher()))
                quiet += 1
            if quiet > QUIET or self.step - moved_at > PATIENCE or not self.turn():
                where = {name: sink.end for name, sink in self.sinks.items()}
                raise Violation(f"no progress: sinks at {where} of {self.scenario.epochs - 1}")
