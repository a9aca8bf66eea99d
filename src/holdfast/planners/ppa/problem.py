"""The replication problem as the algorithms see it: arrays, masks and a budget.

Choose tasks to replicate, of total cost at most the budget, so that the output fidelity with
exactly these tasks alive is greatest. Some tasks are fixed in advance, some are excluded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from holdfast.errors import BadInputError
from holdfast.planners.interface import PlanRequest
from holdfast.planners.ppa.fidelity import BoolArray, FidelityModel, fidelity_model
from holdfast.planners.ppa.fidelity_streams import FloatArray
from holdfast.topology.graph import Topology, per_task

SLACK = 1e-9
"""Costs may be fractions; a plan that is over the budget by rounding alone is within it."""

EXACT_MARGINALS = 2_000
"""Up to this many tasks, a topology that is not linear has its marginals found by trying."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """What may be chosen, what it costs, and how a choice is judged."""

    model: FidelityModel
    cost: FloatArray
    """Per task, what a replica takes from the budget."""
    budget: float
    required: BoolArray
    forbidden: BoolArray

    @property
    def size(self) -> int:
        return self.model.size

    @cached_property
    def useful(self) -> BoolArray:
        """Tasks that some query depends on; replicas of others change nothing."""
        model = self.model
        reached = np.zeros(len(model.spans), bool)
        for query in model.queries:
            reached[query.operator] |= query.weight > 0
        for i in reversed(model.topology.order):
            if reached[i]:
                for item in model.inputs[i]:
                    reached[item.producer] = True
        lengths = [span.stop - span.start for span in model.spans]
        return np.repeat(reached, lengths)

    @cached_property
    def base(self) -> BoolArray:
        """Chosen before any algorithm starts: the required, and useful tasks that cost nothing."""
        return self.required | (self.useful & (self.cost <= 0) & ~self.forbidden)

    @cached_property
    def open(self) -> BoolArray:
        """What an algorithm may add to `base`."""
        return self.useful & ~self.forbidden & ~self.base

    @property
    def most(self) -> BoolArray:
        """Everything that may be chosen at all."""
        return self.base | self.open

    @property
    def left(self) -> float:
        """Budget left after the required tasks are paid; negative: infeasible."""
        return self.budget - float(self.cost[self.required].sum())

    def fits(self, chosen: BoolArray) -> bool:
        return float(self.cost[chosen].sum()) <= self.budget + SLACK

    def price(self, chosen: BoolArray) -> float:
        return float(self.cost[chosen].sum())

    def marginals(self, chosen: BoolArray) -> FloatArray:
        """What each task adds (or would take away); exact except on large non-linear models."""
        model = self.model
        if model.is_linear or self.size <= EXACT_MARGINALS:
            return model.marginals(chosen)
        return self.derivative(chosen)

    def derivative(self, chosen: BoolArray) -> FloatArray:
        """Derivative of OF; of the chosen tasks, exactly the useless ones have zero."""
        state = chosen.astype(np.float64)
        return self.model.sensitivity(state, self.model.propagate(state))

    def trimmed(self, chosen: BoolArray) -> BoolArray:
        """The plan without tasks that are part of no complete tree; the required stay."""
        return self.required | (chosen & (self.derivative(chosen) > 0))

    def filled(self, chosen: BoolArray, *, step: float = 0.0, at_least: float = 0.0) -> BoolArray:
        """The plan with what is left of the budget spent task by task, densest gain first.

        At most `step` of all tasks (at least one) are taken per look at the gains, and only
        tasks that gain more than `at_least` per cost.
        """
        chosen = chosen.copy()
        per_look = max(1, int(step * self.size))
        while True:
            left = self.budget - self.price(chosen) + SLACK
            candidates = np.flatnonzero(self.open & ~chosen & (self.cost <= left))
            if not len(candidates):
                return chosen
            density = self.marginals(chosen)[candidates] / self.cost[candidates]
            order = np.argsort(-density, kind="stable")
            order = order[density[order] > at_least][:per_look]
            if not len(order):
                return chosen
            picked = candidates[order]
            chosen[picked[np.cumsum(self.cost[picked]) <= left]] = True


def problem_of(topology: Topology, request: PlanRequest) -> Problem:
    """Read a request; one clear line for what cannot be meant."""
    model = fidelity_model(topology)
    cost = np.concatenate(
        [np.asarray(per_task(op.replica_cost, op.parallelism)) for op in topology.operators]
    )
    required = mask_of(model, request.required, "--required")
    forbidden = mask_of(model, request.forbidden, "--forbidden")
    for operator, span in zip(topology.operators, model.spans, strict=True):
        if operator.replica == "required":
            required[span] = True
        elif operator.replica == "forbidden":
            forbidden[span] = True
    both = np.flatnonzero(required & forbidden)
    if len(both):
        raise BadInputError(
            f"task {model.names[both[0]]!r} is both required and forbidden to have a replica",
            where="--required",
            hint="drop one of the two",
        )
    return Problem(
        model=model,
        cost=cost,
        budget=_budget(request, float(cost[required].sum())),
        required=required,
        forbidden=forbidden,
    )


def _budget(request: PlanRequest, required: float) -> float:
    if request.replicas is None:
        if request.failed or request.failed_domains:
            return required  # only the loss is asked for
        raise BadInputError(
            "the replica budget is missing",
            where="--replicas",
            hint="write --replicas N, a total of replica_cost (1 per task by default)",
        )
    if not 0 <= request.replicas < np.inf:
        raise BadInputError(
            f"is {request.replicas:g}", where="--replicas", hint="write a number of 0 or more"
        )
    return request.replicas


def mask_of(model: FidelityModel, names: Iterable[str], where: str) -> BoolArray:
    """Task ids and operator names as a mask over tasks."""
    mask = np.zeros(model.size, bool)
    for name in names:
        try:
            mask[list(model.resolve(name))] = True
        except BadInputError as error:
            raise BadInputError(error.what, where=where, hint=error.hint) from None
    return mask


def failed_tasks(model: FidelityModel, request: PlanRequest) -> BoolArray | None:
    """The tasks a request lets fail; None: no failure is named."""
    if not request.failed and not request.failed_domains:
        return None
    failed = mask_of(model, request.failed, "--failed")
    for label in request.failed_domains:
        try:
            failed[model.domain(label)] = True
        except BadInputError as error:
            raise BadInputError(error.what, where="--failed-domain", hint=error.hint) from None
    return failed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """What an algorithm found."""

    chosen: BoolArray
    bound: float | None = None
    """Proved upper bound on the fidelity any plan can reach."""
    optimal: bool = False
    note: str = ""
