"""What a run teaches, and whether its promise still holds."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.cli.learning import (
    Keeper,
    changes,
    expectations,
    keep_plan,
    looked_at,
    read_learned,
    relearned,
    replanned,
    run_plan,
    standing,
)
from holdfast.cli.profiles import Grounds
from holdfast.control.status import RunView
from holdfast.errors import BadInputError
from holdfast.planners.interface import PlanRequest
from holdfast.planners.planning import plan_topology
from holdfast.predict.learned import Learned, Recovery, Seen
from holdfast.predict.statistics import Measure, OperatorStatistics, Statistics
from holdfast.topology.graph import Edge, Operator, Topology

pytestmark = pytest.mark.unit

TOPOLOGY = Topology(
    name="words",
    operators=(Operator(name="lines"), Operator(name="count")),
    edges=(Edge(source="lines", target="count"),),
    rates={"lines": 1000.0},
)
STATISTICS = Statistics(
    pipeline="words",
    operators={
        "lines": OperatorStatistics(thread=True, input_rate=Measure(value=1000.0, samples=9)),
        "count": OperatorStatistics(
            input_rate=Measure(value=1000.0, samples=9),
            cost=Measure(value=2e-4, samples=9),
            state_size=Measure(value=1e6, samples=3),
        ),
    },
)


@pytest.fixture
def plan():
    request = PlanRequest(statistics=STATISTICS, max_recovery=6.0, max_replicas=0)
    return plan_topology(TOPOLOGY, request, method="joint")


def learned(plan, factor=1.0, restore_s=None):
    """A run whose rows come so many times as fast."""
    found = Learned()
    wanted = expectations(TOPOLOGY, STATISTICS, plan)
    recoveries = [
        Recovery(id=number, segment="count", detect_s=0.05, restore_s=restore_s or 0.0)
        for number in range(4 if restore_s else 0)
    ]
    for _ in range(20):
        seen = {
            name: Seen(
                rate_in=one.rate_in * factor,
                batch_s=one.batch_s,
                state_bytes=one.state_bytes or None,
            )
            for name, one in wanted.items()
        }
        found = found.add(seen, recoveries)
    return found


def test_a_run_that_does_what_was_profiled_keeps_its_promise(plan):
    """Nothing has changed, so nothing is warned of."""
    found = standing(TOPOLOGY, STATISTICS, plan, learned(plan))
    assert found.drifts == ()
    assert found.warnings == []


def test_more_rows_than_profiled_break_the_promise(plan):
    """Four times the rows are too much to catch up with, and the warning says why."""
    found = standing(TOPOLOGY, STATISTICS, plan, learned(plan, 4.0))
    assert "count" in found.broken
    assert any("rows into count" in line for line in found.warnings)


def test_slow_restores_break_the_promise(plan):
    """What recoveries took counts more than what a profile promised."""
    found = standing(TOPOLOGY, STATISTICS, plan, learned(plan, restore_s=9.0))
    assert found.broken["count"][0] > 9.0
    assert found.broken["count"][1] == 6.0


def view(**changes):
    """A run with one unit of count."""
    unit = {
        "unit": "count.0#0", "phase": "running", "generation": 1, "node": "n1", "down": None,
        "operator": None, "error": None, "failures": 0, "batch": 3, "epoch": 9, "waiting": 0,
        "rows_in": 10, "rows_out": 5, "rate_in": 900.0, "rate_out": 10.0, "batch_ms": 250.0,
        "state_bytes": 4096, "age_s": 1.0, **changes,
    }  # fmt: skip
    recovery = {
        "id": 1, "unit": "count.0#0", "reason": "node lost", "cause": "x", "outcome": "caught up",
        "from": "n0", "to": "n1", "generation": 2, "epoch": 4, "failed_at": 1.0,
        "detected_at": 1.1, "restored_at": 2.0, "caught_up_at": 3.0, "detect_s": 0.1,
        "restore_s": 0.9, "catch_up_s": 1.0, "total_s": 2.0,
    }  # fmt: skip
    return RunView.from_json(
        {
            "format": "holdfast-status/1", "pipeline": "words", "launch": "l", "status": "running",
            "now": 10.0, "opened_at": 0.0, "trouble": None, "units": [unit], "nodes": [],
            "recoveries": [recovery], "timeline": [],
        }
    )  # fmt: skip


def test_a_look_takes_what_runs():
    """Units that run are seen, with recoveries that have ended."""
    seen, (recovery,) = looked_at(view())
    assert seen == {"count": Seen(rate_in=900.0, batch_s=0.25, state_bytes=4096.0)}
    assert recovery == Recovery(id=1, segment="count", detect_s=0.1, restore_s=0.9)


@pytest.mark.parametrize("changes", [{"phase": "placed"}, {"batch_ms": None}, {"leads": False}])
def test_a_look_leaves_out_what_does_not_run(changes):
    """A unit that starts, has made no batch or follows another says nothing."""
    assert looked_at(view(**changes))[0] == {}


def test_what_was_learned_is_kept_in_the_run_directory(tmp_path):
    """A run that goes on learns on."""
    for _ in range(2):
        with Keeper(tmp_path, pytest.fail) as keeper:
            keeper.look(view())
    found = read_learned(tmp_path)
    assert len(found.segments["count"]) == 2
    assert len(found.recoveries) == 1


def test_a_run_goes_on_when_nothing_can_be_kept(tmp_path, monkeypatch):
    """A full disk is told once and ends nothing."""

    def full(*_):
        raise OSError("no space left")

    said = []
    with Keeper(tmp_path, said.append) as keeper:
        monkeypatch.setattr("holdfast.storage.local.LocalStorage.replace", full)
        keeper.look(view())
        keeper.save()
    assert said == ["warning: what this run teaches cannot be kept: no space left"]


def test_plans_are_made_again_from_a_run(plan, tmp_path):
    """What a plan rests on is what the run has seen, and says so."""
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / "run.json").write_text("{}")
    keep_plan(run_dir, plan)
    assert run_plan(run_dir) == plan
    (run_dir / "learned.json").write_text(json.dumps(learned(plan, 3.0).to_json()))
    grounds = Grounds(statistics=STATISTICS, said="Measured.", measured=True)
    found = relearned(grounds, TOPOLOGY, run_dir)
    assert found.statistics.operators["count"].input_rate.value == pytest.approx(3000.0)
    assert "rows into count" in found.said


def test_a_run_goes_over_to_a_plan_with_other_numbers(plan, tmp_path):
    """The same bounds and cuts with what was seen; told is what changes and why."""
    (tmp_path / "run.json").write_text("{}")
    keep_plan(tmp_path, plan)
    (tmp_path / "learned.json").write_text(json.dumps(learned(plan, 1.6).to_json()))
    said = []
    after = replanned(TOPOLOGY, STATISTICS, tmp_path, said.append)
    assert after.feasible
    assert after.max_recovery == plan.max_recovery
    assert set(after.boundaries) == set(plan.boundaries)
    assert any("rows into count" in line for line in said)
    assert any(line.startswith("would change") for line in said)


def test_a_promise_that_nothing_can_keep_goes_on_as_it_was(plan, tmp_path):
    """With ten times the rows no plan keeps the bound: the run goes on, and that is said."""
    (tmp_path / "run.json").write_text("{}")
    keep_plan(tmp_path, plan)
    (tmp_path / "learned.json").write_text(json.dumps(learned(plan, 10.0).to_json()))
    said = []
    assert replanned(TOPOLOGY, STATISTICS, tmp_path, said.append) == plan
    assert any("no plan keeps the bounds any more" in line for line in said)


def test_what_another_plan_does_otherwise_is_told(plan):
    """Cuts, intervals, snapshots and spares, each in a line."""
    first, *rest = plan.segments
    other = replace(
        plan,
        spares=(plan.spares or 0) + 1,
        boundaries=(*plan.boundaries, "more"),
        segments=(replace(first, batch_interval=99.0, snapshot_batches=7), *rest),
    )
    told = " ".join(changes(plan, other))
    for words in ("cut after more", "every 99 s", "every 7 batches", "spares instead"):
        assert words in told
    assert changes(plan, plan) == ["would change: nothing"]


def test_a_run_without_a_plan_teaches_no_plan(tmp_path):
    """Where nothing was promised there is nothing to compare with."""
    (tmp_path / "run.json").write_text("{}")
    keep_plan(tmp_path, None)
    grounds = Grounds(statistics=STATISTICS, said="Measured.", measured=True)
    with pytest.raises(BadInputError, match="no plan of method joint"):
        relearned(grounds, TOPOLOGY, tmp_path)
    with pytest.raises(BadInputError, match="is not a run directory"):
        relearned(replace(grounds), TOPOLOGY, tmp_path / "nowhere")


def test_a_topology_file_learns_nothing(tmp_path):
    """--from is about an application that runs."""
    file = tmp_path / "t.yaml"
    file.write_text("name: t\noperators: [{name: a}]\nrates: {a: 1}\n")
    result = CliRunner().invoke(app, ["plan", str(file), "--from", str(tmp_path)])
    assert isinstance(result.exception, BadInputError)
