"""The leader's seat in a run directory: its terms and journals, as `tenure` asks for them.

Terms are records of the run's storage, under coordinator/terms. A journal is a file of its term's
number, which only that term's leader writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, assert_never

from holdfast.control import tenure
from holdfast.control.commands import EndFork, PutFork
from holdfast.control.facts import Fact
from holdfast.control.shell.journal import Journal, Replay, read
from holdfast.control.state import State
from holdfast.errors import HoldfastError
from holdfast.rundir.contents import journal_path, journals
from holdfast.rundir.layout import member
from holdfast.storage import open_storage
from holdfast.streams import codec, steps
from holdfast.streams.fork import end_fork, put_fork
from holdfast.streams.records import Fork, ForkEnd, Record, Term
from holdfast.streams.term import Terms


class DeposedError(HoldfastError):
    """A newer term is on record: what was decided last must not be acted on."""


class Seat:
    """One coordinator's way to lead, and back."""

    def __init__(self, run_dir: Path, *, pipeline: str, holder: str) -> None:
        """Args:
        run_dir: of the run.
        pipeline: its name, for the state of a run without a journal.
        holder: names this process, unlike any other that ever ran here.
        """
        self._run_dir = run_dir
        self._pipeline = pipeline
        self._store = open_storage(run_dir)
        self._terms = Terms(holder)
        self._journal: Journal | None = None
        self._term: Term | None = None
        self._found: State | None = None
        """What the journal before held."""

    @property
    def term(self) -> int:
        """The term that this coordinator has begun; -1: none."""
        return -1 if self._term is None else self._term.number

    def newest(self) -> int:
        """The newest term on record, -1 for none."""
        return steps.drive(self._terms.newest(), self._execute)

    def take(self) -> State | None:
        """Try to lead; gives the state to go on from, or None if another one came first."""
        term = steps.drive(tenure.begin(self._terms), self._execute)
        if term is None:
            self.leave()
            return None
        self._term = term
        return self._found

    def decide(self, facts: Sequence[Fact]) -> None:
        """Make facts durable; raises DeposedError if they must not be acted on."""
        if self._term is None:
            raise DeposedError("no term was begun")
        if not steps.drive(tenure.decide(self._terms, self._term, facts), self._execute):
            raise DeposedError(f"term {self._term.number} is over, {self.newest()} has begun")

    def check(self) -> None:
        """Raise DeposedError if a newer term has begun."""
        if self.newest() > self.term:
            raise DeposedError(f"term {self.term} is over, {self.newest()} has begun")

    def keep(self, command: PutFork | EndFork) -> None:
        """Put a fork or its end on record; whoever came first decides what it is."""
        writer = self._terms.holder
        if isinstance(command, PutFork):
            fork = Fork(
                number=command.fork,
                units=tuple(map(str, command.units)),
                silent=tuple(map(str, command.silent)),
                patience_s=command.patience_s,
                reason=command.reason,
                writer=writer,
            )
            steps.drive(put_fork(fork), self._execute)
        else:
            end = ForkEnd(number=command.fork, reason=command.reason, writer=writer)
            steps.drive(end_fork(end), self._execute)

    def compact_if_long(self, state: State) -> None:
        if self._journal is not None:
            self._journal.compact_if_long(state)

    def leave(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _execute(self, operation: tenure.JournalOperation | steps.Operation) -> Any:
        match operation:
            case tenure.ListJournals():
                return sorted(journals(self._run_dir))
            case tenure.ReadJournal():
                return read(journal_path(self._run_dir, operation.term))
            case tenure.BeginJournal():
                self._found = self._state(operation.found)
                self._journal = Journal(journal_path(self._run_dir, operation.term), self._found)
            case tenure.AppendJournal():
                if self._journal is None:
                    raise DeposedError("no journal was begun")
                self._journal.append(operation.facts)
            case tenure.RemoveJournal():
                journal_path(self._run_dir, operation.term).unlink(missing_ok=True)
            case steps.Get():
                return self._get(member(operation.folder, operation.number))
            case steps.Put():
                return self._put(member(operation.folder, operation.number), operation.record)
            case steps.Newest():
                names = self._store.names(operation.folder)
                return int(names[-1]) if names else -1
            case steps.Delete():
                self._store.delete(member(operation.folder, operation.number))
            case steps.GetFloor() | steps.RaiseFloor():
                raise TypeError("terms have no floors")
            case _:
                assert_never(operation)
        return None

    def _state(self, found: Replay | None) -> State:
        state = State.new(self._pipeline)
        if found is None:
            return state
        state = found.state or state
        for fact in found.facts:
            state.apply(fact)
        return state

    def _get(self, name: str) -> Record | None:
        data = self._store.get(name)
        return None if data is None else codec.decode(data, path=self._store.address(name))

    def _put(self, name: str, record: Record) -> Record:
        data = codec.encode(record)
        stored = self._store.put_if_absent(name, data)
        return record if stored == data else codec.decode(stored, path=self._store.address(name))


def newest_term(run_dir: Path) -> int:
    """The newest term on record, -1 for none: what a node begins with."""
    return Seat(run_dir, pipeline="", holder="").newest()
