"""The PPA planner as the command line meets it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks._ppa_common import brute_force
from tests.unit.planners.ppa.shapes import fig5, shape

from holdfast.errors import BadInputError
from holdfast.plan import ReplicationPlan
from holdfast.planners.interface import PlanRequest, Solve
from holdfast.planners.ppa import PLANNER, completion
from holdfast.planners.ppa.fidelity import fidelity_model
from holdfast.planners.ppa.mc_trees import count_trees
from holdfast.planners.registry import planner
from holdfast.testing.generators import ppa_random
from holdfast.topology.files import load_topology
from holdfast.topology.graph import Operator, Query, Topology

pytestmark = pytest.mark.unit

EXAMPLES = Path(__file__).parents[4] / "examples" / "topologies"
FIELDS = {
    "format",
    "method",
    "algorithm",
    "feasible",
    "optimal",
    "bound",
    "solve_ms",
    "objective",
    "note",
    "replicas",
    "fidelity",
    "fidelity_per_query",
    "completeness",
}


def ask(topology: Topology, **options) -> ReplicationPlan:
    result = PLANNER.plan(topology, PlanRequest(**options), Solve())
    assert isinstance(result, ReplicationPlan)
    return result


def test_the_answer_has_the_fields_of_the_contract():
    """Ids in topology order, plain values, the same fields for every algorithm."""
    for algorithm in ("auto", "exact", "dp", "sa", "greedy", "sa-as-printed"):
        answer = ask(fig5(), replicas=4, algorithm=algorithm).to_json()
        assert set(answer) == FIELDS
        assert answer["method"] == "ppa"
        assert answer["algorithm"] == algorithm
        names = fidelity_model(fig5()).names
        assert answer["replicas"] == [name for name in names if name in answer["replicas"]]
    best = ask(fig5(), replicas=4)
    assert best.optimal
    assert best.fidelity == best.objective == best.bound == pytest.approx(0.5)


def test_the_registry_knows_the_planner():
    """`--method ppa` finds it, and its algorithms start with the default."""
    assert planner("ppa") is PLANNER
    assert next(iter(PLANNER.algorithms)) == "auto"


def test_required_replicas_beyond_the_budget_are_infeasible_not_an_error():
    """Lists empty, numbers null, and a line that says why."""
    answer = ask(fig5(), replicas=1, required=("o0",)).to_json()
    assert not answer["feasible"]
    assert answer["replicas"] == []
    assert answer["fidelity_per_query"] == {}
    assert answer["objective"] is answer["fidelity"] is answer["completeness"] is None
    assert "cost 4" in answer["note"]


def test_operators_pin_and_exclude_replicas():
    """`replica: required` and `forbidden` in the file hold like the options."""
    topology = replace(
        fig5(),
        operators=(
            Operator(name="o0", parallelism=4),
            Operator(name="o1", parallelism=2),
            Operator(name="o2", replica="forbidden"),
        ),
        queries=(
            Query(name="top", sink="o2", priority=3),
            Query(name="middle", sink="o1"),
        ),
    )
    result = ask(topology, replicas=3, required=("o0.3",))
    assert "o2" not in result.replicas
    assert "o0.3" in result.replicas
    assert result.fidelity_per_query == pytest.approx({"top": 0.0, "middle": 0.5})
    assert result.objective == pytest.approx(0.5 / 4)
    with pytest.raises(BadInputError, match="both required and forbidden"):
        ask(topology, replicas=3, required=("o2",))


def test_replica_costs_count():
    """A dear task is passed over where two cheap ones carry as much."""
    topology = Topology(
        name="dear",
        operators=(Operator(name="a", parallelism=3, replica_cost=(3.0, 1.0, 1.0)),),
        task_rates={"a": (2.0, 1.5, 1.0)},
    )
    result = ask(topology, replicas=2)
    assert result.replicas == ("a.1", "a.2")
    assert result.objective == pytest.approx(2.5 / 4.5)
    assert result.objective == pytest.approx(brute_force(topology, 2))


def test_named_failures_are_evaluated_on_their_own():
    """With --failed only those fail and replicas among them survive; the objective stays."""
    topology = replace(
        fig5(),
        operators=(
            Operator(name="o0", parallelism=4, failure_domain=("r1", "r1", "r2", "r2")),
            Operator(name="o1", parallelism=2, failure_domain="r2"),
            Operator(name="o2"),
        ),
    )
    everything = ask(topology, replicas=4)
    kept = set(everything.replicas)
    assert everything.objective == pytest.approx(0.5)
    named = ask(topology, replicas=4, failed=("o0.0", "o0.2"))
    lost = len({"o0.0", "o0.2"} - kept)
    assert named.replicas == everything.replicas
    assert named.objective == pytest.approx(0.5)
    assert named.fidelity == pytest.approx(1 - lost / 4)
    domain = ask(topology, failed_domains=("r2",))
    assert domain.replicas == ()
    assert domain.fidelity == 0
    assert ask(topology, failed_domains=("r1",)).fidelity == pytest.approx(0.5)
    assert ask(topology, failed_domains=("r1",)).completeness == pytest.approx(0.5 * 2 / 3 + 1 / 6)


def test_tasks_no_query_reads_are_never_replicated():
    """An operator that leads nowhere is left out, however much budget there is."""
    topology = replace(
        shape([2, 2, 2], [(0, 1, "full"), (0, 2, "full")]),
        queries=(Query(name="only", sink="o1"),),
    )
    for algorithm in ("auto", "sa", "greedy"):
        assert ask(topology, replicas=6, algorithm=algorithm).replicas == (
            "o0.0",
            "o0.1",
            "o1.0",
            "o1.1",
        )


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({}, "--replicas"),
        ({"replicas": -1}, "--replicas"),
        ({"replicas": 3, "algorithm": "inc"}, "--algorithm"),
        ({"replicas": 3, "failed": ("x",)}, "--failed"),
        ({"replicas": 3, "failed_domains": ("x",)}, "--failed-domain"),
        ({"replicas": 3, "required": ("x",)}, "--required"),
        ({"replicas": 3, "forbidden": ("o0.9",)}, "--forbidden"),
        ({"replicas": 3, "slots": 2}, "--slots"),
        ({"replicas": 3, "arrivals": (1.0,)}, "--arrivals"),
    ],
)
def test_bad_requests_are_refused(options, where):
    """One clear line, with the option it is about."""
    with pytest.raises(BadInputError) as refused:
        ask(fig5(), **options)
    assert refused.value.where == where
    assert refused.value.hint


def test_a_plan_that_missed_every_path_does_not_blame_the_budget():
    """A heuristic may complete nothing although the budget pays for it; it says what would."""
    topology = ppa_random(4, parallelism=(2, 3), full=0.5, joins=0.3, seed=1)
    assert ask(topology, replicas=6).objective > 0
    missed = ask(topology, replicas=6, algorithm="greedy")
    assert missed.objective == 0
    assert missed.note == "greedy completes no path from the sources to a result; auto might"
    assert ask(topology, replicas=3).note.startswith("a budget of 3 pays for no complete path")


@pytest.mark.parametrize(
    ("stopped", "end"), [(False, "a result, nor would any other"), (True, "a result")]
)
def test_what_was_not_looked_for_to_the_end_is_not_denied(monkeypatch, stopped, end):
    """Out of time, nothing is known of other budgets."""
    monkeypatch.setattr(completion, "cheapest_tree", lambda problem, solve: None)
    solve = Solve(should_stop=lambda: stopped)
    found = PLANNER.plan(fig5(), PlanRequest(replicas=1, algorithm="exact"), solve)
    assert found.note.endswith(end)


def test_the_sweep_rises_from_nothing_to_everything():
    """Fidelity against budget: from 0 to 1, never falling, with the asked budget marked."""
    sweep = PLANNER.sweep(fig5(), PlanRequest(replicas=4), Solve())
    assert sweep is not None
    assert [point.x for point in sweep.points] == list(range(8))
    values = [point.y for point in sweep.points]
    assert values[0] == 0
    assert values[-1] == pytest.approx(1)
    assert (np.diff(values) >= 0).all()
    assert {mark.label: mark.y for mark in sweep.marks} == pytest.approx(
        {"plan": 0.5, "greedy": 0.25}
    )
    assert PLANNER.sweep(fig5(), PlanRequest(recover=True), Solve()) is None


def test_explanations_are_true_sentences():
    """What the plan says about a task is what the model says."""
    request = PlanRequest(replicas=4)
    lines = PLANNER.explain(fig5(), request, PLANNER.plan(fig5(), request, Solve()))
    assert any("50.0% to 0.0%" in line and "task o2 " in line for line in lines)
    assert any("no plan within the budget reaches more" in line for line in lines)
    request = PlanRequest(recover=True)
    lines = PLANNER.explain(fig5(), request, PLANNER.plan(fig5(), request, Solve()))
    assert any("prepared by" in line for line in lines)


def test_shipped_q1_has_the_papers_number_of_trees_and_plans():
    """Hierarchical aggregates: 20 trees; half the tasks keep nearly half the lanes."""
    topology = load_topology(EXAMPLES / "q1-top100.yaml")
    assert sum(count_trees(fidelity_model(topology)).values()) == 20
    result = ask(topology, replicas=topology.task_count // 2)
    assert result.optimal
    assert result.objective == pytest.approx(9 / 20)
    assert ask(topology, replicas=23, algorithm="greedy").objective == 0


def test_shipped_q2_needs_both_sides_of_its_join():
    """OF knows that a join without reports finds nothing, IC does not."""
    topology = load_topology(EXAMPLES / "q2-incidents.yaml")
    lost = ask(topology, failed=("reports",))
    assert lost.fidelity == 0
    assert lost.completeness > 0.9
    half = ask(topology, replicas=topology.task_count // 2)
    assert half.optimal
    assert 0 < half.objective < half.completeness
