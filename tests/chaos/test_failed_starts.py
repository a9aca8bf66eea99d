"""Processes that end or hang before they can do anything: real ones, with a host that refuses."""

import contextlib
import signal
import threading
import time

import pytest

from holdfast.deployment import Boundary, Deployment, Segment
from holdfast.errors import BadInputError
from holdfast.health.budget import RestartBudget
from holdfast.health.policy import Policy
from holdfast.rundir.contents import journal_path, journals, scratch_path
from holdfast.rundir.spec import RunSpec
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


def troubles(view):
    return [fact.trouble for fact in view.timeline if fact.kind == "launch_trouble"]


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
    # Also for those who do not see the launcher's terminal, and for later.
    view = run.wait_for(lambda v: v.trouble == run.launcher.trouble, DEADLINE_S, "trouble")
    assert all_running(view)
    assert troubles(view)[-1] == view.trouble
    set_fault(run.run_dir, "open", None)
    run.add_spare("d1")
    wait_until(lambda: run.launcher.trouble is None)
    run.wait_for(lambda v: v.trouble is None, DEADLINE_S, "end of trouble")
    # The one that was owed comes too.
    wait_until(lambda: len(run.status().nodes) == 3)
    assert run.stop().given_up is None


def test_a_spare_that_is_killed_while_it_rehearses_has_not_failed_to_start(make):
    """It can run units by then, so its death counts as that of any node and ends no run."""
    run = make(nodes=1, spares=1)
    set_fault(run.run_dir, "warm", "hang")
    run.start()
    for _ in range(4):  # one more than may fail to start in a row
        run.wait_for(all_running, DEADLINE_S, "healing")
        names = run.launcher.nodes()
        for name in names:
            wait_until(run.launcher.node(name).came_up)
            run.kill_node(name)
        wait_until(lambda names=names: not set(names) & set(run.launcher.nodes()))
        wait_until(lambda: len(run.launcher.nodes()) == 2)
        assert run.launcher.trouble is None
    run.wait_for(all_running, DEADLINE_S, "healing")
    assert run.stop().given_up is None


def test_a_spare_that_hangs_while_starting_is_killed_and_replaced(make):
    """Its process and its session are gone, the reason is told, its successor comes up."""
    run = make(nodes=1, spares=0, start_s=5.0)
    run.start()
    run.wait_for(all_running, DEADLINE_S, "start")
    set_fault(run.run_dir, "open", "hang")
    hung = run.add_spare("d1")
    child = run.launcher.node(hung)
    said = f"{hung} hung while starting and was killed after 5 s"
    wait_until(lambda: said in (run.launcher.trouble or ""))
    assert child.exit_code() == -signal.SIGKILL
    run.wait_for(lambda v: any(said in told for told in troubles(v)), DEADLINE_S, "trouble")
    set_fault(run.run_dir, "open", None)
    wait_until(lambda: run.launcher.trouble is None)
    (node,) = [name for name in run.launcher.nodes() if name != "n0"]
    assert node != hung
    run.wait_for(lambda v: all(n.ready for n in v.nodes), DEADLINE_S, "ready")
    assert run.stop().given_up is None


def test_nodes_that_always_hang_are_given_up(make):
    """The starts are as bounded as those of nodes that end by themselves."""
    run = make(nodes=1, spares=0, start_s=2.0)
    set_fault(run.run_dir, "open", "hang")
    run.start()
    assert run.launcher.finished.wait(DEADLINE_S)
    assert len(started(run)) == 3
    assert "hung while starting" in run.stop().given_up


# What keeps a coordinator from starting: its own records, or the file that gets its output.
OBSTACLES = ["terms", "c0.out"]


def block(run, name):
    """Kill the coordinator so that it cannot come back; gives the obstacle and what it hides."""
    path = journal_path(run.run_dir, 0).with_name(name)
    hidden = path.rename(path.with_name("hidden"))
    if hidden.is_dir():
        path.touch()
    else:
        path.mkdir()
    with contextlib.suppress(BadInputError):  # without its records it ends by itself
        run.kill_coordinator()
    return path, hidden


def unblock(path, hidden):
    if hidden.is_dir():
        path.unlink()
    else:
        path.rmdir()
    hidden.rename(path)


@pytest.mark.sample(name="c0.out")
@pytest.mark.parametrize("name", OBSTACLES)
def test_a_coordinator_that_cannot_start_is_tried_again(make, name):
    """Units run on meanwhile; when it is back, its trouble is on the timeline and over."""
    run = make(nodes=1, spares=0)
    run.start()
    run.wait_for(all_running, DEADLINE_S, "start")
    path, hidden = block(run, name)
    wait_until(lambda: "a directory" in (run.launcher.trouble or ""))
    unblock(path, hidden)
    view = run.wait_for(lambda v: all_running(v) and troubles(v)[-1:] == [""], DEADLINE_S, "return")
    assert view.recoveries == ()
    assert "the coordinator" in troubles(view)[0]
    report = run.stop()
    assert report.clean, report


@pytest.mark.sample(name="terms")
@pytest.mark.parametrize("name", OBSTACLES)
def test_a_coordinator_that_never_starts_ends_the_run(make, name):
    """After a bounded number of attempts, with one line that says why; nodes end by themselves."""
    budget = RestartBudget(limit=3, window_s=60.0, delay_s=0.05)
    run = make(nodes=1, spares=0, coordinator_retries=budget)
    run.start()
    run.wait_for(all_running, DEADLINE_S, "start")
    block(run, name)
    assert run.launcher.finished.wait(DEADLINE_S)
    report = run.stop()
    assert "the coordinator" in report.given_up
    assert "a directory" in report.given_up
    assert "4 times" in report.given_up
    assert "\n" not in report.given_up
    assert report.killed == ()


def test_a_damaged_journal_ends_the_run_at_once(make):
    """Trying again cannot help, so nobody waits for it."""
    run = make(nodes=1, spares=0)
    run.start()
    run.wait_for(all_running, DEADLINE_S, "start")
    (journal,) = journals(run.run_dir).values()
    with journal.open("r+b") as file:
        file.write(b"x")
    run.kill_coordinator()
    assert run.launcher.finished.wait(DEADLINE_S)
    assert "altered line at byte 0" in run.launcher.given_up


def test_temporary_files_go_with_their_node(make):
    """What a killed node had in its scratch directory is removed, others keep theirs."""
    run = make(nodes=2, spares=0, replace=False)
    run.start()
    run.wait_for(lambda v: all_running(v) and len(v.nodes) == 2, DEADLINE_S, "start")
    folders = [scratch_path(run.run_dir, name) for name in ("n0", "n1")]
    for folder in folders:
        (folder / "spark-left").mkdir()
    run.kill_node("n1")
    wait_until(lambda: not folders[1].exists())
    assert (folders[0] / "spark-left").exists()
    run.stop()
    assert not folders[0].exists()
