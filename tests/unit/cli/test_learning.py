"""What a run teaches, and whether its promise still holds."""

from __future__ import annotations

import json
from dataclasses import replace
from unittest.mock import Mock

import pytest
from tests.unit.planners.words import WORDS
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.cli.learning import (
    Keeper,
    Promised,
    keep_plan,
    promised_by,
    read_learned,
    relearned,
    replanned,
    run_plan,
    told_by,
)
from holdfast.cli.profiles import Grounds
from holdfast.clock import SystemClock
from holdfast.control.status import RunView
from holdfast.errors import BadInputError
from holdfast.learning.samples import Learned, Recovery, Seen, Told
from holdfast.learning.standing import RESULTS, expectations, standing
from holdfast.pipeline import load_pipeline
from holdfast.plan import FtcPlan
from holdfast.planners.interface import PlanRequest
from holdfast.planners.planning import plan_topology
from holdfast.predict.statistics import Measure, OperatorStatistics, Statistics, dump_statistics
from holdfast.rundir.promise import Promise, read_promise, warnings, write_promise
from holdfast.topology.graph import Edge, Operator, Topology

pytestmark = pytest.mark.unit

STATISTICS = Statistics(
    pipeline="words",
    operators={
        "lines": OperatorStatistics(thread=True, input_rate=Measure(value=1000.0, samples=9)),
        "count": OperatorStatistics(
            input_rate=Measure(value=1000.0, samples=9),
            cost=Measure(value=2e-4, samples=9),
            tuple_size=Measure(value=20.0, samples=9),
            state_change=Measure(value=100.0, samples=9),
            state_size=Measure(value=1e6, samples=3),
        ),
    },
)


@pytest.fixture
def plan():
    request = PlanRequest(statistics=STATISTICS, max_recovery=6.0, max_replicas=0)
    return plan_topology(WORDS, request, clock=SystemClock(), method="joint")


def faster(factor):
    """Statistics with so many times the rows."""

    def times(one):
        rate = replace(one.input_rate, value=one.input_rate.value * factor)
        return replace(one, input_rate=rate)

    operators = {name: times(one) for name, one in STATISTICS.operators.items()}
    return replace(STATISTICS, operators=operators)


def learned(plan, factor=1.0, restore_s=None, lost=("lines", "count")):
    """A run whose rows come so many times as fast."""
    found = Learned()
    wanted = expectations(WORDS, plan, STATISTICS)
    later = expectations(WORDS, plan, faster(factor))
    recoveries = [
        Recovery(
            id=2 * number + place,
            segment=segment,
            detect_s=0.05,
            restore_s=restore_s if segment == "count" else 0.05,
            cause=f"loss {number}",
        )
        for number in range(4 if restore_s else 0)
        for place, segment in enumerate(lost)
    ]
    for _ in range(20):
        seen = {
            name: Seen(
                rate_in=one.rate_in * factor,
                batch_s=later[name].batch_s,
                state_bytes=one.state_bytes or None,
            )
            for name, one in wanted.items()
        }
        found = found.add(seen, recoveries)
    return found


def test_a_run_that_does_what_was_profiled_keeps_its_promise(plan):
    """Nothing has changed, so nothing is warned of."""
    found = standing(WORDS, STATISTICS, plan, learned(plan))
    assert found.drifts == ()
    assert found.warning is None


def test_more_rows_than_profiled_break_the_promise(plan):
    """Four times the rows are too much to catch up with, and the warning says why in one line."""
    found = standing(WORDS, STATISTICS, plan, learned(plan, 4.0))
    assert "count" in found.broken
    assert found.warning.startswith("the promise no longer holds: count")
    assert "because of rows into count: 1000 /s as profiled, 4000 /s now" in found.warning
    assert "\n" not in found.warning


def test_rows_that_turn_out_to_be_cheap_break_nothing(plan):
    """Ten times the rows would be too much as profiled; the run keeps up, so it is not."""
    found = Learned()
    for _ in range(20):
        found = found.add(
            {
                "lines": Seen(rate_in=10_000.0),
                "count": Seen(rate_in=10_000.0, batch_s=0.3, state_bytes=1e6),
            }
        )
    now = standing(WORDS, STATISTICS, plan, found)
    assert [one.number for one in now.drifts] == ["rate", "rate", "cost"]
    assert now.warning is None


