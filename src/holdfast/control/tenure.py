"""How a coordinator comes to lead, and what it does before it acts on anything: pure decisions.

A journal belongs to a term. Whoever claims a term reads the journal before, and begins its own with
a snapshot of what was there. A leader makes its facts durable in its journal, then looks whether
its term is still the newest, and only then acts on them. So whatever was acted on is in every later
journal:

- the fact was written before the successor read the journal: then it is in the snapshot;
- it was written after that, and so after the successor's term was put: then the look shows the
  newer term, and nobody acts on the fact.

The journals of all terms are therefore one history, without a fork, whoever sleeps for how long
between any two steps. Order is all it rests on: no clock, no lock, no lease.

Like those of `streams`, decisions are generators of operations. What a journal holds is not theirs
to know: it comes out of a `ReadJournal` and goes into a `BeginJournal`.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from holdfast.streams.records import Term
from holdfast.streams.steps import Operation
from holdfast.streams.term import Terms, journal_to_read, journals_to_remove

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListJournals:
    """Terms that have a journal; it has its snapshot or is not there."""


@dataclass(frozen=True, slots=True)
class ReadJournal:
    """All that a term's journal holds; None: it is gone, so a newer one is there."""

    term: int


@dataclass(frozen=True, slots=True)
class BeginJournal:
    """Create a term's journal with a snapshot of what was found, whole or not at all."""

    term: int
    found: Any
    """What `ReadJournal` gave; None: there was none."""


@dataclass(frozen=True, slots=True)
class AppendJournal:
    """Make facts durable in a term's journal, all or none."""

    term: int
    facts: Any


@dataclass(frozen=True, slots=True)
class RemoveJournal:
    """Remove a journal that nobody will read again."""

    term: int


JournalOperation: TypeAlias = (
    ListJournals | ReadJournal | BeginJournal | AppendJournal | RemoveJournal
)
Steps: TypeAlias = Generator[JournalOperation | Operation, Any, T]


def begin(terms: Terms) -> Steps[Term | None]:
    """Claim a term and take its journal over; None: another one came first."""
    term = yield from terms.begin()
    if term is None:
        return None
    there: list[int] = yield ListJournals()
    before = journal_to_read(dict.fromkeys(there, True), term.number)
    found = None
    if before is not None:
        found = yield ReadJournal(before)
        if found is None:
            return None
    yield BeginJournal(term.number, found)
    if not (yield from terms.leads(term)):
        return None
    for old in journals_to_remove(dict.fromkeys([*there, term.number], True), term.number):
        yield RemoveJournal(old)
    return term


def decide(terms: Terms, term: Term, facts: Any) -> Steps[bool]:
    """Make facts durable; whether they may be acted on."""
    yield AppendJournal(term.number, facts)
    return (yield from terms.leads(term))
