"""`run --plan` runs what the plan says, no more and no less: real processes, fake units."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.cli.profiles import profile_path
from holdfast.learning.samples import Learned, Seen
from holdfast.predict.statistics import (
    REFERENCE_MACHINE,
    Affine,
    Measure,
    OperatorStatistics,
    Statistics,
    dump_statistics,
)
from holdfast.rundir.spec import read_spec
from holdfast.runtime.launch.children import ProcessList

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(150)]

ROOT = Path(__file__).parents[2]
APP = str(ROOT / "examples" / "word_count.py")


CODE = "from holdfast.cli import main; main()"
ENVIRONMENT = {"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"}


def holdfast(where, *words):
    done = subprocess.run(
        [sys.executable, "-c", CODE, *words],
        cwd=where,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def run(where, *words):
    """Plan, run for a moment, and give the plan, the deployment and the nodes that were started."""
    code, out, err = holdfast(where, "plan", APP, "--json", *words)
    assert code == 0, err
    plan = json.loads(out)
    (where / "plan.json").write_text(out)
    code, out, err = holdfast(
        where, "run", APP, "--host", "fake", "--plan", "plan.json", "--for", "2s", "--json"
    )
    assert code == 0, err
    told = [unit["unit"] for unit in json.loads(out)["units"]]
    run_dir = where / "runs" / "word-count"
    deployment = read_spec(run_dir).deployment
    assert told == [str(unit) for unit in deployment.units()]
    nodes = [item.name for item in ProcessList(run_dir).records() if item.kind == "node"]
    return plan, deployment, nodes


def test_a_joint_plan_is_run_as_planned(tmp_path):
    """Segments, batch and snapshot intervals, epoch and spares are those of the plan."""
    plan, deployment, nodes = run(
        tmp_path, "--method", "joint", "--max-recovery", "4s", "--max-latency", "5s"
    )
    planned = [
        (item["name"], tuple(item["operators"]), item["batch_epochs"], item["snapshot_batches"])
        for item in plan["segments"]
    ]
    found = [
        (item.name, item.operators, item.batch_epochs, item.snapshot_batches)
        for item in deployment.segments
        if item.kind != "exporter"
    ]
    assert found == planned
    assert any(item[2] > 1 for item in planned)
    assert deployment.epoch_s == plan["epoch"]
    assert plan["spares"] > 0
    assert [name for name in nodes if name.startswith("s")] == [
        f"s{index}" for index in range(plan["spares"])
    ]


def test_an_ftc_plan_is_run_as_planned(tmp_path):
    """Every backup of the plan is a boundary, and nothing else but what is forced."""
    (tmp_path / "stats.json").write_text(dump_statistics(Statistics(pipeline="word-count")))
    known = ("--method", "ftc", "--stats", "stats.json")
    plan, deployment, nodes = run(tmp_path, *known, "--max-recovery", "60s", "--required", "filter")
    cut = {boundary.operator for item in deployment.segments for boundary in item.outputs}
    assert "filter" in plan["backups"]
    assert cut == {*plan["backups"], "lines", "count"}
    assert nodes == ["n0", "s0"]


def measured(value):
    """A number that somebody measured."""
    return Measure(value=value, samples=9, how="by hand")


def fake(app, seconds):
    """A run whose units only pretend."""
    return ("run", app, "--host", "fake", "--for", seconds, "-d", "run")


def affine(fixed, per_byte):
    return Affine(fixed=measured(fixed), per_byte=measured(per_byte))


MACHINE = replace(
    REFERENCE_MACHINE,
    slice_write=affine(0.035, 6.9e-9),
    slice_read=affine(0.0, 2.9e-9),
    state_write=affine(0.062, 0.0),
    state_read=affine(0.175, 5.0e-8),
    detection=Measure(value=0.042, p95=0.06, samples=8),
    restore_warm=Measure(value=0.93, p95=1.3, samples=4),
    first_batch=Measure(value=0.59, p95=0.92, samples=4),
    restore_cold=Measure(value=8.2, p95=9.0, samples=2),
    restore_thread=Measure(value=0.077, p95=0.1, samples=6),
    takeover_cpu=measured(0.64),
    batch_floor=Measure(value=0.075, p95=0.081, samples=2),
    batch_cpu=Measure(value=0.068, p95=0.071, samples=2),
    refill=Measure(value=19.7, p95=24.0, samples=10),
    spare_cost=measured(0.072),
)
"""One on which the bound of the runs below is kept as they are planned, and no longer later."""


def learning_run(where, factor):
    """A run by a plan from a profile, whose rows have become so many times as many since."""
    shutil.copy(APP, where / "word_count.py")
    app = str(where / "word_count.py")
    sizes = {"tuple_size": measured(10.0), "selectivity": measured(1.0)}
    profile = Statistics(
        pipeline="word-count",
        machine=MACHINE,
        operators={
            "lines": OperatorStatistics(thread=True, input_rate=measured(50.0)),
            "split": OperatorStatistics(
                input_rate=measured(50.0), cost=measured(1e-4), tuple_size=measured(40.0)
            ),
            "filter": OperatorStatistics(input_rate=measured(250.0), cost=measured(1e-5), **sizes),
            "count": OperatorStatistics(
                input_rate=measured(250.0),
                cost=measured(1e-4),
                state_size=measured(1e5),
                state_change=measured(1e3),
                **sizes,
            ),
        },
    )
    home = profile_path(app, "word-count")
    home.parent.mkdir()
    home.write_text(dump_statistics(profile))
    bounds = ("--max-recovery", "3s", "--max-replicas", "0")
    code, out, err = holdfast(where, "plan", app, "--json", *bounds)
    assert code == 0, err
    (where / "planned.json").write_text(out)
    code, out, err = holdfast(where, *fake(app, "2s"), "--plan", "planned.json")
    assert code == 0, err
    learned = Learned(
        segments={
            "lines": (Seen(rate_in=50.0 * factor),) * 20,
            "count": (Seen(rate_in=50.0 * factor),) * 20,
        }
    )
    (where / "run" / "learned.json").write_text(json.dumps(learned.to_json()))
    return app


def replanned(where, factor):
    """What such a run says when it is resumed with another plan, and what it does then."""
    app = learning_run(where, factor)
    code, _, err = holdfast(where, *fake(app, "2s"), "--replan")
    assert code == 0, err
    assert "rows into count: 50 /s as profiled" in err, err
    deployment = read_spec(where / "run").deployment
    intervals = {one.name: one.batch_epochs for one in deployment.segments if one.outputs}
    return err, intervals, json.loads((where / "run" / "plan.json").read_text())


def test_a_run_goes_over_to_other_intervals(tmp_path):
    """Eight times the rows recover in time only with shorter batches: the run makes them."""
    err, intervals, plan = replanned(tmp_path, 8.0)
    assert "would change: batches of count every 4 s instead of 8 s, because rows into" in err
    assert intervals == {"lines": 4, "count": 4}
    assert {item["name"]: item["batch_epochs"] for item in plan["segments"]} == intervals


def test_a_run_does_not_go_over_to_other_cuts_by_itself(tmp_path):
    """Twenty times the rows ask for another unit: that is said with the commands that make it."""
    err, intervals, plan = replanned(tmp_path, 20.0)
    assert "would change: cut after" in err
    assert "to go over to them: holdfast plan" in err
    assert set(intervals) == {"lines", "count"}
    assert plan["boundaries"] == ["lines", "count"]


def test_status_warns_of_a_promise_that_no_longer_holds(tmp_path):
    """While the run goes on, in one line and in JSON, and the run itself says so too."""
    app = learning_run(tmp_path, 8.0)
    words = [sys.executable, "-c", CODE, *fake(app, "90s"), "--plan", "planned.json"]
    with subprocess.Popen(
        words, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    ) as running:
        told = []
        for line in running.stderr:
            told.append(line)
            if "promise" in line or running.poll() is not None:
                break
        code, out, err = holdfast(tmp_path, "status", "run", "--json")
        _, shown, _ = holdfast(tmp_path, "status", "run")
        running.terminate()
        running.communicate(timeout=60)
    assert told[-1].startswith("warning: the promise no longer holds: count would take"), told
    assert code == 0, err
    (warning,) = json.loads(out)["warnings"]
    assert "because of rows into count: 50 /s as profiled, 400 /s now" in warning
    assert warning.endswith(f"holdfast plan {app} --from run plans again")
    assert "the promise no longer holds: count" in " ".join(shown.split())
