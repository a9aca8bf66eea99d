"""`exact` on a chain: no grid.

Problem: positions 0..n-1; choose where segments begin. With K, S, D summed over segments
(S = sum sqrt(a b)), expected recovery time is K + S^2 / (C - D), so a prefix matters only through
its label (K, S, D). Labels are extended segment by segment; one that another beats in all parts is
dropped, and so is one whose completion at any of a few prices on overhead cannot beat the best
plan known by more than 1e-7. The prices come from the Lagrangian dual, which also gives the first
plan; at every position the most promising label is completed by the dual's own suffix, which keeps
the best plan good enough to discard by.

Caps: a segment is either free, adding (0, S, D) and the level M at which its cap would bind, or
held at its cap, adding (K + a / cap, 0, D + b * cap). With M as a fourth part dominance stays
right: at the level of the dominated plan the dominating one is feasible and no worse. Completed
labels are evaluated with the true frequencies. From a list, each choice is such a held segment.

Required recovery instead of overhead: the same labels, D + S^2 / (R - K).

Complexity: O(n^2) per price plus the labels, few in practice (n = 200: some ten per position).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.planners.fastrecover.chain_tables import (
    ChainTables,
    chain_tables,
    cheapest_path,
    prefixes,
    suffixes,
)
from holdfast.planners.fastrecover.checkpointing import BoolArray, FloatArray, IntArray
from holdfast.planners.fastrecover.problem import (
    GAP,
    Outcome,
    PriceSearch,
    Problem,
    Solution,
    search_price,
)
from holdfast.planners.interface import Progress, Solve

WORTH_TRYING = 6
"""Labels at a position from which on completing some pays."""
LABEL_LIMIT = 200_000
"""Labels in all after which the search gives up proving and reports the dual bound."""
SPREAD = (1.0, 0.93, 1.07, 0.85, 1.17, 0.7, 1.4)
"""Prices used to discard labels, relative to the one with the best bound."""
PRECISION = 1e-7
"""A label that cannot improve the best plan by this share is dropped."""


def exact_chain(problem: Problem, solve: Solve) -> Outcome:
    """The best plan of a chain, proved; without a proof when stopped early."""
    start = problem.solve(problem.safest())
    if start is None:
        return Outcome(solution=None)
    tables = chain_tables(problem.model, problem.required, problem.forbidden)
    search = dual_of_chain(problem, tables, start, solve)
    return finish_chain(problem, tables, search, solve)


def dual_of_chain(
    problem: Problem, tables: ChainTables, start: Solution, solve: Solve, *, rounds: int = 24
) -> PriceSearch:
    """Price search with shortest paths as its oracle."""

    def oracle(price: float) -> tuple[float, BoolArray]:
        path = cheapest_path(*tables.prices(price, problem.rule))
        anchors = np.zeros(problem.model.size, bool)
        anchors[tables.order] = path.heads
        return path.least, anchors

    other = problem.most() if problem.goal.bounded == "overhead" else problem.fewest()
    best = problem.better(start, problem.solve(other))
    found = search_price(problem, oracle, best or start, solve, rounds=rounds)
    solve.report(
        Progress(
            message="dual bound",
            objective=found.best.objective if found.best else None,
            bound=found.bound,
        )
    )
    return found


def finish_chain(
    problem: Problem, tables: ChainTables, search: PriceSearch, solve: Solve
) -> Outcome:
    """Close what the dual left open."""
    best = search.best
    if best is None or search.closed():
        return Outcome(solution=best, bound=search.bound, optimal=best is not None)
    labels = _Labels(problem, tables, search)
    done = labels.run(solve)
    best = labels.best
    if done:
        proved = max(search.bound, best.objective * (1 - PRECISION))
        return Outcome(solution=best, bound=min(proved, best.objective), optimal=True)
    return Outcome(
        solution=best,
        bound=min(search.bound, best.objective),
        optimal=search.bound >= best.objective * (1 - GAP),
        note="stopped early: the bound is the Lagrangian dual's",
    )


@dataclass(slots=True, eq=False)
class _Arcs:
    """Ways to continue from one position: where they lead and what they add."""

    end: IntArray
    add: FloatArray
    """Rows (K, S, D, M)."""


class _Labels:
    """The label search of one chain."""

    def __init__(self, problem: Problem, tables: ChainTables, search: PriceSearch) -> None:
        assert search.best is not None  # noqa: S101  the caller has a plan
        self.problem, self.tables, self.best = problem, tables, search.best
        self.prices = [search.price * factor for factor in SPREAD if search.price > 0]
        self.rest: list[FloatArray] = []
        self.next: list[list[int]] = []
        self.alive = tables.allowed.copy()
        for price in self.prices:
            segment, _ = tables.prices(price, problem.rule)
            before, _ = prefixes(segment)
            after, following = suffixes(segment)
            self.rest.append(after)
            self.next.append(following)
            ends = np.minimum(
                np.arange(tables.size)[:, None] + np.arange(tables.window)[None, :] + 1,
                tables.size,
            )
            whole = before[:-1, None] + segment + after[ends]
            self.alive &= whole <= self._ceiling(price)

    def _ceiling(self, price: float) -> float:
        return self.problem.goal.needed(self.best.objective * (1 - PRECISION), price)

    def _arcs(self, h: int) -> _Arcs:
        tables, rule = self.tables, self.problem.rule
        lengths = np.flatnonzero(self.alive[h])
        fixed, replay = tables.fixed[h, lengths], tables.replay[h, lengths]
        write, cap = tables.write[h, lengths], tables.max_frequency[h, lengths]
        save = np.full(len(lengths), tables.save[h])
        none, ever = np.zeros(len(lengths)), np.full(len(lengths), np.inf)
        rows: list[FloatArray] = []
        which: list[IntArray] = []

        def held(eta: FloatArray, use: BoolArray) -> None:
            value = np.column_stack([fixed + replay / eta, none, save + write * eta, ever])
            rows.append(value[use])
            which.append(lengths[use])

        if rule.choices:
            for choice in rule.choices:
                held(np.full(len(lengths), choice), choice <= cap)
        else:
            active = (replay > 0) & (write > 0)
            with np.errstate(divide="ignore", invalid="ignore"):
                level = np.where(active, cap * np.sqrt(write / replay), np.inf)
                idle = np.where((write == 0) & (replay > 0), replay / cap, 0.0)
            free = np.column_stack([fixed + idle, np.sqrt(replay * write), save, level])
            rows.append(free)
            which.append(lengths)
            if np.isfinite(level).any():
                with np.errstate(invalid="ignore"):
                    held(cap, np.isfinite(level))
        return _Arcs(end=np.concatenate(which) + h + 1, add=np.concatenate(rows))

    def run(self, solve: Solve) -> bool:
        """Extend labels from left to right; True when the search was complete."""
        size = self.tables.size
        pending: list[list[tuple[FloatArray, IntArray]]] = [[] for _ in range(size + 1)]
        pending[0].append((np.array([[0.0, 0.0, 0.0, np.inf]]), np.array([[-1, -1]])))
        kept: list[IntArray] = []
        total = 0
        for p in range(size + 1):
            labels, origin = self._gather(pending[p], p)
            pending[p] = []
            kept.append(origin)
            if p == size:
                self._complete(labels, kept)
                return True
            if not len(labels):
                continue
            if len(labels) >= WORTH_TRYING:
                self._try_suffixes(labels, p, kept)
                keep = self._hopeful(labels, np.full(len(labels), p))
                labels, kept[p] = labels[keep], origin[keep]
                if not len(labels):
                    continue
            total += len(labels)
            if total > LABEL_LIMIT or (p % 8 == 0 and solve.should_stop()):
                return False
            self._extend(labels, p, pending)
        return True

    def _try_suffixes(self, labels: FloatArray, p: int, kept: list[IntArray]) -> None:
        """Complete the label with the least bound at each price by that price's own suffix."""
        few = list(zip(self.prices, self.rest, self.next, strict=True))[:3]
        for price, rest, following in few:
            least = labels[:, 0] + 2 * np.sqrt(price) * labels[:, 1] + price * labels[:, 2]
            at = int(least.argmin())
            if least[at] + rest[p] > self._ceiling(price):
                continue
            anchors = self._trace(at, kept, p)
            h = p
            while h < self.tables.size:
                anchors[self.tables.order[h]] = True
                h = following[h]
            self.best = self.problem.better(self.best, self.problem.solve(anchors)) or self.best

    def _extend(
        self, labels: FloatArray, p: int, pending: list[list[tuple[FloatArray, IntArray]]]
    ) -> None:
        if not self.alive[p].any():
            return
        arcs = self._arcs(p)
        new = labels[:, None, :] + arcs.add[None, :, :]
        new[:, :, 3] = np.minimum(labels[:, None, 3], arcs.add[None, :, 3])
        hopeful = self._hopeful(new, arcs.end)
        for end in np.unique(arcs.end[hopeful.any(axis=0)]):
            source, arc = np.nonzero(hopeful & (arcs.end == end)[None, :])
            origin = np.column_stack([np.full(len(source), p), source])
            pending[int(end)].append((new[source, arc], origin))

    def _hopeful(self, new: FloatArray, end: IntArray) -> BoolArray:
        goal = self.problem.goal
        if goal.bounded == "overhead":
            good: BoolArray = new[..., 2] <= goal.limit
        else:
            good = new[..., 0] <= goal.limit
        for price, rest in zip(self.prices, self.rest, strict=True):
            least = new[..., 0] + 2 * np.sqrt(price) * new[..., 1] + price * new[..., 2]
            good &= least + rest[end] <= self._ceiling(price)
        return good

    def _gather(
        self, parts: list[tuple[FloatArray, IntArray]], p: int
    ) -> tuple[FloatArray, IntArray]:
        if not parts:
            return np.empty((0, 4)), np.empty((0, 2), np.int64)
        labels = np.concatenate([part[0] for part in parts])
        origin = np.concatenate([part[1] for part in parts])
        if p == self.tables.size:
            return labels, origin
        keep = undominated(labels)
        return labels[keep], origin[keep]

    def _complete(self, labels: FloatArray, kept: list[IntArray]) -> None:
        """Evaluate complete labels, most promising first, until the rest cannot win."""
        goal = self.problem.goal
        with np.errstate(divide="ignore", invalid="ignore"):
            if goal.bounded == "overhead":
                room, base = goal.limit - labels[:, 2], labels[:, 0]
            else:
                room, base = goal.limit - labels[:, 0], labels[:, 2]
            value = np.where(labels[:, 1] > 0, base + labels[:, 1] ** 2 / room, base)
        value[(room < 0) | ((room == 0) & (labels[:, 1] > 0))] = np.inf
        for at in np.argsort(value):
            if not value[at] < self.best.objective:
                break
            found = self.problem.solve(self._trace(int(at), kept, self.tables.size))
            if found is not None and found.objective < self.best.objective:
                self.best = found

    def _trace(self, at: int, kept: list[IntArray], p: int) -> BoolArray:
        anchors = np.zeros(self.problem.model.size, bool)
        while p > 0:
            p, at = (int(x) for x in kept[p][at])
            anchors[self.tables.order[p]] = True
        return anchors


def undominated(labels: FloatArray) -> IntArray:
    """Rows (K, S, D, M) that no other row beats (small K, S, D and large M are good)."""
    view = labels.copy()
    view[:, 3] = -view[:, 3]
    order = np.lexsort((view[:, 3], view[:, 2], view[:, 1], view[:, 0]))
    view = view[order]
    _, first = np.unique(view, axis=0, return_index=True)
    order, view = order[np.sort(first)], view[np.sort(first)]
    keep = np.ones(len(view), bool)
    for start in range(0, len(view), 128):
        # Only rows that sort before can beat; those already beaten are beaten by a kept one.
        rows = view[start : start + 128]
        rivals = view[: start + len(rows)][keep[: start + len(rows)]]
        names = np.flatnonzero(keep[: start + len(rows)])
        beats = np.ones((len(rivals), len(rows)), bool)
        for part in range(1, 4):
            beats &= rivals[:, part][:, None] <= rows[:, part][None, :]
        beats &= names[:, None] < np.arange(start, start + len(rows))[None, :]
        keep[start : start + len(rows)] = ~beats.any(axis=0)
    kept: IntArray = order[keep]
    return kept
