"""FastRecover as the command line sees it: requests, refusals, JSON, curves and reasons."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from tests.unit.planners.fastrecover.cases import (
    VECTOR_CHAIN,
    VECTOR_TREE,
    chain_pairs,
    dag_pairs,
    random_topology,
)

from holdfast.errors import BadInputError
from holdfast.planners.fastrecover import PLANNER
from holdfast.planners.fastrecover.checkpointing import checkpoint_model, configuration
from holdfast.planners.interface import PlanRequest, Solve
from holdfast.topology.graph import Topology

pytestmark = pytest.mark.unit

GRAPH = random_topology(np.random.default_rng(3), dag_pairs(np.random.default_rng(3), 9), 9)
GRAPH_LIMIT = float(checkpoint_model(GRAPH).save.sum() * 1.2)
LIMITS = {"chain": (VECTOR_CHAIN, 0.4), "tree": (VECTOR_TREE, 0.4), "graph": (GRAPH, GRAPH_LIMIT)}
CHAIN_ONLY = ("chain", "rsrfs", "rsrfs-exact")


def plan(topology, algorithm="auto", **options):
    return PLANNER.plan(topology, PlanRequest(algorithm=algorithm, **options), Solve())


def changed(topology, **fields):
    """The same graph with some fields of every operator replaced."""
    operators = tuple(replace(op, **fields) for op in topology.operators)
    return replace(topology, operators=operators)


def algorithms_for(shape):
    for name in PLANNER.algorithms:
        if shape != "chain" and name in CHAIN_ONLY:
            continue
        if shape == "graph" and name in ("exact", "tree"):
            continue
        yield name


ALL = [(shape, name) for shape in LIMITS for name in algorithms_for(shape)]


@pytest.mark.parametrize(("shape", "algorithm"), ALL)
def test_every_plan_is_what_it_says(shape, algorithm):
    """Anchors and frequencies alone reproduce the plan's numbers, and overhead keeps its bound."""
    topology, limit = LIMITS[shape]
    found = plan(topology, algorithm, max_overhead=limit)
    assert found.feasible
    frequency = {}
    for segment in found.segments:
        frequency |= segment.frequencies or dict.fromkeys(segment.operators, segment.frequency)
    values = [frequency[op.name] for op in topology.operators]
    again = configuration(checkpoint_model(topology), found.anchors, values)
    assert again.overhead == pytest.approx(found.checkpoint_overhead, rel=1e-9)
    assert again.overhead <= limit
    assert found.checkpoint_overhead <= limit
    assert again.expected_recovery_time == pytest.approx(found.expected_recovery_time, rel=1e-9)
    assert found.objective == pytest.approx(found.expected_recovery_time, rel=1e-9)
    names = [op.name for op in topology.operators]
    assert sorted(n for s in found.segments for n in s.operators) == sorted(names)
    assert {topology.operators[i].name for i in topology.sources} <= set(found.anchors)
    for name, alone in zip(names, again.recovery_times, strict=True):
        assert found.worst_case[name] >= alone * (1 - 1e-12)
    if found.bound is not None:
        assert found.bound <= found.objective * (1 + 1e-12)


def test_nothing_beats_the_optimum():
    """Grids, baselines and heuristics stay above; relaxed synchronisation may go below."""
    best = plan(VECTOR_CHAIN, "exact", max_overhead=0.4).objective
    for name in ("chain", "nsegments", "onesegment", "dag", "auto", "tree"):
        assert plan(VECTOR_CHAIN, name, max_overhead=0.4).objective >= best * (1 - 1e-9)
    assert plan(VECTOR_CHAIN, "rsrfs-exact", max_overhead=0.4).objective <= best


def test_json_has_the_agreed_fields():
    """Names and shapes of the contract, with plain values only."""
    found = plan(VECTOR_TREE, max_overhead=0.4).to_json()
    json.dumps(found, allow_nan=False)
    assert found["method"] == "fastrecover"
    assert found["anchors"] == ["0", "1"]
    assert {"head", "operators", "frequency"} <= set(found["segments"][0])
    for name in ("expected_recovery_time", "checkpoint_overhead", "objective", "bound"):
        assert isinstance(found[name], float)


def test_infeasible_is_an_answer():
    """Too little overhead even for the source: empty lists, nulls and a reason."""
    found = plan(VECTOR_CHAIN, max_overhead=0.1).to_json()
    assert found["feasible"] is False
    assert found["anchors"] == []
    assert found["segments"] == []
    assert found["expected_recovery_time"] is None
    assert "saving the input of the sources alone takes 0.15" in found["note"]


