"""A run that gets sixteen times the rows it was planned for says so while it goes on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.spark.learning_app import BURN_S, PROFILED, ROWS_PER_SECOND

from holdfast.cli.profiles import profile_path
from holdfast.predict.statistics import Measure, OperatorStatistics, Statistics, dump_statistics
from holdfast.runtime.launch.children import ProcessList

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

LIMIT_S = 240.0


def profiled():
    """What a profile of a calmer day would have said."""
    rate = Measure(value=float(PROFILED), samples=20, how="by hand")
    return Statistics(
        pipeline="learning",
        operators={
            "rows": OperatorStatistics(thread=True, input_rate=rate),
            "burn": OperatorStatistics(
                input_rate=rate, cost=Measure(value=BURN_S, samples=9, how="by hand")
            ),
        },
    )


def holdfast(*words):
    """A command: exit code, output and error output."""
    done = subprocess.run(
        _command(words), capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    return done.returncode, done.stdout, done.stderr


def _command(words):
    # A run that looks every second has its samples sooner.
    code = (
        "import holdfast.cli.learning as learning; learning.SAMPLE_S, learning.SAVE_S = 1.0, 2.0; "
        "from holdfast.cli import main; main()"
    )
    return [sys.executable, "-c", code, *map(str, words)]


def test_a_run_warns_while_it_goes_on_and_a_plan_learns_from_it(tmp_path, monkeypatch):
    """`status` warns of rows that nobody planned for; `plan --from` says what that changes."""
    monkeypatch.chdir(tmp_path)
    application = tmp_path / "learning_app.py"
    shutil.copy(Path(__file__).with_name("learning_app.py"), application)
    home = profile_path(str(application), "learning")
    home.parent.mkdir()
    home.write_text(dump_statistics(profiled()))
    bounds = ("--max-recovery", "2s", "--max-latency", "6s", "--max-replicas", "0")
    code, plan, told = holdfast("plan", application, *bounds, "--json")
    assert code == 0, told
    (tmp_path / "plan.json").write_text(plan)
    run_dir = tmp_path / "run"

    words = ("run", application, "--plan", "plan.json", "-d", run_dir, "--for", f"{LIMIT_S:g}s")
    with subprocess.Popen(_command(words), stderr=subprocess.PIPE, text=True) as running:
        warning = _warning(run_dir, running)
        holdfast("stop", run_dir)
        _, done = running.communicate(timeout=120)
    assert warning.startswith("the promise no longer holds: burn"), (warning, done)
    # A busy machine may not get a batch of `burn` done: the source tells as well.
    assert f": {PROFILED} /s as profiled, {ROWS_PER_SECOND} /s now" in warning
    assert "warning: the promise no longer holds: burn" in done
    assert ProcessList(run_dir).leftovers() == []

    _, out, told = holdfast("plan", application, "--from", run_dir, "--max-recovery", "60s")
    assert "seen by" in " ".join(out.split())
    assert "rows into " in told, told


def _warning(run_dir, running):
    """What status warns of, as soon as it does."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end and running.poll() is None:
        code, out, _ = holdfast("status", run_dir, "--json")
        found = json.loads(out)["warnings"] if code == 0 and out else []
        if found:
            return found[0]
        time.sleep(0.5)
    return ""
