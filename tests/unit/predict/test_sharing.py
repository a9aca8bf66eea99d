"""Processor sharing: by hand, and against a simulation in small steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.predict.sharing import Await, Compute, Sleep, Step, Task, Tell, share

pytestmark = pytest.mark.unit

STEP_S = 1e-3


def task(steps: Sequence[Step], ends: list[float]) -> Task:
    """A task of given steps that notes when each is over."""
    for step in steps:
        over = yield step
        ends.append(over)


def ends_of(tasks: Sequence[Sequence[Step]], cores: float, busy: float = 0.0) -> list[list[float]]:
    ends: list[list[float]] = [[] for _ in tasks]
    share(
        [task(steps, found) for steps, found in zip(tasks, ends, strict=True)],
        cores=cores,
        busy=busy,
    )
    return ends


def test_as_many_as_there_are_cores_run_as_if_alone() -> None:
    """Two tasks that keep a core busy each do not disturb one another on two cores."""
    assert ends_of([[Compute(1.0, 1.0)], [Compute(2.0, 1.0)]], 2.0) == [[1.0], [2.0]]


def test_three_on_two_cores_slow_down_alike() -> None:
    """At two thirds of the speed until the first is done, then at full speed."""
    (a,), (b,), (c,) = ends_of([[Compute(1.0, 1.0)], [Compute(1.0, 1.0)], [Compute(2.0, 1.0)]], 2.0)
    assert (a, b) == (pytest.approx(1.5), pytest.approx(1.5))
    assert c == pytest.approx(1.5 + 1.0)


def test_what_waits_by_itself_leaves_its_core_to_others() -> None:
    """Four tasks that keep half a core busy each fit on two cores."""
    assert ends_of([[Compute(1.0, 0.5)]] * 4, 2.0) == [[1.0]] * 4


def test_others_on_the_machine_take_their_share() -> None:
    """With a core busy elsewhere, two tasks on two cores run at two thirds of their speed."""
    assert ends_of([[Compute(1.0, 1.0)]] * 2, 2.0, busy=1.0) == [[pytest.approx(1.5)]] * 2


def test_a_task_may_wait_for_another() -> None:
    """It goes on when it is told; what is told to nobody is lost."""
    first = [Compute(1.0, 1.0), Tell("x"), Compute(1.0, 1.0)]
    assert ends_of([first, [Await("x"), Compute(0.5, 1.0)]], 2.0)[1] == [1.0, 1.5]
    ended = share([task([Await("nobody tells this")], [])], cores=1.0)
    assert math.isinf(ended)


@dataclass
class _Naive:
    """The same in small steps: every step gives each running task its share of the cores."""

    tasks: list[list[Step]]
    cores: float
    busy: float

    def run(self) -> list[list[float]]:
        at, left = [0] * len(self.tasks), [0.0] * len(self.tasks)
        ends: list[list[float]] = [[] for _ in self.tasks]
        now = 0.0
        for i in range(len(self.tasks)):
            self._enter(i, at, left)
        while any(at[i] < len(steps) for i, steps in enumerate(self.tasks)):
            running = [
                (i, steps[at[i]])
                for i, steps in enumerate(self.tasks)
                if at[i] < len(steps) and isinstance(steps[at[i]], Compute)
            ]
            wanted = self.busy + sum(step.cores for _, step in running)  # type: ignore[union-attr]
            speed = min(1.0, self.cores / wanted) if wanted else 1.0
            now += STEP_S
            for i, _ in running:
                left[i] -= STEP_S * speed
            for i, steps in enumerate(self.tasks):
                if at[i] >= len(steps):
                    continue
                step = steps[at[i]]
                over = left[i] <= 0 if isinstance(step, Compute) else step.until <= now  # type: ignore[union-attr]
                if over:
                    ends[i].append(now)
                    at[i] += 1
                    self._enter(i, at, left)
        return ends

    def _enter(self, i: int, at: list[int], left: list[float]) -> None:
        if at[i] < len(self.tasks[i]):
            step = self.tasks[i][at[i]]
            left[i] = step.seconds if isinstance(step, Compute) else 0.0


computes = st.builds(Compute, st.floats(0.02, 0.4), st.floats(0.1, 2.0))
sleeps = st.builds(Sleep, st.floats(0.0, 0.8))


@given(
    tasks=st.lists(st.lists(computes | sleeps, min_size=1, max_size=4), min_size=1, max_size=5),
    cores=st.floats(0.5, 4.0),
    busy=st.floats(0.0, 2.0),
)
def test_it_agrees_with_small_steps(tasks: list[list[Step]], cores: float, busy: float) -> None:
    """Every step of every task ends when a simulation in steps of a millisecond says so."""
    exact, naive = ends_of(tasks, cores, busy), _Naive(tasks, cores, busy).run()
    for one, other in zip(exact, naive, strict=True):
        # Each small step may overshoot once, and whoever is late then delays others.
        assert other == pytest.approx(one, abs=STEP_S * 40)
