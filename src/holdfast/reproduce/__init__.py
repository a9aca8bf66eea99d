"""The papers' figures made again, each beside the paper's own numbers.

`FIGURES` lists what can be made by planning, by simulation and on Spark on this machine. `find`
turns what people type into an entry.
"""

from __future__ import annotations

from holdfast.errors import BadInputError
from holdfast.reproduce import fastrecover, ftc, pathfinder, ppa, spate, spate_overhead
from holdfast.reproduce.model import Claim, Effort, Figure, Reproduction
from holdfast.reproduce.papers import PAPERS, Paper

__all__ = ["FIGURES", "PAPERS", "Claim", "Effort", "Figure", "Paper", "Reproduction", "find"]

FIGURES: tuple[Figure, ...] = (
    *ftc.FIGURES,
    *fastrecover.FIGURES,
    *ppa.FIGURES,
    *pathfinder.FIGURES,
    *spate_overhead.FIGURES,
    *spate.FIGURES,
)


def find(paper: str, figure: str | None) -> tuple[Figure, ...]:
    """The figures meant by a paper and a figure: `3`, `fig3`, `figure 3`, `table III`, `4.1`."""
    own = [item for item in FIGURES if item.paper == paper.lower()]
    if not own:
        known = ", ".join(dict.fromkeys(item.paper for item in FIGURES))
        raise BadInputError(f"there is no paper {paper!r}", where="PAPER", hint=f"write {known}")
    if figure is None:
        return tuple(own)
    wanted = figure.lower()
    for word in ("figure", "fig.", "fig", "table"):
        wanted = wanted.removeprefix(word).strip(" -")
    wanted = {"3": "iii", "9": "ix"}.get(wanted, wanted) if "table" in figure.lower() else wanted
    found = tuple(item for item in own if item.figure.lower() == wanted)
    if not found:
        known = ", ".join(item.figure for item in own)
        raise BadInputError(
            f"{paper} has no figure {figure!r} here", where="FIGURE", hint=f"write one of {known}"
        )
    return found
