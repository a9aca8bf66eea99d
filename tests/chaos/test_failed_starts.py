"""Nodes that end before they can run anything: real processes, a host that refuses to open."""

import threading
import time

import pytest

from holdfast.control.policy import Policy
from holdfast.control.shell.rundir import RunSpec, scratch_path
from holdfast.model.deployment import Boundary, Deployment, Segment
from holdfast.runtime.launch.children import ProcessList
from holdfast.runtime.launch.local import LaunchSettings
from holdfast.runtime.launch.run import DeadlineError, LocalRun, all_running
from holdfast.testing.fake_host import set_fault

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]

DEADLINE_S = 40.0
DEPLOYMENT = Deployment(
    pipeline="fake",
    epoch_s=0.1,
    segments=(
        Segment(name="src", kind="source", operators=("src",), outputs=(Boundary(operator="src"),)),
        Segment(name="out", kind="exporter", operators=("out",), inputs=("src",)),
    ),
    fingerprints={},
)


@pytest.fixture
def make(tmp_path):
    """A run that is stopped, and shown to have left nothing, at the end of the test."""
    runs = []

    def build(**settings):
        spec = RunSpec(app="", host="fake", deployment=DEPLOYMENT, policy=Policy())
        run = LocalRun(
            tmp_path / "run", spec, LaunchSettings(replace_delay_s=0.1, failed_starts=3, **settings)
        )
        runs.append(run)
        return run

    yield build
    for run in runs:
        assert run.stop().left == ()


def wait_until(condition):
    end = time.monotonic() + DEADLINE_S
    pause = threading.Event()
    while not (found := condition()):
        assert time.monotonic() < end, "did not happen in time"
        pause.wait(0.05)
    return found


def started(run):
    return [item.name for item in ProcessList(run.run_dir).records() if item.kind == "node"]


def test_a_run_whose_nodes_never_come_up_is_given_up(make):
    """A bounded number of starts, then the end with the node's own words."""
    run = make(nodes=1, spares=1)
    set_fault(run.run_dir, "open", "x")
    run.start()
    assert run.launcher.finished.wait(DEADLINE_S)
    # The third may die while the fourth is on its way.
    assert 3 <= len(started(run)) <= 4
    with pytest.raises(DeadlineError, match="finds no session"):
        run.wait_for(all_running, DEADLINE_S)
    report = run.stop()
    assert report.killed == ()
    assert "OSError" in report.given_up
    assert "finds no session" in report.given_up
    assert any("Traceback" in line for line in report.last_words)


def test_spares_that_cannot_start_do_not_end_the_run(make):
    """Units run on; starting goes on as soon as a node comes up again."""
    run = make(nodes=1, spares=0)
    run.start()
    run.wait_for(all_running, DEADLINE_S, "start")
    set_fault(run.run_dir, "open", "x")
    run.add_spare("d1")
    wait_until(lambda: len(started(run)) >= 4 and len(run.launcher.nodes()) == 1)
    assert "3 nodes in a row" in run.launcher.trouble
    assert all_running(run.status())
    set_fault(run.run_dir, "open", None)
    run.add_spare("d1")
    wait_until(lambda: run.launcher.trouble is None)
    # The one that was owed comes too.
    wait_until(lambda: len(run.status()["nodes"]) == 3)
    assert run.stop().given_up is None


def test_temporary_files_go_with_their_node(make):
    """What a killed node had in its scratch directory is removed, others keep theirs."""
    run = make(nodes=2, spares=0, replace=False)
    run.start()
    run.wait_for(lambda v: all_running(v) and len(v["nodes"]) == 2, DEADLINE_S, "start")
    folders = [scratch_path(run.run_dir, name) for name in ("n0", "n1")]
    for folder in folders:
        (folder / "spark-left").mkdir()
    run.kill_node("n1")
    wait_until(lambda: not folders[1].exists())
    assert (folders[0] / "spark-left").exists()
    run.stop()
    assert not folders[0].exists()
