"""Planning a pipeline: what is assumed, what is refused, and the answer in a sentence."""

import json
import os
from dataclasses import replace

import pytest

from holdfast.cli.learning import keep_plan
from holdfast.cli.profiles import profile_path
from holdfast.plan.document import parse_plan
from holdfast.predict.statistics import (
    Measure,
    OperatorStatistics,
    Statistics,
    dump_statistics,
    load_statistics,
)

pytestmark = pytest.mark.unit

APP = """
from holdfast import Parquet, Pipeline, Rate

def same(df):
    return df

pipeline = Pipeline("counts", epoch="0.5s")
rows = pipeline.source("rows", Rate(100)).map("split", same)
pipeline.sink("out", rows.aggregate("count", same, key="key"), Parquet("out"))
"""


@pytest.fixture
def app(tmp_path, monkeypatch):
    """An application, on a machine that was never profiled."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "app.py"
    path.write_text(APP)
    return path


def write_profile(app):
    path = profile_path(str(app), "counts")
    path.parent.mkdir(exist_ok=True)
    operators = {
        name: OperatorStatistics(
            input_rate=Measure(value=100.0, samples=5, how="counted"),
            cost=Measure(value=1e-5, samples=5, how="timed"),
            tuple_size=Measure(value=50.0, samples=5, how="counted"),
        )
        for name in ("rows", "split", "count")
    }
    found = Statistics(pipeline="counts", epoch_s=0.5, operators=operators)
    path.write_text(dump_statistics(found))
    return path


def test_without_a_profile_it_says_what_it_assumes(holdfast, app):
    """The method is joint, a sentence comes first, and its grounds right after."""
    said = holdfast("plan", app, "--max-recovery", "20s")
    assert said.code == 0, said.err
    first, second, third = said.out.splitlines()[:3]
    assert first.startswith(("Do not cut counts", "Cut counts after"))
    assert "19 failures in 20 are then recovered within" in first
    assert second.startswith("Assumed, not measured: a machine of 2 cores")
    assert "the rates of its sources, no cost per row, no state" in second
    assert f"holdfast profile {app} measures how much" in second
    assert third.startswith("counts: joint/")
    answer = json.loads(holdfast("plan", app, "--max-recovery", "20s", "--json").out)
    assert answer["method"] == "joint"
    assert answer["epoch"] == 0.5
    assert answer["note"].startswith("Assumed, not measured")


def test_a_profile_is_found_where_profile_writes_it(holdfast, app):
    """It is said to be older than the application if it is."""
    path = write_profile(app)
    os.utime(path, (2e9, 2e9))
    said = holdfast("plan", app, "--max-recovery", "20s").out.splitlines()[1]
    assert said.startswith(f"Measured: {path}, 2033-")
    assert "changed since" not in said
    os.utime(path, (1e9, 1e9))
    assert "changed since" in holdfast("plan", app).out.splitlines()[1]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            ("--method", "ftc", "--max-recovery", "5s"),
            "method ftc needs to know what its operators",
        ),
        (("--method", "fastrecover", "--max-overhead", "40%"), "method fastrecover needs to know"),
        (("--max-overhead", "40%"), "--max-overhead: overhead is a share of what the pipeline"),
        (("--method", "ppa", "--replicas", "2", "--objective", "least-latency"), "of its own"),
    ],
)
def test_what_there_are_no_numbers_for_is_refused(holdfast, app, options, line):
    """One line, exit code 2, with the command that measures them."""
    said = holdfast("plan", app, *options)
    assert said.code == 2
    assert line in said.err
    assert len(said.err.strip().splitlines()) == 1


@pytest.mark.slow
def test_the_objective_is_said_in_words(holdfast, app):
    """Each is at least as good in its own respect as the others, and the cheapest costs least."""
    write_profile(app)
    found = {}
    for objective in ("cheapest", "fastest-recovery", "least-latency"):
        said = holdfast("plan", app, "--objective", objective, "--json")
        assert said.code == 0, said.err
        found[objective] = json.loads(said.out)

    def slowest(plan):
        return max(one["p95"] for one in plan["recovery_latency"].values())

    cheapest = found["cheapest"]
    quick, fresh = found["fastest-recovery"], found["least-latency"]
    assert slowest(quick) < slowest(cheapest)
    assert fresh["end_to_end_latency"] < cheapest["end_to_end_latency"]
    assert slowest(quick) <= slowest(fresh) * 1.001
    assert fresh["end_to_end_latency"] <= quick["end_to_end_latency"] * 1.001
    assert all(cheapest["objective"] <= other["objective"] + 1e-9 for other in (quick, fresh))


def test_a_budget_that_pays_for_no_path_names_the_smallest_that_does(holdfast, app):
    """And with that one there is a plan."""
    said = holdfast("plan", app, "--method", "ppa", "--replicas", "2").out
    assert said.startswith("Keep no replica of counts: a budget of 2 pays for no complete path")
    assert "the smallest that does is 3: rows, count, out" in said
    said = holdfast("plan", app, "--method", "ppa", "--replicas", "3").out
    assert said.startswith("Keep 3 replicas of rows, count and out")


def test_mistakes_of_the_pipeline_are_told_all_at_once(holdfast, app):
    """As `check` does, as far as they can be seen without Spark."""
    app.write_text(APP.replace('key="key"', 'key="a b"').replace("Rate(100)", "Rate(100)"))
    said = holdfast("plan", app)
    assert said.code == 2
    assert "count: 'a b' cannot be a key column" in said.err


def test_ppa_plans_what_runs(holdfast, app):
    """Units are replicated, not operators: fused ones count once, and the exporter is one more."""
    said = holdfast("plan", app, "--method", "ppa", "--replicas", "3", "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["replicas"] == ["rows", "count", "out"]


def test_ppa_takes_a_profile(holdfast, app):
    """Rates come from what was measured, and the answer says so."""
    path = write_profile(app)
    said = holdfast("plan", app, "--method", "ppa", "--replicas", "3", "--stats", path)
    assert said.code == 0, said.err
    assert f"Measured: {path}" in said.out


@pytest.mark.slow
def test_a_bound_that_only_followers_keep_is_planned_with_them(holdfast, app):
    """The sentence names the followers, and their cost stands below the table."""
    said = holdfast("plan", app, "--max-recovery", "300ms")
    assert said.code == 0, said.err
    assert "hot followers of rows and count" in said.out.splitlines()[0]
    assert "hot followers of rows, count: " in said.out
    never = holdfast("plan", app, "--max-recovery", "300ms", "--max-replicas", "0")
    assert never.code == 1


def test_room_to_grow_is_planned_where_it_is_needed(holdfast, app):
    """The boundary that it takes and what its stores cost are in the plan, and why so many."""
    path = write_profile(app)
    found = load_statistics(path)
    count = replace(
        found.operators["count"],
        cost=Measure(value=5e-3, samples=5, how="timed"),
        state_size=Measure(value=1e6, samples=5, how="counted"),
    )
    path.write_text(dump_statistics(replace(found, operators={**found.operators, "count": count})))
    plain = json.loads(holdfast("plan", app, "--json").out)
    assert (plain["max_growth"], plain["max_shards"]) == (None, {})
    said = holdfast("plan", app, "--max-growth", "4", "--json")
    assert said.code == 0, said.err
    grown = json.loads(said.out)
    assert grown["max_growth"] == 4
    assert grown["max_shards"] == {"rows": 1, "split": 1, "count": 4}
    assert "which takes 3 shards" in grown["max_shards_why"]["count"]
    assert grown["forced"] == ["rows", "split", "count"]
    assert grown["cpu"] > plain["cpu"]
    assert parse_plan(grown).max_shards["count"] == 4
    assert "count: max_shards 4: 4 times" in holdfast("plan", app, "--max-growth", "4").out
    none = json.loads(holdfast("plan", app, "--max-growth", "1", "--json").out)
    assert none["max_shards"]["count"] == 1
    assert none["cpu"] == plain["cpu"]


def test_a_plan_made_again_keeps_state_where_it_is(holdfast, app, tmp_path):
    """To give partitions up is asked for: going over to it would have Spark repartition all."""
    path = write_profile(app)
    found = load_statistics(path)
    count = replace(found.operators["count"], cost=Measure(value=5e-3, samples=5, how="timed"))
    path.write_text(dump_statistics(replace(found, operators={**found.operators, "count": count})))
    grown = json.loads(holdfast("plan", app, "--max-growth", "4", "--json").out)
    assert grown["max_shards"]["count"] == 4
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / "run.json").write_text("{}")
    keep_plan(run_dir, parse_plan(grown))
    said = holdfast("plan", app, "--from", run_dir, "--json")
    assert said.code == 0, said.err
    again = json.loads(said.out)
    for name in ("max_growth", "max_shards", "max_shards_why"):
        assert again[name] == grown[name]
    assert again["forced"] == grown["forced"]
    given_up = holdfast("plan", app, "--from", run_dir, "--max-growth", "1", "--json")
    assert json.loads(given_up.out)["max_shards"]["count"] == 1
    app.write_text(APP.replace('key="key"', 'key="key", max_shards=2'))
    declared = json.loads(holdfast("plan", app, "--from", run_dir, "--json").out)
    assert declared["max_shards"]["count"] == 2


def test_room_to_grow_is_refused_where_it_cannot_be_planned(holdfast, app, tmp_path):
    """Other methods do not plan it, and a topology file knows no keys."""
    said = holdfast("plan", app, "--method", "ppa", "--replicas", "1", "--max-growth", "2")
    assert (said.code, "the method ppa does not plan it" in said.err) == (2, True)
    said = holdfast("plan", app, "--sweep", "--max-growth", "2")
    assert (said.code, "a sweep does not plan it; leave --sweep out" in said.err) == (2, True)
    file = tmp_path / "t.yaml"
    file.write_text("name: t\noperators: [{name: a}]\nrates: {a: 1}\n")
    said = holdfast("plan", file, "--method", "joint", "--max-growth", "2")
    assert (said.code, "does not say what is kept by a key" in said.err) == (2, True)
