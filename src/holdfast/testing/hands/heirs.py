"""State that is handed on or made again: births, replays, repairs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from holdfast.streams.floors import Floors
from holdfast.streams.handover import Birth
from holdfast.streams.reading import TrimmedError
from holdfast.streams.records import Child, Range, Slice
from holdfast.streams.steps import Get, skips, slices
from holdfast.streams.unit import NondeterministicError
from holdfast.testing.hands.memory import Idle, Local, Process
from holdfast.testing.hands.scenario import GROUPS, Row, apply, digest_of, left_out
from holdfast.testing.hands.units import Snapshot, Units


class Heirs(Units):
    """Units that begin with the state of others, and slices that are lost and made again."""

    def __init__(self, seed: int, **options: Any) -> None:
        super().__init__(seed, **options)
        self.lost: set[tuple[str, int, int]] = set()
        """Unit and number of slices whose files are gone, and how many repairs they had then."""
        self.forgotten: set[str] = set()
        """Units whose state was removed."""

    # Births

    def initial(self, protocol: Floors, child: Child, *, asked: bool = False) -> Process:
        """What a unit is born with; None: not yet there.

        If others ask for it since it never ran: one that was to take over all of a stream's state
        has none, and its heirs go to those it was to have it from. What is divided is asked for
        part by part.
        """
        born = yield from protocol.birth(child.unit)
        if born == "void":
            return "void"
        if not isinstance(born, Birth):
            return None
        if asked and born.parents and child.groups == (0, GROUPS):
            raise TrimmedError(f"{child.unit}: it has no state of its own")
        state: dict[int, Any] = {}
        for parent, batch in born.parents:
            part = yield from self._state_at(protocol, parent, batch, replays=born.shared)
            if part is None:
                return None
            state.update(part)
        groups = range(*child.groups)
        mine = {group: value for group, value in state.items() if group in groups}
        return Snapshot(mine, protocol.first_position(born))

    def _state_at(
        self, protocol: Floors, unit: str, batch: int, *, replays: bool = True
    ) -> Process:
        """The state of a unit after a batch, from its newest commit up to there; None: not yet."""
        yield Local()
        found = [
            (number, item[number])
            for item in self.commits.get(unit, ())
            for number in item
            if number <= batch
        ]
        number, snapshot = max(found, key=lambda item: item[0], default=(-2, None))
        if snapshot is None and (unit in self.forgotten or any(self.commits.get(unit, ()))):
            raise TrimmedError(f"{unit}: its state after batch {batch} was not kept")
        if snapshot is None:  # it never ran: its state is that of its birth
            snapshot = yield from self.initial(protocol, self.units[unit], asked=True)
            number = -1
        if not isinstance(snapshot, Snapshot):
            return None
        if number < batch and (not replays or self.broken == "no-replay"):
            return None
        state = snapshot.state
        while number < batch:
            number += 1
            record = yield from protocol.recorded(unit, number)
            state, rows = yield from self._again(protocol, unit, number, record, state)
            try:
                yield from protocol.check_replay(unit, number, digest_of(rows))
            except NondeterministicError:
                if not self.scenario.bad_replays:
                    raise
                self.count["bad replays"] += 1
                return None  # it is tried again
            self.count["replayed"] += 1
        groups = range(*self.units[unit].groups)
        return {group: value for group, value in state.items() if group in groups}

    def _again(
        self, protocol: Floors, unit: str, number: int, record: Range, state: dict[int, Any]
    ) -> Process:
        """Run a batch once more, without what its slice says it left out."""
        child = self.units[unit]
        inputs = yield from self.input_rows(protocol, child, record)
        there = yield Get(slices(unit), number)
        if isinstance(there, Slice):
            skip = there.skip
        else:
            put = yield Get(skips(unit), number)
            skip = put.reason if put is not None else ""
        gone = left_out(skip)
        kept = [[row for row in part if row[0] not in gone] for part in inputs]
        if self.scenario.bad_replays and isinstance(there, Slice):
            chance = random.Random(f"replays/{self.seed}/{self.step}")
            kept = [part[chance.choice((0, 1)) :] for part in kept]
        return apply(self.segments[child.segment].operation, state, kept)

    def drop_checkpoints(self, unit: str) -> None:
        """A unit that is over needs no state; who still runs it keeps its own."""
        if self.commits.get(unit):
            self.count["over"] += 1
            self.commits[unit] = []
            self.forgotten.add(unit)

    # Repairs

    def lose_slice(self) -> None:
        """The files of some slice that may still be read are gone."""
        stream = self.scenario.damaged
        there = [
            item
            for unit in self.units
            if unit.startswith(f"{stream}.")
            for item in self.memory.folders.get(slices(unit), {}).values()
            if isinstance(item, Slice)
        ]
        if there:
            item = self.rng.choice(there)
            repairs = self.memory.folders.get(f"{item.unit}/repairs", {})
            count = sum(1 for repair in repairs.values() if repair.slice == item.number)
            self.lost.add((item.unit, item.number, count))
            self.count["lost"] += 1

    def opened(self, protocol: Floors, item: Slice) -> Process:
        """A slice whose files are there: its own, or those of a repair, made now if need be."""
        if (item.unit, item.number, 0) not in self.lost:
            return item
        while True:
            found, repairs = yield from protocol.repaired(item)
            if (item.unit, item.number, repairs) not in self.lost:
                return found
            yield from self._repair(protocol, item, repairs)

    def _repair(self, protocol: Floors, item: Slice, repairs: int) -> Process:
        unit, number = item.unit, item.number
        state = yield from self._state_at(protocol, unit, number - 1)
        if state is None:
            yield Idle(on=(f"{unit}/commits",))
            return
        record = yield from protocol.recorded(unit, number)
        _, rows = yield from self._again(protocol, unit, number, record, state)
        if rows and self.scenario.bad_repairs and self.rng.random() < 0.4:
            rows = rows[1:]
        yield Local(hurts=True)
        try:
            told = yield from protocol.repair(
                item, {"rows": tuple(rows)}, digest_of(rows), number=repairs
            )
        except NondeterministicError:
            self.count["repair refused"] += 1
            return
        self.count[told] += 1

    def files_of(self, protocol: Floors, found: Sequence[Slice]) -> Process:
        """The rows of slices, read from their files."""
        rows: list[Row] = []
        for item in found:
            whole = (yield from self.opened(protocol, item)) if self.lost else item
            rows += whole.files["rows"]
        return rows
