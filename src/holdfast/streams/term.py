"""Who leads: terms of the coordinator.

A coordinator that begins claims the next number, and names it in every command. A node takes no
command of an older term than it has seen, and looks for the newest when it begins itself. So an old
coordinator that wakes up is told off by every node that its successor has spoken to. Nothing of a
result depends on that: two that both believe to lead do double work and no harm, for the records
decide what counts.

A journal belongs to one term and begins with a snapshot, made of the journal before. What an old
coordinator still appends goes to its own, which nobody reads any more.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.streams.records import Term
from holdfast.streams.steps import TERMS, Delete, Get, Newest, Put, Steps

REMOVED_AT_ONCE = 8
"""Terms that a new one removes; more are left only by as many coordinators that died in between."""


def admits(seen: int, named: int) -> bool:
    """Whether a node that has seen a term takes a command of another: none of an older one."""
    return named >= seen


def journal_to_read(journals: Mapping[int, bool], term: int) -> int | None:
    """The journal that a new term goes on from: the newest older one that has its snapshot.

    One without was begun by a coordinator that died before it had decided anything.
    """
    whole = [number for number, has_snapshot in journals.items() if has_snapshot and number < term]
    return max(whole, default=None)


def journals_to_remove(journals: Mapping[int, bool], term: int) -> list[int]:
    """Journals of older terms, once that of this term has its snapshot."""
    if not journals.get(term, False):
        return []
    return sorted(number for number in journals if number < term)


class Terms:
    """Claims terms and looks which is the newest."""

    def __init__(self, holder: str, writer: str = "") -> None:
        self.holder, self.writer = holder, writer or holder

    def newest(self) -> Steps[int]:
        """The newest term on record, -1 for none: what a node begins with."""
        number: int = yield Newest(TERMS)
        return number

    def leads(self, term: Term) -> Steps[bool]:
        """Whether no newer term is on record: one who does not lead any more ends."""
        return (yield from self.newest()) <= term.number

    def begin(self) -> Steps[Term | None]:
        """Claim the next term; None: another one came first, so look again whether to lead."""
        number = (yield from self.newest()) + 1
        term = Term(number=number, holder=self.holder, writer=self.writer)
        stored = yield Put(TERMS, number, term)
        # Looked at afterwards: old terms are removed, so a sleeper may find a free number below.
        if stored != term or not (yield from self.leads(term)):
            if stored == term:
                yield Delete(TERMS, number)
            return None
        for older in range(number - 1, max(-1, number - 1 - REMOVED_AT_ONCE), -1):
            if (yield Get(TERMS, older)) is None:
                break
            yield Delete(TERMS, older)
        return term