def test_exact_finds_what_the_grids_miss():
    """Where saving leaves less than a grid step, Algorithm 2 has no plan and `exact` has one."""
    assert not plan(VECTOR_TREE, "tree", max_overhead=0.1501).feasible
    assert plan(VECTOR_TREE, "exact", max_overhead=0.1501).feasible
    # The corrected Algorithm 1 can always make one segment; what a coarse grid costs is quality.
    few = plan(VECTOR_CHAIN, "chain", max_overhead=0.4, grid_overhead=2)
    best = plan(VECTOR_CHAIN, "exact", max_overhead=0.4)
    assert few.objective > 1.3 * best.objective


def test_the_dual_question_undoes_the_first():
    """The recovery that an overhead buys costs that overhead."""
    for topology, limit in LIMITS.values():
        first = plan(topology, max_overhead=limit)
        back = plan(topology, max_recovery=first.expected_recovery_time * (1 + 1e-9))
        assert back.objective == back.checkpoint_overhead
        assert back.objective == pytest.approx(limit, rel=2e-3)
        assert back.expected_recovery_time <= first.expected_recovery_time * (1 + 1e-9)


def test_both_bounds_must_hold():
    """A recovery bound next to an overhead bound can make a request infeasible."""
    assert plan(VECTOR_CHAIN, max_overhead=0.4, max_recovery=0.006).feasible
    found = plan(VECTOR_CHAIN, max_overhead=0.4, max_recovery=0.005)
    assert not found.feasible
    assert "0.0059" in found.note


@pytest.mark.parametrize("shape", LIMITS)
def test_powers_of_two_and_lists_are_obeyed(shape):
    """Restricted frequencies are what was asked for and cost at most what theory allows."""
    topology, limit = LIMITS[shape]
    free = plan(topology, max_overhead=limit)
    powers = plan(topology, max_overhead=limit, powers_of_two=True)
    eta = np.array([segment.frequency for segment in powers.segments])
    steps = np.log2(eta / eta[0])
    assert steps == pytest.approx(np.round(steps), abs=1e-9)
    assert powers.objective <= free.objective * 1.041
    listed = plan(topology, max_overhead=limit, frequencies=(0.5, 1.0, 2.0, 4.0, 8.0))
    assert {segment.frequency for segment in listed.segments} <= {0.5, 1.0, 2.0, 4.0, 8.0}
    assert listed.objective >= free.objective * (1 - 1e-9)


@pytest.mark.parametrize("shape", LIMITS)
def test_minimum_intervals_cap_frequencies(shape):
    """No segment checkpoints more often than its slowest operator may."""
    topology, limit = LIMITS[shape]
    slow = changed(topology, min_interval=0.3)
    planned = [plan(slow, name, max_overhead=limit) for name in algorithms_for(shape)]
    assert sum(found.feasible for found in planned) >= 3
    for found in planned:
        for segment in found.segments:
            for eta in (segment.frequency, *segment.frequencies.values()):
                assert eta <= 1 / 0.3 + 1e-12, found.algorithm


def test_required_and_forbidden_operators():
    """Named operators are anchors, or are not, on every shape."""
    for topology, limit in LIMITS.values():
        names = [op.name for op in topology.operators]
        free = plan(topology, max_overhead=limit)
        inner = [n for i, n in enumerate(names) if i not in topology.sources]
        chosen = next(n for n in inner if n in free.anchors)
        without = plan(topology, max_overhead=limit, forbidden=(chosen,))
        assert chosen not in without.anchors
        assert without.objective >= free.objective * (1 - 1e-9)
        for left in [n for n in inner if n not in free.anchors][:1]:
            assert left in plan(topology, max_overhead=limit * 2, required=(left,)).anchors


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({}, "--max-overhead"),
        ({"max_overhead": -1.0}, "--max-overhead"),
        ({"max_recovery": 0.0}, "--max-recovery"),
        ({"max_overhead": 0.4, "algorithm": "fast"}, "--algorithm"),
        ({"max_recovery": 0.1, "algorithm": "chain"}, "--algorithm"),
        ({"max_overhead": 0.4, "frequencies": (0.0,)}, "--frequencies"),
        ({"max_overhead": 0.4, "frequencies": (1.0,), "powers_of_two": True}, "--powers-of-two"),
        ({"max_overhead": 0.4, "required": ("x",)}, "--required"),
        ({"max_overhead": 0.4, "forbidden": ("0",)}, "--forbidden"),
        ({"max_overhead": 0.4, "grid_overhead": 0, "algorithm": "chain"}, "--grid-overhead"),
        ({"max_overhead": 0.4, "powers_of_two": True, "algorithm": "rsrfs"}, "--algorithm"),
    ],
)
def test_bad_requests_are_refused_in_one_line(options, where):
    """Every refusal names the option and says what to write."""
    with pytest.raises(BadInputError) as refused:
        PLANNER.plan(VECTOR_CHAIN, PlanRequest(**options), Solve())
    assert refused.value.where == where
    assert refused.value.hint


