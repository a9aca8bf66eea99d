"""FastRecover behind the common planner interface: requests in, plans, curves and reasons out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from holdfast.errors import BadInputError
from holdfast.plan import FastRecoverPlan, Plan
from holdfast.planners.fastrecover.auto import auto
from holdfast.planners.fastrecover.chain_exact import exact_chain
from holdfast.planners.fastrecover.chain_grid import DEFAULT_STEPS as CHAIN_STEPS
from holdfast.planners.fastrecover.chain_grid import chain_on_grid
from holdfast.planners.fastrecover.checkpointing import BoolArray, CheckpointModel, checkpoint_model
from holdfast.planners.fastrecover.curve import trade_off
from holdfast.planners.fastrecover.explain import explain_plan
from holdfast.planners.fastrecover.frequencies import Goal, Rule
from holdfast.planners.fastrecover.naive import n_segments, one_segment
from holdfast.planners.fastrecover.powers import in_powers_of_two
from holdfast.planners.fastrecover.problem import Outcome, Problem
from holdfast.planners.fastrecover.result import to_plan
from holdfast.planners.fastrecover.rsrfs import rsrfs
from holdfast.planners.fastrecover.rsrfs_exact import rsrfs_exact
from holdfast.planners.fastrecover.tree_exact import exact_tree
from holdfast.planners.fastrecover.tree_grid import DEFAULT_FREQUENCIES, tree_on_grid
from holdfast.planners.fastrecover.tree_grid import DEFAULT_STEPS as TREE_STEPS
from holdfast.planners.interface import PlanRequest, Solve, Sweep
from holdfast.topology.graph import Topology

ALGORITHMS: Mapping[str, str] = {
    "auto": "the strongest that fits the topology's shape and size",
    "exact": "proved optimum on chains and out-trees, no grid",
    "dag": "any topology, joins included, with a proved bound",
    "chain": "Algorithm 1 of the thesis on a grid of overhead (chains)",
    "rsrfs": "Algorithm 1, then frequencies that differ inside a segment (chains)",
    "rsrfs-exact": "the best frequencies that differ inside a segment (chains)",
    "tree": "Algorithm 2 of the thesis on grids of overhead and frequency (out-trees)",
    "nsegments": "baseline: every operator saves its input",
    "onesegment": "baseline: only the sources' input is saved",
}
ON_GRID = frozenset({"chain", "rsrfs", "tree"})
ON_CHAINS = frozenset({"chain", "rsrfs", "rsrfs-exact"})
RELAXED = frozenset({"rsrfs", "rsrfs-exact"})
SEARCHING = frozenset({"auto", "dag", "exact"})
MOST_CHAIN = 3000
"""Longest chain for algorithms whose tables are quadratic."""
MOST_CELLS = 40_000_000
"""Largest table of the thesis' tree algorithm."""


class FastRecoverPlanner:
    """Segments and checkpoint frequencies with the least expected recovery time."""

    method = "fastrecover"
    algorithms = ALGORITHMS
    uses = frozenset(
        {
            "max_overhead",
            "max_recovery",
            "required",
            "forbidden",
            "grid_overhead",
            "grid_frequency",
            "frequencies",
            "powers_of_two",
        }
    )

    def plan(self, topology: Topology, request: PlanRequest, solve: Solve) -> Plan:
        """One plan; infeasible is an answer with a reason."""
        problem = make_problem(topology, request)
        check_algorithm(problem.model, request)
        outcome = run(problem, request, solve)
        if outcome.solution is None and not outcome.note:
            outcome = replace(outcome, note=why_infeasible(problem, request.algorithm))
        outcome = _within_recovery(outcome, request)
        if outcome.solution is not None and not outcome.note and not problem.model.failure.any():
            outcome = replace(outcome, note="no operator has a failure_rate: every plan scores 0")
        return to_plan(problem, outcome, request.algorithm, solve)

    def sweep(self, topology: Topology, request: PlanRequest, solve: Solve) -> Sweep | None:
        """Expected recovery time against overhead."""
        problem = make_problem(topology, request)
        check_algorithm(problem.model, request)
        return trade_off(
            problem, lambda at: run(at, request, solve), solve, algorithm=request.algorithm
        )

    def explain(self, topology: Topology, request: PlanRequest, result: Plan) -> Sequence[str]:
        """Why each anchor is one, what bounds each segment, what the plan costs."""
        assert isinstance(result, FastRecoverPlan)  # noqa: S101  the planner's own answer
        return explain_plan(make_problem(topology, request), result)


