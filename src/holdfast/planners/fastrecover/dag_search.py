"""Good plans for graphs with joins: local search over sets of anchors, held as bit masks.

A set of anchors is one integer. Its segments come from one pass in topological order, and what a
segment costs depends only on its operators and the anchors among them, so it is computed once and
remembered: a step of the search costs a few dozen microseconds. Moves flip one operator, shift an
anchor to its consumers or its producers, or flip two neighbours; kicks of a few random flips in
one neighbourhood leave local optima.

With frequencies that are free, a plan is scored by its closed form; with caps or a list, by a quick
allocation, and plans that may be best by the exact one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from holdfast.planners.fastrecover.checkpointing import BoolArray, CheckpointModel
from holdfast.planners.fastrecover.frequencies import CostArrays, score
from holdfast.planners.fastrecover.problem import Problem, Solution
from holdfast.planners.interface import Solve

Segment = tuple[float, float, float, float, float]
"""K, a, b, D and cap."""


class MaskedGraph:
    """A topology whose operator sets are integers, one bit per operator."""

    def __init__(self, model: CheckpointModel) -> None:
        self.model = model
        self.size = model.size
        self.order = list(model.topology.order)
        self.parents = [list(up) for up in model.upstream]
        self.children = [list(down) for down in model.downstream]
        self._bytes = (self.size + 7) // 8
        self._failure = model.failure.tolist()
        self._table = np.column_stack([model.state, model.replay, model.access, model.save])
        self._cap = model.max_frequency.tolist()
        self._known: dict[tuple[int, int], Segment] = {}

    def mask(self, anchors: BoolArray) -> int:
        return sum(1 << int(i) for i in np.flatnonzero(anchors))

    def array(self, mask: int) -> BoolArray:
        raw = np.frombuffer(mask.to_bytes(self._bytes, "little"), np.uint8)
        return np.unpackbits(raw, bitorder="little")[: self.size].astype(bool)

    def segments(self, anchors: int) -> list[int]:
        """Operators of every segment."""
        group: list[int] = [0] * self.size
        masks: list[int] = []
        for i in self.order:
            own = 1 << i
            if anchors & own:
                group[i] = len(masks)
                masks.append(own)
                continue
            parents = self.parents[i]
            target = group[parents[0]]
            while masks[target] < 0:
                target = -masks[target] - 1
            for j in parents[1:]:
                other = group[j]
                while masks[other] < 0:
                    other = -masks[other] - 1
                if other != target:
                    masks[target] |= masks[other]
                    # A negative entry points to the group that took this one in.
                    masks[other] = -target - 1
            masks[target] |= own
            group[i] = target
        return [mask for mask in masks if mask > 0]

    def segment(self, members: int, anchors: int) -> Segment:
        """The costs of one segment."""
        key = (members, members & anchors)
        found = self._known.get(key)
        if found is None:
            if len(self._known) > 200_000:
                self._known.clear()
            found = self._known[key] = self._cost(*key)
        return found

    def _cost(self, members: int, heads: int) -> Segment:
        inside = [i for i in self.order if members >> i & 1]
        closure: dict[int, int] = {}
        for i in inside:
            mask = 1 << i
            if not heads & mask:
                for j in self.parents[i]:
                    mask |= closure[j]
            closure[i] = mask
        raw = b"".join(closure[i].to_bytes(self._bytes, "little") for i in inside)
        sets = np.unpackbits(
            np.frombuffer(raw, np.uint8).reshape(len(inside), self._bytes),
            axis=1,
            bitorder="little",
        )[:, : self.size]
        head = self.array(heads)
        state, replay, access, save = self._table.T
        own = np.column_stack([state + access * head, replay + save * head])
        exposed = np.asarray([self._failure[i] for i in inside]) @ (sets @ own)
        write, kept = own[inside, 0].sum(), float(save[head].sum())
        cap = min(self._cap[i] for i in inside)
        return float(exposed[0]), float(exposed[1]), float(write), kept, cap


class LocalSearch:
    """Descent and kicks from any set of anchors."""

    def __init__(self, problem: Problem, graph: MaskedGraph, start: Solution) -> None:
        self.problem, self.graph = problem, graph
        free = ~problem.required & ~problem.forbidden
        self.free = [int(i) for i in np.flatnonzero(free)]
        self.is_free = free.tolist()
        self.simple = not problem.rule.choices and bool(np.isinf(problem.model.max_frequency).all())
        self.score: Callable[[int], float] = self._closed if self.simple else self._allocated
        self.best = start
        self.best_mask = graph.mask(start.anchors)
        self.best_score = self.score(self.best_mask)

    def _closed(self, anchors: int) -> float:
        fixed = strength = save = 0.0
        for members in self.graph.segments(anchors):
            k, a, b, d, _ = self.graph.segment(members, anchors)
            fixed += k
            strength += math.sqrt(a * b)
            save += d
        goal = self.problem.goal
        base, room = (fixed, goal.limit - save)
        if goal.bounded == "recovery":
            base, room = save, goal.limit - fixed
        if room <= 0:
            return math.inf
        return base + strength * strength / room

    def _allocated(self, anchors: int) -> float:
        graph = self.graph
        rows = [graph.segment(members, anchors) for members in graph.segments(anchors)]
        fixed, replay, write, save, cap = np.asarray(rows).T
        costs = CostArrays(fixed, replay, write, save, cap)
        return score(costs, self.problem.goal, self.problem.rule)

    def _near(self, i: int) -> Iterator[int]:
        yield from self.graph.parents[i]
        yield from self.graph.children[i]

    def _moves(self, anchors: int, i: int) -> Iterator[int]:
        """Sets of operators to flip, around i."""
        own = 1 << i
        yield own
        around = [j for j in self._near(i) if self.is_free[j]]
        for j in around:
            yield own | 1 << j
        if anchors & own:
            for side in (self.graph.children[i], self.graph.parents[i]):
                many = [j for j in side if self.is_free[j] and not anchors >> j & 1]
                if len(many) > 1:
                    yield own | sum(1 << j for j in many)

    def descend(
        self, anchors: int, solve: Solve, *, start: list[int] | None = None
    ) -> tuple[int, float]:
        """First improvement until no move around any operator helps."""
        value = self.score(anchors)
        todo = list(self.free if start is None else start)
        waiting = set(todo)
        steps = 0
        while todo:
            i = todo.pop()
            waiting.discard(i)
            for flip in self._moves(anchors, i):
                steps += 1
                there = self.score(anchors ^ flip)
                if there < value * (1 - 1e-12) or (there < value and math.isinf(value)):
                    anchors, value = anchors ^ flip, there
                    again = {i, *self._near(i)}
                    again |= {k for j in again for k in self._near(j)}
                    fresh = [j for j in again if self.is_free[j] and j not in waiting]
                    todo += fresh
                    waiting.update(fresh)
                    break
            if steps > 256:
                steps = 0
                if solve.should_stop():
                    break
        return anchors, value

    def offer(self, anchors: int) -> bool:
        """Take a set of anchors as the best plan if it is; True when it was."""
        found = self.problem.solve(self.graph.array(anchors))
        if found is None or not found.objective < self.best.objective:
            return False
        self.best, self.best_mask = found, anchors
        self.best_score = self.score(anchors)
        return True

    def kick(self, anchors: int, rng: np.random.Generator) -> tuple[int, list[int]]:
        """Flip a few operators of one neighbourhood."""
        centre = self.free[int(rng.integers(len(self.free)))]
        ring = {centre, *self._near(centre)}
        ring |= {k for j in ring for k in self._near(j)}
        around = sorted(j for j in ring if self.is_free[j])
        count = min(len(around), int(rng.integers(2, 6)))
        for j in rng.choice(around, size=count, replace=False):
            anchors ^= 1 << int(j)
        return anchors, around

    def run(self, solve: Solve, *, kicks: int) -> None:
        """Descend from the best plan, then kick and descend."""
        if not self.free:
            return
        here, value = self.descend(self.best_mask, solve)
        self.offer(here)
        for _ in range(kicks):
            if solve.should_stop():
                return
            kicked, around = self.kick(here, solve.rng)
            there, score = self.descend(kicked, solve, start=around)
            if score <= value * (1 + 2e-3 * float(solve.rng.random())):
                here, value = there, score
            if score < self.best_score * (1 - 1e-12) and self.offer(there):
                value = self.best_score
