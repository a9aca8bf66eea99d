"""Linear programs with boxed variables by a first-order method that proves as it goes.

minimise c.x  subject to  A x >= r,  lower <= x <= upper (all finite).

Primal-dual hybrid gradient with diagonal steps, averaging and restarts. Its iterations are two
sparse products, and because every variable is boxed *any* non-negative multipliers give a valid
bound, r.u + sum of min over the box of (c - A'u).x: nothing has to converge for the bound to hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from holdfast.planners.fastrecover.checkpointing import FloatArray
from holdfast.planners.interface import Solve

Box = tuple[FloatArray, FloatArray]
"""Lower and upper ends."""
CHECK = 50
"""Iterations between two evaluations of the bound."""
PATIENCE = 6
"""Evaluations without progress after which more iterations are not worth their time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BoxedProgram:
    """The data; one matrix serves many cost vectors."""

    matrix: csr_matrix
    least: FloatArray
    """Lower bounds of the rows."""
    lower: FloatArray
    upper: FloatArray


@dataclass(slots=True, kw_only=True, eq=False)
class Iterate:
    """Where the method stands; hand it back in to go on, also with other costs."""

    x: FloatArray
    u: FloatArray
    average: FloatArray
    """Mean of the primal points since the last restart: smoother than `x`."""
    bound: float = -np.inf
    iterations: int = 0


class FirstOrder:
    """One program with its step sizes."""

    def __init__(self, program: BoxedProgram) -> None:
        self.program = program
        self.forward = program.matrix
        self.backward = csr_matrix(program.matrix.T)
        size = abs(program.matrix)
        self.step_x = 1.0 / np.maximum(np.asarray(size.sum(axis=0)).ravel(), 1e-12)
        self.step_u = 1.0 / np.maximum(np.asarray(size.sum(axis=1)).ravel(), 1e-12)

    def boxes(self) -> tuple[FloatArray, FloatArray]:
        """Copies of the boxes, to narrow for a branch."""
        return self.program.lower.copy(), self.program.upper.copy()

    def begin(self) -> Iterate:
        lower = self.program.lower
        rows = len(self.program.least)
        return Iterate(x=lower.copy(), u=np.zeros(rows), average=lower.copy())

    def bound(self, cost: FloatArray, u: FloatArray, box: Box) -> float:
        """What multipliers prove."""
        reduced = cost - self.backward @ u
        return float(self.program.least @ u + reduced @ np.where(reduced > 0, *box))

    def run(
        self,
        cost: FloatArray,
        at: Iterate,
        solve: Solve,
        *,
        iterations: int,
        enough: float,
        box: Box | None = None,
    ) -> Iterate:
        """Iterate until the bound reaches `enough`, stalls, or the iterations are used up."""
        box = box or (self.program.lower, self.program.upper)
        scale = float(np.abs(cost).mean()) or 1.0
        c, b = cost / scale, self.program.least
        lower, upper = box
        x, u = at.x.copy(), at.u / scale
        pull = self.backward @ u
        sum_x, sum_u, count = np.zeros_like(x), np.zeros_like(u), 0
        best, best_u, stalled, average = -np.inf, u.copy(), 0, at.average
        for turn in range(1, iterations + 1):
            ahead = np.clip(x - self.step_x * (c - pull), lower, upper)
            u = np.maximum(u + self.step_u * (b - self.forward @ (2 * ahead - x)), 0.0)
            x = ahead
            pull = self.backward @ u
            sum_x += x
            sum_u += u
            count += 1
            if turn % CHECK:
                continue
            mean = sum_u / count
            here, there = self.bound(c, u, box), self.bound(c, mean, box)
            average = sum_x / count
            stalled = stalled + 1 if max(here, there) < best + 1e-4 * abs(best) else 0
            if max(here, there) > best:
                best, best_u = max(here, there), (u if here >= there else mean).copy()
            if best * scale >= enough or stalled >= PATIENCE or solve.should_stop():
                break
            if turn % (4 * CHECK) == 0:
                if there > here:
                    x, u = average.copy(), mean
                    pull = self.backward @ u
                sum_x, sum_u, count = np.zeros_like(x), np.zeros_like(u), 0
        return Iterate(
            x=x,
            u=best_u * scale,
            average=average,
            bound=best * scale,
            iterations=at.iterations + turn,
        )
