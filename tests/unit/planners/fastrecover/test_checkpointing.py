"""The cost model of checkpoints: storage, segments, recovery times and machine losses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.planners.fastrecover.cases import (
    VECTOR_CHAIN,
    chain_pairs,
    components,
    dag_pairs,
    involved,
    random_topology,
    reference_costs,
)

from holdfast.planners.fastrecover.checkpointing import (
    AffineCost,
    Configuration,
    LinearCost,
    checkpoint_model,
    configuration,
    partition,
    storage_cost,
)
from holdfast.planners.fastrecover.machine_failures import draw_failures, machine_failures
from holdfast.topology.graph import Storage

pytestmark = pytest.mark.unit


def worked():
    """Two segments of the worked chain at round frequencies."""
    return configuration(checkpoint_model(VECTOR_CHAIN), ["2"], {"0": 10.0, "2": 5.0})


def test_storage_costs_are_functions():
    """Linear is proportional, affine adds a fixed part, and nothing costs nothing."""
    assert LinearCost(2.0)(3.0) == 6.0
    assert AffineCost(1.0, 2.0)(3.0) == 7.0
    assert AffineCost(1.0, 2.0)(0.0) == 0.0
    assert storage_cost(0.0, 2.0) == LinearCost(2.0)
    assert storage_cost(1.0, 2.0) == AffineCost(1.0, 2.0)


def test_the_formulas_of_a_chain_by_hand():
    """ch_i and rt_i of the second segment of the worked chain, term by term."""
    plan = worked()
    assert plan.partition.model.rate.tolist() == [3000.0, 1500.0, 1500.0, 300.0]
    saved = 5e-5 * 1500
    assert plan.overheads[2] == pytest.approx(5 * 3e-7 * 15_000 + saved)
    assert plan.overheads[3] == pytest.approx(5 * 3e-7 * 10_000)
    want = saved / 5 + 3e-7 * 25_000 + 1e-5 * (1500 + 300) / 5
    assert plan.recovery_times[3] == pytest.approx(want)
    weighted = [
        op.failure_rate * rt
        for op, rt in zip(VECTOR_CHAIN.operators, plan.recovery_times, strict=True)
    ]
    assert plan.expected_recovery_time == pytest.approx(sum(weighted))
    assert plan.overhead == pytest.approx(plan.overheads.sum())


def test_the_worst_case_counts_the_write_as_well():
    """A failure just before a checkpoint is complete replays the interval and the write."""
    plan = worked()
    writing = 3e-7 * 25_000
    rework = 5e-5 * 1500 + 1e-5 * 1800
    assert plan.worst_case[3] == pytest.approx(plan.recovery_times[3] + rework * writing)
    assert (plan.worst_case >= plan.recovery_times).all()


@given(seed=st.integers(0, 10_000), size=st.integers(2, 9))
def test_segments_of_graphs_follow_the_definition(seed, size):
    """Sets and sums equal those worked out on plain Python sets, joins included."""
    rng = np.random.default_rng(seed)
    topology = random_topology(rng, dag_pairs(rng, size), size, wide=True)
    sources = set(topology.sources)
    anchors = frozenset(i for i in range(size) if i in sources or rng.random() < 0.4)
    chosen = np.isin(np.arange(size), list(anchors))
    parts = partition(checkpoint_model(topology), chosen)
    groups = {frozenset(np.flatnonzero(parts.label == s).tolist()) for s in range(parts.size)}
    assert groups == set(components(topology, anchors))
    found = sorted(zip(parts.fixed, parts.replay, parts.write, parts.save, strict=True))
    want = np.array(sorted(reference_costs(topology, anchors)))
    assert np.array(found) == pytest.approx(want, rel=1e-9)


def test_an_ancestor_counts_once():
    """Two paths to one ancestor do not make it recover twice."""
    topology = random_topology(np.random.default_rng(0), [(0, 1), (0, 2), (1, 3), (2, 3)], 4)
    model = checkpoint_model(topology)
    parts = partition(model, model.is_source)
    assert parts.exposure.load[3] == pytest.approx(model.state.sum())
    assert involved(topology, frozenset({0}), 3) == {0, 1, 2, 3}


def test_fixed_costs_are_paid_per_checkpoint_and_per_access():
    """With affine storage, every checkpoint, load and batch of saved input pays its fixed part."""
    topology = replace(VECTOR_CHAIN, storage=Storage(tuple_fixed=0.01, state_fixed=0.02))
    plain = worked()
    fixed = configuration(checkpoint_model(topology), ["2"], {"0": 10.0, "2": 5.0})
    assert fixed.overheads[3] == pytest.approx(plain.overheads[3] + 5 * 0.02)
    assert fixed.overheads[2] == pytest.approx(plain.overheads[2] + 5 * (0.02 + 0.01))
    assert fixed.recovery_times[3] == pytest.approx(plain.recovery_times[3] + 2 * 0.02 + 0.01)


def test_lists_of_task_values_add_up():
    """State and failures given per task belong to the operator as a whole."""
    first = VECTOR_CHAIN.operators[0]
    split = replace(first, parallelism=2, state_size=(4000.0, 6000.0), failure_rate=(0.04, 0.06))
    topology = replace(VECTOR_CHAIN, operators=(split, *VECTOR_CHAIN.operators[1:]))
    one, other = checkpoint_model(VECTOR_CHAIN), checkpoint_model(topology)
    assert other.state == pytest.approx(one.state)
    assert other.failure == pytest.approx(one.failure)


# -- machine losses ------------------------------------------------------------------------------


@pytest.mark.parametrize("extra", [0, 3000])
def test_draws_are_distinct_and_follow_failure_rates(extra):
    """Different operators each time; what fails more often is drawn more often, at any size."""
    failure = np.concatenate([[0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 8.0], np.full(extra, 1e-6)])
    rows = draw_failures(failure, np.random.default_rng(0), multiplicity=3, samples=2000)
    assert all(len(set(row)) == 3 for row in rows.tolist())
    counts = np.bincount(rows.ravel(), minlength=7)
    assert counts[0] == 0
    assert counts[6] > 1.5 * counts[1]


def test_losing_everything_recovers_everything():
    """With as many operators as the machine holds, the measures are sums over whole segments."""
    plan = worked()
    lost = machine_failures(plan, np.random.default_rng(0), multiplicity=4)
    tails = plan.recovery_times[[1, 3]]
    assert lost.computational_recovery_time == pytest.approx(tails.sum())
    assert lost.recovery_latency == pytest.approx(tails.max())


def test_a_single_loss_is_the_weighted_recovery_time():
    """One operator per machine: the mean of rt_i by failure rate."""
    plan = worked()
    lost = machine_failures(plan, np.random.default_rng(1), multiplicity=1, samples=40_000)
    want = plan.expected_recovery_time / plan.partition.model.failure.sum()
    assert lost.computational_recovery_time == pytest.approx(want, rel=0.02)
    assert lost.recovery_latency == pytest.approx(want, rel=0.02)


def test_dense_and_sparse_measures_agree(monkeypatch):
    """Large topologies use sets instead of a matrix, with the same result."""
    rng = np.random.default_rng(2)
    model = checkpoint_model(random_topology(rng, dag_pairs(rng, 30), 30))
    chosen = model.is_source | (rng.random(30) < 0.3)
    plan = Configuration(partition=partition(model, chosen), frequency=np.full(30, 3.0))
    dense = machine_failures(plan, np.random.default_rng(9))
    monkeypatch.setattr("holdfast.planners.fastrecover.machine_failures.DENSE_SIZE", 0)
    sparse = machine_failures(plan, np.random.default_rng(9))
    assert sparse.recovery_latency == pytest.approx(dense.recovery_latency)
    assert sparse.computational_recovery_time == pytest.approx(dense.computational_recovery_time)


def test_nothing_fails_where_nothing_can():
    """Without failure rates both measures are 0."""
    topology = random_topology(np.random.default_rng(1), chain_pairs(3), 3)
    calm = replace(
        topology, operators=tuple(replace(op, failure_rate=0.0) for op in topology.operators)
    )
    plan = configuration(checkpoint_model(calm), [], {"o0": 1.0})
    lost = machine_failures(plan, np.random.default_rng(0))
    assert (lost.computational_recovery_time, lost.recovery_latency) == (0.0, 0.0)