@pytest.mark.parametrize("name", ["chain", "rsrfs", "rsrfs-exact", "tree", "exact"])
def test_algorithms_refuse_shapes_they_do_not_know(name):
    """A graph with joins is sent to the algorithm that knows joins."""
    with pytest.raises(BadInputError, match="dag"):
        PLANNER.plan(GRAPH, PlanRequest(algorithm=name, max_overhead=GRAPH_LIMIT), Solve())


def test_the_curve_falls_and_marks_the_baselines():
    """Recovery never rises with overhead; baselines lie on or above the chosen plan."""
    sweep = PLANNER.sweep(VECTOR_CHAIN, PlanRequest(max_overhead=0.4), Solve())
    points = [point.y for point in sweep.points if point.y is not None]
    assert len(points) >= 20
    assert all(a >= b * (1 - 1e-9) for a, b in pairwise(points))
    marks = {mark.label: mark for mark in sweep.marks}
    assert set(marks) == {"nsegments", "onesegment", "chosen"}
    assert marks["chosen"].y <= min(marks["nsegments"].y, marks["onesegment"].y)
    json.dumps(sweep.to_json(), allow_nan=False)
    assert PLANNER.sweep(VECTOR_CHAIN, PlanRequest(max_overhead=0.1), Solve()) is None


@pytest.mark.parametrize("shape", LIMITS)
def test_reasons_name_anchors_and_the_slowest(shape):
    """Explanations are sentences about this plan."""
    topology, limit = LIMITS[shape]
    for options in ({"max_overhead": limit}, {"max_recovery": 0.5}, {"max_overhead": 1e-6}):
        request = PlanRequest(**options)
        found = PLANNER.plan(topology, request, Solve())
        text = " ".join(PLANNER.explain(topology, request, found))
        if found.feasible:
            assert "slowest recovery" in text
            assert all(name in text for name in found.anchors[1:4])
        else:
            assert text.startswith("no plan")


def test_multi_source_graphs_and_forests_are_planned():
    """Two chains side by side, and chains that meet, need no special request."""
    rng = np.random.default_rng(2)
    apart = [(i, i + 1) for i in range(9) if i != 4]
    for pairs in (apart, [*apart, (4, 9)]):
        found = plan(random_topology(rng, pairs, 10), max_overhead=0.4)
        assert found.feasible
        assert {"o0", "o5"} <= set(found.anchors)
        assert found.bound >= 0.98 * found.objective


@pytest.mark.slow
def test_large_chains_are_answered_with_a_bound():
    """Five thousand operators, beyond the exact algorithm, within a few per cent of the bound."""
    size = 5000
    chain = random_topology(np.random.default_rng(1), chain_pairs(size), size)
    found = plan(changed(chain, selectivity=1.0), max_overhead=100.0)
    assert found.feasible
    assert found.checkpoint_overhead <= 100.0
    assert found.bound >= 0.97 * found.objective


def test_without_failure_rates_the_plan_says_so():
    """All plans score 0 then; one is given, with checkpoints, and a note."""
    found = plan(changed(VECTOR_CHAIN, failure_rate=0.0), max_overhead=0.4)
    assert found.feasible
    assert found.objective == 0.0
    assert "failure_rate" in found.note
    assert all(segment.frequency > 0 for segment in found.segments)


def test_planning_leaves_the_topology_alone():
    """Planning does not change what it was given."""
    before = Topology(
        name=GRAPH.name, operators=GRAPH.operators, edges=GRAPH.edges, rates=GRAPH.rates
    )
    plan(GRAPH, max_overhead=GRAPH_LIMIT)
    assert before == GRAPH
