"""Exact backups for a chain of operators with Full links, costs and own bounds included.

Every task of an operator waits for the same X, the largest L among the un-backed tasks upstream, so
L(v) = X + T(v). For a given X' that the operator passes on, exactly the tasks with X + T(v) > X'
have to be backups: a threshold on T. The DP goes operator by operator over Pareto labels (X, cost):
a label survives only if no cheaper one passes on less. With counted backups there are at most as
many labels as tasks so far; in practice a handful.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from holdfast.planners.ftc.problem import FtcProblem
from holdfast.planners.ftc.result import Answer
from holdfast.planners.interface import Solve


@dataclass(frozen=True, slots=True)
class _Label:
    wait: float
    """X: what the next operator waits for."""
    cost: float
    before: _Label | None
    chosen: tuple[int, ...]


def full_chain(problem: FtcProblem, solve: Solve) -> Answer | None:
    """The optimum; None if it had to stop before the end."""
    topology = problem.graph.topology
    first = [0]
    for operator in topology.operators:
        first.append(first[-1] + operator.parallelism)
    labels = [_Label(0.0, 0.0, None, ())]
    for i in topology.order:
        if not topology.upstream[i]:
            # A chain of one component; several components do not share anything.
            labels = [_Label(0.0, label.cost, label.before, label.chosen) for label in labels]
        tasks = range(first[i], first[i + 1])
        ends = not topology.downstream[i]
        labels = _pareto([new for old in labels for new in _step(problem, old, tasks, ends=ends)])
        if solve.should_stop() or not labels:
            return None
    best = min(labels, key=lambda label: label.cost)
    backups: set[int] = set()
    label: _Label | None = best
    while label is not None:
        backups.update(label.chosen)
        label = label.before
    return Answer(backups=frozenset(backups), optimal=True, bound=best.cost)


def _step(problem: FtcProblem, label: _Label, tasks: range, *, ends: bool) -> list[_Label]:
    """Every threshold that the operator may pass on, given what it waits for."""
    times, caps = problem.times, problem.caps
    if any(label.wait + times[v] > caps[v] for v in tasks):
        return []
    required = tuple(v for v in tasks if problem.required[v])
    ranked = sorted((v for v in tasks if not problem.durable[v]), key=lambda v: -times[v])
    paid = math.fsum(problem.costs[v] for v in required)
    if ends:
        return [_Label(0.0, label.cost + paid, label, required)]
    waiting = [v for v in ranked if not problem.required[v]]
    found = []
    cost, chosen = label.cost + paid, list(required)
    for k in range(len(waiting) + 1):
        # The k slowest are backups; ties beyond k make the label dominated, not wrong.
        wait = label.wait + times[waiting[k]] if k < len(waiting) else 0.0
        found.append(_Label(wait, cost, label, tuple(chosen)))
        if k < len(waiting):
            if problem.costs[waiting[k]] == math.inf:
                break
            cost += problem.costs[waiting[k]]
            chosen.append(waiting[k])
    return found


def _pareto(labels: list[_Label]) -> list[_Label]:
    kept: list[_Label] = []
    for label in sorted(labels, key=lambda item: (item.cost, item.wait)):
        if not kept or label.wait < kept[-1].wait:
            kept.append(label)
    return kept
