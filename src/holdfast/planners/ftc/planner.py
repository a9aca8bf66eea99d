"""FTC as a planning method: the fewest backups that keep every recovery within R."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from holdfast.errors import BadInputError
from holdfast.plan import FtcPlan, Plan
from holdfast.planners.ftc.effects import latencies
from holdfast.planners.ftc.problem import FtcProblem, make_problem, spelled_out
from holdfast.planners.ftc.result import Answer, infeasible, spell_out
from holdfast.planners.interface import PlanRequest, Solve, Sweep
from holdfast.topology.graph import Topology

ALGORITHMS: Mapping[str, str] = {
    "auto": "the right algorithm for the shape, with a proof where one can be had",
    "exact": "branch and cut until proved or out of time",
    "late": "one pass, O(N+E): back up only when a consumer could not wait",
    "line": "the paper's algorithm for lines, corrected (optimal there)",
    "tree": "in-trees, nearly linear (optimal there)",
    "dag": "the paper's greedy algorithm for DAGs, corrected",
    "share": "the paper's baseline: the task with the largest share first",
    "exhaustive": "every plan; also the smallest overall latency; small topologies only",
    "line-as-printed": "the paper's Algorithm 2 to the letter: may break the bound",
    "tree-as-printed": "the paper's Algorithm 3 to the letter: may break the bound",
    "dag-as-printed": "the paper's Algorithm 4 to the letter: may break the bound",
}


class FtcPlanner:
    """See `holdfast.planners.interface.Planner`."""

    method = "ftc"
    algorithms = ALGORITHMS
    uses = frozenset(
        {"max_recovery", "restart", "sources", "cost", "expected", "required", "forbidden"}
    )

    def plan(self, topology: Topology, request: PlanRequest, solve: Solve) -> FtcPlan:
        if request.restart:
            return self._after_restart(topology, request, solve)
        problem = make_problem(topology, request)
        if problem.obstacle is not None:
            return infeasible(problem, request.algorithm)
        answer = _run(problem, request.algorithm, solve)
        return _checked(problem, spell_out(problem, answer, request.algorithm), answer)

    def _after_restart(self, topology: Topology, request: PlanRequest, solve: Solve) -> FtcPlan:
        """The plan for what the bound leaves after a restart, with the restart in its latencies."""
        inner = without_restart(request)
        if inner.max_recovery is not None and inner.max_recovery < 0:
            note = f"every recovery takes {request.restart:g} to restart, above the bound"
            return FtcPlan(algorithm=request.algorithm, feasible=False, note=note)
        plan = self.plan(_after(topology, request.restart), inner, solve)
        late = {name: value + request.restart for name, value in plan.recovery_latency.items()}
        overall = None if plan.overall is None else plan.overall + request.restart
        return replace(plan, recovery_latency=late, overall=overall)

    def sweep(self, topology: Topology, request: PlanRequest, solve: Solve) -> Sweep:
        from holdfast.planners.ftc.curve import sweep  # noqa: PLC0415  with the solver, only when asked

        return sweep(topology, request, solve)

    def explain(self, topology: Topology, request: PlanRequest, result: Plan) -> Sequence[str]:
        from holdfast.planners.ftc.explain import explain  # noqa: PLC0415

        if not isinstance(result, FtcPlan):
            raise TypeError("an FTC plan is explained by FTC")
        if not request.restart:
            return explain(topology, request, result)
        late = {name: value - request.restart for name, value in result.recovery_latency.items()}
        inner = replace(result, recovery_latency=late)
        first = (
            f"every recovery takes {request.restart:.2f} {topology.unit.time} to detect and to "
            "restart; what follows is about the rest of the bound"
        )
        return [first, *explain(topology, without_restart(request), inner)]


def without_restart(request: PlanRequest) -> PlanRequest:
    """The request for what comes after the restart."""
    bound = request.max_recovery
    rest = None if bound is None else bound - request.restart
    return replace(request, max_recovery=rest, restart=0.0)


def _after(topology: Topology, restart: float) -> Topology:
    """The topology with its operators' own bounds as they are after the restart."""
    return replace(
        topology,
        operators=tuple(
            operator
            if operator.max_recovery is None
            else replace(operator, max_recovery=max(0.0, operator.max_recovery - restart))
            for operator in topology.operators
        ),
    )


def _run(problem: FtcProblem, algorithm: str, solve: Solve) -> Answer:
    if algorithm in ("auto", "exact"):
        from holdfast.planners.ftc.auto import auto  # noqa: PLC0415  imports the solver
        from holdfast.planners.ftc.exact import exact  # noqa: PLC0415

        return auto(problem, solve) if algorithm == "auto" else exact(problem, solve)
    return _run_on_core(problem, algorithm, solve)


def _run_on_core(problem: FtcProblem, algorithm: str, solve: Solve) -> Answer:
    from holdfast.planners.ftc import as_printed, core, dag, exhaustive, line, share, tree  # noqa: PLC0415
    from holdfast.planners.ftc.auto import answer  # noqa: PLC0415
    from holdfast.planners.ftc.reduce import core_of  # noqa: PLC0415
    from holdfast.planners.ftc.shapes import is_lines, is_tree  # noqa: PLC0415

    if algorithm == "late":
        whole = core_of(problem)
        plan = core.late(whole)
        return answer(problem, whole, plan, optimal=problem.equal_costs and is_tree(whole))
    runs: Mapping[str, Callable[[core.Core, Solve], tuple[bytearray, bool]]] = {
        "line": line.line,
        "tree": tree.tree,
        "dag": dag.dag,
        "share": share.share,
        "exhaustive": exhaustive.exhaustive,
        "line-as-printed": as_printed.line_as_printed,
        "tree-as-printed": as_printed.tree_as_printed,
        "dag-as-printed": as_printed.dag_as_printed,
    }
    problem = spelled_out(problem, algorithm)
    instance = core_of(problem)
    if algorithm.startswith("line") and not is_lines(instance):
        raise BadInputError(
            "line is for parallel lines that join only at a sink",
            where="--algorithm",
            hint="write tree, dag or auto",
        )
    if algorithm.startswith("tree") and not is_tree(instance):
        raise BadInputError(
            "tree is for topologies in which every task feeds at most one other",
            where="--algorithm",
            hint="write dag or auto",
        )
    backed, finished = runs[algorithm](instance, solve)
    proved = algorithm in ("exhaustive", "tree") or (algorithm == "line" and problem.equal_costs)
    note = "" if finished else "stopped early: completed by one late pass"
    return answer(problem, instance, backed, optimal=proved and finished, note=note)


def _checked(problem: FtcProblem, plan: FtcPlan, answer: Answer) -> FtcPlan:
    """Whether the bound holds is computed, never assumed."""
    survives = bytearray(problem.durable)
    for task in answer.backups:
        survives[task] = 1
    found = latencies(problem.graph, problem.times, survives)
    broken = [v for v in range(problem.graph.tasks) if found[v] > problem.caps[v]]
    if not broken:
        return plan
    if not plan.algorithm.endswith("-as-printed"):
        raise AssertionError(f"{plan.algorithm} broke the bound at task {broken[0]}")
    worst = max(broken, key=lambda v: found[v] - problem.bounds[v])
    name, bound = problem.graph.names[worst], problem.bounds[worst]
    note = f"the algorithm as printed breaks the bound: {name} takes {found[worst]:g} > {bound:g}"
    return replace(plan, feasible=False, optimal=False, note=note)


PLANNER = FtcPlanner()