@pytest.mark.parametrize("rate", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("longer", [0.5, 1.0, 1.6])
def test_what_was_learned_is_what_is_expected_from_then_on(plan, rate, longer):
    """Refined statistics predict what was seen: the same samples change nothing a second time."""
    told = learned(plan, rate)
    slower = {
        name: tuple(replace(one, batch_s=one.batch_s * longer) for one in seen)
        for name, seen in told.segments.items()
    }
    told = replace(told, segments=slower)
    now = standing(WORDS, STATISTICS, plan, told)
    assert (now.drifts == ()) == (rate == longer == 1.0)
    assert standing(WORDS, now.statistics, plan, told).drifts == ()


def test_slow_restores_break_the_promise(plan):
    """What recoveries took counts more than what a profile promised."""
    found = standing(WORDS, STATISTICS, plan, learned(plan, restore_s=9.0))
    assert found.broken["count"].now_s > 9.0
    assert found.broken["count"].bound_s == 6.0


def test_losses_that_were_not_promised_about_teach_nothing(plan):
    """Where count was lost alone, nothing is known of the loss of all that the plan loses."""
    found = standing(WORDS, STATISTICS, plan, learned(plan, restore_s=9.0, lost=("count",)))
    assert found.drifts == ()


def test_a_promise_on_the_edge_does_not_flicker(plan):
    """Once broken, it counts as kept when it is kept by a margin."""
    found = standing(WORDS, STATISTICS, plan, learned(plan, restore_s=9.0))
    edge = replace(plan, max_recovery=found.broken["count"].now_s * 1.05)
    told = learned(plan, restore_s=9.0)
    assert standing(WORDS, STATISTICS, edge, told).warning is None
    assert standing(WORDS, STATISTICS, edge, told, ("count",)).warning is not None


def test_a_bound_on_the_outage_is_a_promise_too(plan):
    """Where only all results together are late, that is what is said."""
    outage = replace(plan, max_recovery=60.0, max_outage=5.0)
    found = standing(WORDS, STATISTICS, outage, learned(plan, restore_s=9.0))
    assert list(found.broken) == [RESULTS]


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
    (told,), (recovery,) = told_by(view())
    assert told == Told(
        unit="count.0#0",
        segment="count",
        generation=1,
        epoch=9,
        rows_in=10,
        batch_s=0.25,
        state_bytes=4096.0,
    )
    assert recovery == Recovery(id=1, segment="count", detect_s=0.1, restore_s=0.9, cause="x")


@pytest.mark.parametrize("reason", ["error", "stalled", "never started"])
def test_units_that_fail_by_themselves_teach_nothing_about_lost_nodes(reason):
    """They are restarted where they were, in a session that has compiled everything."""
    known = view()
    (recovery,) = known.recoveries
    assert told_by(replace(known, recoveries=(replace(recovery, reason=reason),)))[1] == []


@pytest.mark.parametrize("changes", [{"phase": "placed"}, {"batch_ms": None}, {"leads": False}])
def test_a_look_leaves_out_what_does_not_run(changes):
    """A unit that starts, has made no batch or follows another says nothing."""
    assert told_by(view(**changes))[0] == []


def test_the_leader_of_two_replicas_is_seen():
    """A follower says nothing, and does not hide what its leader says."""
    leads, follows = view(leads=True), view(unit="count.0#0~1", leads=False)
    both = replace(leads, units=(*leads.units, *follows.units))
    assert [one.unit for one in told_by(both)[0]] == ["count.0#0"]


def test_what_was_learned_is_kept_in_the_run_directory(tmp_path, monkeypatch):
    """A run that goes on learns on."""
    for _ in range(2):
        with Keeper(tmp_path, pytest.fail, 1.0) as keeper:
            for epoch in (9, 12):
                keeper.look(view(epoch=epoch, rows_in=100 * epoch))
                monkeypatch.setattr("holdfast.cli.learning.SAMPLE_S", 0.0)
    found = read_learned(tmp_path)
    assert [one.rate_in for one in found.segments["count"]] == [100.0, 100.0]
    assert len(found.recoveries) == 1


def test_nothing_is_learned_while_something_recovers(tmp_path, monkeypatch):
    """Batches that make up for a loss are longer than others."""
    monkeypatch.setattr("holdfast.cli.learning.SAMPLE_S", 0.0)
    (recovery,) = view().recoveries
    with Keeper(tmp_path, pytest.fail, 1.0) as keeper:
        for epoch in (9, 12):
            known = view(epoch=epoch)
            keeper.look(replace(known, recoveries=(replace(recovery, outcome="open"),)))
    assert read_learned(tmp_path) == Learned()


def test_a_run_goes_on_when_nothing_can_be_kept(tmp_path, monkeypatch):
    """A full disk is told once and ends nothing."""

    def full(*_):
        raise OSError("no space left")

    said = []
    with Keeper(tmp_path, said.append, 1.0) as keeper:
        monkeypatch.setattr("holdfast.storage.local.LocalStorage.replace", full)
        keeper.look(view())
        keeper.save()
    assert said == ["warning: what this run teaches cannot be kept: no space left"]


def test_a_run_says_when_its_promise_breaks_and_holds_again(plan, tmp_path, monkeypatch):
    """Once each; what status shows is in the run directory, in one line."""
    promised = Promised(plan=plan, topology=WORDS, statistics=STATISTICS)
    store, said = tmp_path / "learned.json", []
    monkeypatch.setattr("holdfast.rundir.promise.read_spec", lambda _: Mock(app="app.py"))
    for factor in (4.0, 4.0, 1.0):
        store.write_text(json.dumps(learned(plan, factor).to_json()))
        keeper = Keeper(tmp_path, said.append, 1.0, promised)
        keeper.save()
        keeper.save()
        told = warnings(tmp_path)
        assert len(told) == (0 if factor == 1.0 else 1)
        if told:
            assert told[0].startswith("the promise no longer holds: count")
            assert told[0].endswith(f"holdfast plan app.py --from {tmp_path} plans again")
    assert [line.partition(":")[0] for line in said] == ["warning"] * 2
    keeper.warning = "it did not"
    keeper.save()
    assert said[-1] == "the promise holds again"


def test_a_prediction_that_fails_ends_no_run(plan, tmp_path):
    """A plan of another pipeline cannot be judged: that is said once, and shown from then on."""
    other = replace(plan, segments=(replace(plan.segments[0], operators=("nobody",)),))
    said = []
    with Keeper(
        tmp_path, said.append, 1.0, Promised(plan=other, topology=WORDS, statistics=STATISTICS)
    ) as keeper:
        keeper.save()
    assert len(said) == 1
    assert "'nobody'" in said[0]
    (line,) = warnings(tmp_path)
    assert line.startswith("whether the promise holds is not known")


def test_a_run_without_a_profile_says_that_nobody_knows(plan, tmp_path):
    """A plan that was made from numbers elsewhere is not silently taken to hold."""
    (tmp_path / "app.py").write_text(
        "from holdfast import Parquet, Pipeline, Rate\n"
        "pipeline = Pipeline('words')\n"
        "lines = pipeline.source('lines', Rate(1))\n"
        "pipeline.sink('out', lines.where('value > 1', name='count'), Parquet('out'))\n"
    )
    app_file = str(tmp_path / "app.py")
    pipeline = load_pipeline(app_file)
    why = promised_by(app_file, pipeline, plan)
    assert why.startswith("there is no ")
    with Keeper(tmp_path, pytest.fail, 1.0, why):
        pass
    (line,) = warnings(tmp_path)
    assert line.startswith("whether the promise holds is not known: there is no ")
    (tmp_path / ".holdfast").mkdir()
    (tmp_path / ".holdfast" / "words.profile.json").write_text(dump_statistics(STATISTICS))
    assert isinstance(promised_by(app_file, pipeline, plan), Promised)
    assert promised_by(app_file, pipeline, FtcPlan(algorithm="by hand", feasible=True)) is None


@pytest.mark.parametrize(
    "promise",
    [
        Promise(),
        Promise(unknown="no profile"),
        Promise(warning="it does not", broken=("count",), drifts=("rows into count",)),
    ],
)
def test_what_is_promised_is_read_as_it_was_written(promise, tmp_path):
    """And what another version wrote says nothing."""
    write_promise(tmp_path, promise)
    assert read_promise(tmp_path) == promise
    (tmp_path / "promise.json").write_text('{"format": "holdfast-promise/99"}')
    assert read_promise(tmp_path) == Promise()


def test_plans_are_made_again_from_a_run(plan, tmp_path):
    """What a plan rests on is what the run has seen, and says so."""
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / "run.json").write_text("{}")
    keep_plan(run_dir, plan)
    assert run_plan(run_dir) == plan
    (run_dir / "learned.json").write_text(json.dumps(learned(plan, 3.0).to_json()))
    grounds = Grounds(statistics=STATISTICS, said="Measured.", measured=True)
    found = relearned(grounds, WORDS, run_dir)
    assert found.grounds.statistics.operators["count"].input_rate.value == pytest.approx(3000.0)
    assert "rows into count" in found.grounds.said
    assert found.plan == plan


