"""Trials on real processes: what a figure of a paper asks of this machine can be measured."""

from dataclasses import replace

import pytest

from holdfast.reproduce import spate
from holdfast.reproduce.ppa_runs import APP, HOMES, OPERATORS
from holdfast.testing.trial_runs import run_trial
from holdfast.testing.trials import Trial

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.full]

SMALL = APP.format(rate=200, window=10)


def test_a_failover_and_a_recovery_are_measured_side_by_side(tmp_path):
    """Both operators lose their nodes at once; one has a follower."""
    trial = Trial(
        app=SMALL,
        homes=HOMES,
        watched=OPERATORS,
        replicate=OPERATORS[:1],
        kills=(OPERATORS,),
        cpu_s=4.0,
    )
    found = run_trial(trial, tmp_path)
    (failure,) = found.recovery
    assert set(failure) == set(OPERATORS)
    assert all(seconds >= 0 for seconds in failure.values())
    assert all(found.cpu[name] > 0 for name in OPERATORS)


def test_a_catch_up_is_measured(tmp_path):
    """Input that waits at the start is worked off, and it is told how much that was."""
    trial = Trial(app=SMALL, homes=HOMES, watched=OPERATORS, behind_s=10.0)
    found = run_trial(trial, tmp_path)
    assert found.catch_up_s is not None
    assert found.catch_up_input_s is not None
    assert found.catch_up_s > 0
    assert found.catch_up_input_s >= 10.0


def test_a_restart_after_a_scaling_is_measured(tmp_path):
    """Nobody reads the log while all processes begin anew, and it is trimmed meanwhile."""
    trial = replace(
        spate.trial_of(200),
        scales=(("count", 2),),
        kills=(("count",),),
        restarts=1,
        repartition=100,
    )
    found = run_trial(trial, tmp_path)
    assert [shards for shards, _, _ in found.handovers] == [2]
    assert all(found.delays[name] for name in trial.watched)
    assert len(found.recovery) == len(found.restarts) == 1
    assert found.repartition_s is not None
    assert found.repartition_s > 0
