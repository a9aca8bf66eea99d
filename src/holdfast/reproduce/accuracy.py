"""What the two queries of the PPA evaluation answer while tasks are down, row by row.

Q1 ranks the 100 most asked pages of a web site; Q2 finds incidents on road segments whose traffic
has slowed down. Each is computed twice over the same generated rows: with all tasks, and with those
alive; accuracy is the share of the whole answer that the tentative one has (section 7.2). The
fidelity model is not used here: a row is followed along its own tasks.

Assumed, because the paper's data is not there. Q1: 10,000 pages by Zipf's law (s = 1), 100,000
requests in a window; `by_page` deals pages out to the lanes, otherwise requests are. Q2: one report
per incident, sent through one of the report tasks; users report through one position task each; a
segment's speed is known as soon as one of its users is heard.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.topology.graph import Topology, iter_links
from holdfast.topology.links import reach

BoolArray = NDArray[np.bool_]

PAGES, REQUESTS, RANKED = 10_000, 100_000, 100
SEGMENTS, USERS, INCIDENTS = 1000, 100_000, 20_000


def zipf(size: int, s: float) -> NDArray[np.float64]:
    """Shares that fall with rank to the power s."""
    parts = np.arange(1, size + 1, dtype=float) ** -s
    return np.asarray(parts / parts.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """Which tasks are alive, by operator and number, and who feeds whom."""

    topology: Topology
    alive: BoolArray
    """In topology order."""

    def of(self, operator: str) -> BoolArray:
        at = 0
        for item in self.topology.operators:
            if item.name == operator:
                return self.alive[at : at + item.parallelism]
            at += item.parallelism
        raise KeyError(operator)

    def fed(self, source: str, target: str) -> list[int]:
        """Per task of `source`, the one task of `target` that it feeds."""
        for edge, u, v, kind in iter_links(self.topology):
            if (edge.source, edge.target) == (source, target):
                counts = [self.topology.operators[i].parallelism for i in (u, v)]
                return [fed[0] for fed in reach(kind, *counts)]
        raise KeyError(f"{source} to {target}")


def top_pages(tasks: Tasks, rng: np.random.Generator, *, by_page: bool) -> float:
    """Q1: the part of the 100 most asked pages that the tasks alive still name."""
    lanes = len(tasks.of("requests"))
    pages = rng.choice(PAGES, REQUESTS, p=zipf(PAGES, 1.0))
    lane = pages % lanes if by_page else rng.integers(lanes, size=REQUESTS)
    merge = np.asarray(tasks.fed("slices", "merges"))
    whole = tasks.of("requests") & tasks.of("slices") & tasks.of("merges")[merge]
    whole &= bool(tasks.of("top100")[0])
    wanted = _ranked(pages)
    named = _ranked(pages[whole[lane]])
    return len(wanted & named) / len(wanted)


def _ranked(pages: NDArray[np.int64]) -> set[int]:
    counts = np.bincount(pages, minlength=PAGES)
    order = np.argsort(-counts, kind="stable")[:RANKED]
    return {int(page) for page in order if counts[page]}


def jams(tasks: Tasks, rng: np.random.Generator) -> float:
    """Q2: the part of all incidents in slow traffic that the tasks alive still find."""
    share = zipf(SEGMENTS, 0.5)
    joins = len(tasks.of("jams"))
    # Segments are dealt out to the joins in turn, the most used first, as in the topology file.
    join_of = np.arange(SEGMENTS) % joins
    split = [0] * joins
    for edge, u, v, kind in iter_links(tasks.topology):
        if (edge.source, edge.target) == ("incidents", "jams"):
            counts = [tasks.topology.operators[i].parallelism for i in (u, v)]
            for producer, fed in enumerate(reach(kind, *counts)):
                for one in fed:
                    split[one] = producer
    users = rng.multinomial(USERS, share)
    heard = tasks.of("positions")
    # A segment is silent only when all its users report through tasks that are down.
    known = np.asarray(
        [heard[rng.integers(len(heard), size=int(count))].any() for count in users.tolist()]
    )
    where = rng.choice(SEGMENTS, INCIDENTS, p=share)
    through = rng.integers(len(tasks.of("reports")), size=INCIDENTS)
    join = join_of[where]
    found = tasks.of("jams")[join] & tasks.of("speeds")[join] & known[where]
    found &= tasks.of("incidents")[np.asarray(split)[join]] & tasks.of("reports")[through]
    found &= bool(tasks.of("alerts")[0])
    return float(found.mean())
