"""Which of a stream's bases counts where.

A base is a change whose logs carry the stream from a closing on. Bases follow each other, each with
the closing at which it was left; the newest one has none.
"""

from __future__ import annotations

from holdfast.streams.records import Change, Closing


def counting_bases(known: list[tuple[Change, Closing | None]]) -> list[tuple[Change, int | None]]:
    """Bases, each with the epoch up to which it counts.

    One that is begun anew at an earlier epoch than an older one was left at voids what that one
    holds beyond, too.
    """
    found: list[tuple[Change, int | None]] = []
    least: int | None = None
    for base, closing in reversed(known):
        if closing is not None:
            least = closing.end if least is None else min(least, closing.end)
        found.append((base, least))
    return found[::-1]


def start_of(known: list[tuple[Change, Closing | None]]) -> int:
    """The epoch after which the newest base carries its stream."""
    if len(known) > 1:
        closing = known[-2][1]
        return closing.end if closing else -1
    start = known[0][0].start
    return -1 if start is None else start