def make_problem(topology: Topology, request: PlanRequest) -> Problem:
    """Check a request's numbers and names and put them in the algorithms' form."""
    model = checkpoint_model(topology)
    required = model.is_source | _named(model, request.required, "--required")
    forbidden = _named(model, request.forbidden, "--forbidden")
    for i in np.flatnonzero(required & forbidden):
        name = topology.operators[i].name
        why = "is a source, whose input is always saved" if model.is_source[i] else "is required"
        raise BadInputError(f"{name!r} {why}", where="--forbidden", hint="leave it out")
    return Problem(
        model=model,
        goal=_goal(request),
        rule=_rule(request),
        required=required,
        forbidden=forbidden,
    )


def _named(model: CheckpointModel, names: Sequence[str], where: str) -> BoolArray:
    chosen = np.zeros(model.size, bool)
    for name in names:
        if name not in model.topology.index:
            raise BadInputError(
                f"there is no operator {name!r}", where=where, hint="name an operator of the file"
            )
        chosen[model.topology.index[name]] = True
    return chosen


def _goal(request: PlanRequest) -> Goal:
    for where, value in (
        ("--max-overhead", request.max_overhead),
        ("--max-recovery", request.max_recovery),
    ):
        if value is not None and not 0 < value < math.inf:
            raise BadInputError(f"is {value:g}", where=where, hint="write a number above 0")
    if request.max_overhead is not None:
        return Goal("overhead", request.max_overhead)
    if request.max_recovery is not None:
        return Goal("recovery", request.max_recovery)
    raise BadInputError(
        "fastrecover needs a bound",
        where="--max-overhead",
        hint="write --max-overhead C, or --max-recovery R for the least overhead",
    )


def _rule(request: PlanRequest) -> Rule:
    if not request.frequencies:
        return Rule(powers_of_two=request.powers_of_two)
    if request.powers_of_two:
        raise BadInputError(
            "frequencies are restricted twice",
            where="--powers-of-two",
            hint="leave out --frequencies or --powers-of-two",
        )
    for value in request.frequencies:
        if not 0 < value < math.inf:
            raise BadInputError(
                f"holds {value:g}", where="--frequencies", hint="write numbers above 0"
            )
    return Rule(choices=tuple(sorted(set(map(float, request.frequencies)))))


def check_algorithm(model: CheckpointModel, request: PlanRequest) -> None:
    """Refuse an algorithm on a shape, size or question it has no answer for."""
    name = request.algorithm
    if name not in ALGORITHMS:
        raise BadInputError(
            f"fastrecover has no algorithm {name!r}",
            where="--algorithm",
            hint=f"write one of {', '.join(ALGORITHMS)}",
        )

    def refuse(what: str, hint: str) -> None:
        raise BadInputError(what, where="--algorithm", hint=hint)

    if name in ON_CHAINS and not model.is_chain:
        refuse(f"{name} plans chains, and this topology is none", "write auto, exact or dag")
    if name in ("tree", "exact") and model.has_joins:
        refuse(f"{name} plans out-trees, and this topology has joins", "write dag or auto")
    if name in ON_GRID and request.max_overhead is None:
        refuse(f"{name} answers --max-overhead only", "write exact, dag or auto")
    if name in RELAXED and (request.frequencies or request.powers_of_two):
        refuse(f"{name} chooses its own powers of two", "leave out the restriction, or write exact")
    if name in ON_GRID and request.powers_of_two:
        refuse(f"{name} knows no powers of two", "write exact, dag or auto")
    if name in ON_CHAINS and model.size > MOST_CHAIN:
        refuse(f"{name} takes at most {MOST_CHAIN} operators", "write auto")
    for where, grid in (
        ("--grid-overhead", request.grid_overhead),
        ("--grid-frequency", request.grid_frequency),
    ):
        if grid is not None and not 1 <= grid <= 10_000:
            raise BadInputError(f"is {grid}", where=where, hint="write a number from 1 to 10000")
    if name == "tree":
        cells = model.size * (request.grid_overhead or TREE_STEPS)
        cells *= request.grid_frequency or DEFAULT_FREQUENCIES
        if cells > MOST_CELLS:
            refuse(f"the grid has {cells} cells for each head", "write auto, or a coarser grid")


