"""`run --plan` runs what the plan says, no more and no less: real processes, fake units."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.predict.statistics import Statistics, dump_statistics
from holdfast.rundir.spec import read_spec
from holdfast.runtime.launch.children import ProcessList

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(150)]

ROOT = Path(__file__).parents[2]
APP = str(ROOT / "examples" / "word_count.py")


def holdfast(where, *words):
    code = "from holdfast.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=where,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
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
