"""A small proof on real processes: one kill, measured from the log, results exact."""

import json
import signal
import subprocess
import sys

import pytest

from holdfast.pipeline import deploy, load_pipeline
from holdfast.plan import FtcPlan
from holdfast.prove.run import Proving, prove
from holdfast.runtime.launch.children import ProcessList

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

APP = "examples/word_count.py"


def test_a_kill_is_measured_and_loses_nothing(tmp_path):
    """Both units of the node are measured, their phases add up, and every row is there once."""
    pipeline = load_pipeline(APP)
    proof = prove(
        Proving(
            app=APP,
            pipeline=pipeline,
            deployment=deploy(pipeline),
            plan=FtcPlan(algorithm="by hand", feasible=True),
            faults=1,
            nodes=1,
            spares=1,
            max_recovery=120.0,
            calm_slices=4,
        ),
        tmp_path / "run",
    )
    assert not proof.note, proof.note
    assert [item.unit for item in proof.recoveries] == ["lines.0#0", "count.0#0"]
    for item in proof.recoveries:
        assert item.seconds is not None
        assert item.seconds > 0
        assert sum(item.phases.values()) == pytest.approx(item.seconds)
        assert item.seconds + item.waited <= item.settled + 1e-6
    # Every unit is measured against its own normal lag, which rests on calm slices.
    assert all(normal.slices >= 4 for normal in proof.normal.values())
    assert proof.kept
    assert proof.exact, proof.to_json()
    assert proof.stop.left == ()


@pytest.mark.full
def test_ctrl_c_ends_a_proof_with_what_it_has(tmp_path):
    """It stops, verifies, reports the first recovery and leaves no process behind."""
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(FtcPlan(algorithm="by hand", feasible=True).to_json()))
    command = [
        *(sys.executable, "-c", "from holdfast.cli import main; main()"),
        *("prove", APP, "--plan", str(plan), "--json"),
        *("--faults", "9", "--nodes", "1", "--max-recovery", "120s"),
        *("--run-dir", str(tmp_path / "run"), "--report", str(tmp_path / "report.html")),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        told = []
        for line in process.stderr:
            told.append(line)
            if line.startswith("fault 1: killed"):
                process.send_signal(signal.SIGINT)
                break
        out, err = process.communicate(timeout=120)
    assert out, "".join(told) + err
    proof = json.loads(out)
    assert proof["note"] == "interrupted after 1 of 9 faults"
    assert [item["unit"] for item in proof["recoveries"]] == ["lines.0#0", "count.0#0"]
    assert proof["exact"], proof["verdict"]
    assert process.returncode == 0
    assert ProcessList(tmp_path / "run").leftovers() == []
    assert "interrupted after 1 of 9" in (tmp_path / "report.html").read_text()