def replan(plan, factor):
    """What `run --replan` goes on with, and what it says."""
    said = []
    promised = Promised(plan=plan, topology=WORDS, statistics=STATISTICS)
    after = replanned(promised, learned(plan, factor), say=said.append, another="plan anew")
    return after, said


def test_a_run_goes_over_to_a_plan_with_other_numbers(plan):
    """The same bounds and cuts with what was seen; told is what changes and why."""
    after, said = replan(plan, 1.6)
    assert after.feasible
    assert after.max_recovery == plan.max_recovery
    assert set(after.boundaries) == set(plan.boundaries)
    assert any("rows into count" in line for line in said)
    assert any(line.startswith("would change") for line in said)


def test_a_promise_that_nothing_can_keep_goes_on_as_it_was(plan):
    """With ten times the rows no plan keeps the bound: the run goes on, and that is said."""
    after, said = replan(plan, 10.0)
    assert after == plan
    assert any("no plan keeps the bounds any more" in line for line in said)


def test_other_cuts_are_said_with_what_they_take():
    """A plan that fuses what runs apart needs other units: the run goes on with those it has."""
    topology = Topology(
        name="words",
        operators=(Operator(name="lines"), Operator(name="split"), Operator(name="count")),
        edges=(Edge(source="lines", target="split"), Edge(source="split", target="count")),
        rates={"lines": 1000.0},
    )
    split = OperatorStatistics(input_rate=Measure(value=1000.0, samples=9))
    known = replace(STATISTICS, operators={**STATISTICS.operators, "split": split})
    request = PlanRequest(statistics=known, max_recovery=6.0, max_replicas=0, required=("split",))
    before = plan_topology(topology, request, clock=SystemClock(), method="joint")
    assert "split" in before.boundaries
    said = []
    promised = Promised(plan=before, topology=topology, statistics=known)
    after = replanned(promised, Learned(), say=said.append, another="plan anew")
    assert after.boundaries == before.boundaries
    assert said == [
        "would change: no cut after split",
        "1 of these need other units; plan anew",
        "with the units there are:",
        "would change: nothing",
    ]


def test_a_run_without_a_plan_teaches_no_plan(tmp_path):
    """Where nothing was promised there is nothing to compare with."""
    (tmp_path / "run.json").write_text("{}")
    keep_plan(tmp_path, None)
    grounds = Grounds(statistics=STATISTICS, said="Measured.", measured=True)
    with pytest.raises(BadInputError, match="no plan of method joint"):
        relearned(grounds, WORDS, tmp_path)
    with pytest.raises(BadInputError, match="is not a run directory"):
        relearned(replace(grounds), WORDS, tmp_path / "nowhere")


def test_a_topology_file_learns_nothing(tmp_path):
    """--from is about an application that runs."""
    file = tmp_path / "t.yaml"
    file.write_text("name: t\noperators: [{name: a}]\nrates: {a: 1}\n")
    result = CliRunner().invoke(app, ["plan", str(file), "--from", str(tmp_path)])
    assert isinstance(result.exception, BadInputError)