def exact(problem: Problem, solve: Solve) -> Outcome:
    """Chains and out-trees, no grid."""
    if problem.model.size > MOST_CHAIN:
        return auto(problem, solve)
    return (exact_chain if problem.model.is_chain else exact_tree)(problem, solve)


def run(problem: Problem, request: PlanRequest, solve: Solve) -> Outcome:
    """The algorithm asked for."""
    if problem.rule.powers_of_two and request.algorithm in SEARCHING:
        algorithm = exact if request.algorithm == "exact" else auto
        return in_powers_of_two(problem, solve, algorithm)
    match request.algorithm:
        case "auto" | "dag":
            return auto(problem, solve)
        case "exact":
            return exact(problem, solve)
        case "chain":
            return chain_on_grid(problem, solve, steps=request.grid_overhead or CHAIN_STEPS)
        case "rsrfs":
            return rsrfs(problem, solve, steps=request.grid_overhead or CHAIN_STEPS)
        case "rsrfs-exact":
            return rsrfs_exact(problem, solve)
        case "tree":
            return tree_on_grid(
                problem,
                solve,
                steps=request.grid_overhead or TREE_STEPS,
                frequencies=request.grid_frequency or DEFAULT_FREQUENCIES,
            )
        case "nsegments":
            return n_segments(problem, solve)
        case _:
            return one_segment(problem, solve)


def why_infeasible(problem: Problem, algorithm: str) -> str:
    """One line: what stands in the way."""
    model, limit = problem.model, problem.goal.limit
    anchors = problem.most() if algorithm == "nsegments" else problem.fewest()
    if problem.goal.bounded == "overhead":
        save = float(model.save[anchors].sum())
        whose = "every operator" if algorithm == "nsegments" else "the sources"
        if (problem.required & ~model.is_source).any() and algorithm != "nsegments":
            whose = "the sources and the required operators"
        if save >= limit:
            return f"saving the input of {whose} alone takes {save:.6g}, the bound is {limit:.6g}"
        return f"at the lowest frequency allowed the overhead exceeds {limit:.6g}"
    if algorithm == "onesegment":
        return f"one segment cannot recover within {limit:.6g}"
    load = float(model.failure @ (model.state + np.where(problem.most(), model.access, 0.0)))
    if load >= limit:
        return f"loading states alone takes {load:.6g} in expectation, the bound is {limit:.6g}"
    return f"at the highest frequency allowed recovery takes longer than {limit:.6g}"


def _within_recovery(outcome: Outcome, request: PlanRequest) -> Outcome:
    """With both bounds given, a plan has to meet the second as well."""
    found = outcome.solution
    if request.max_overhead is None or request.max_recovery is None or found is None:
        return outcome
    if found.objective <= request.max_recovery:
        return outcome
    surely = outcome.bound is not None and outcome.bound > request.max_recovery
    least = "the least" if surely or outcome.optimal else "the least found"
    return Outcome(
        solution=None,
        note=f"{least} expected recovery time within that overhead is {found.objective:.6g}, "
        f"the bound is {request.max_recovery:.6g}",
    )


PLANNER = FastRecoverPlanner()
