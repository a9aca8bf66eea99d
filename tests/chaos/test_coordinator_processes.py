"""Real processes, really killed: every failure ends with all units running and exact output.

Units are run by the fake host, whose output betrays any lost, doubled or misplaced batch.
"""

import contextlib
import os
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from holdfast.control.client import ControlClient
from holdfast.control.shell.wire import ConnectionLostError, LineSocket
from holdfast.errors import BadInputError
from holdfast.health.budget import RestartBudget
from holdfast.health.heartbeat import HeartbeatPolicy
from holdfast.health.policy import Policy
from holdfast.health.stall import StallPolicy
from holdfast.rundir.contents import ENDPOINT, journal_path, node_log_path
from holdfast.rundir.endpoint import read_endpoint
from holdfast.rundir.spec import RunSpec
from holdfast.runtime.launch.local import LaunchSettings
from holdfast.runtime.launch.run import DeadlineError, LocalRun, all_running
from holdfast.runtime.node.processes import ProcessId
from holdfast.runtime.node.program import FENCED
from holdfast.testing.fake_host import DEPLOYMENT, check_output, set_fault

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]

DEADLINE_S = 30.0

SRC, SUM0, SUM1, OUT = DEPLOYMENT.units()


def policy(**changes):
    settings = {
        "workers": 2,
        "max_units_per_node": 4,
        "heartbeat": HeartbeatPolicy(kind="fixed", timeout_s=2.0),
        "stall": StallPolicy(stall_s=1.5, batches=5.0, first_batch_s=5.0),
        "retries": RestartBudget(limit=2, window_s=60.0, delay_s=0.1),
        "reconnect_s": 5.0,
    }
    return Policy(**{**settings, **changes})


@contextlib.contextmanager
def starting(tmp_path):
    """Start runs that are stopped, and shown to have left nothing, at the end."""
    runs = []

    def begin(*, nodes=2, spares=1, wait=True, policy_=None, **settings):
        spec = RunSpec(
            app="", host="fake", deployment=DEPLOYMENT, policy=policy_ or policy(workers=nodes)
        )
        run = LocalRun(
            tmp_path / "run", spec, LaunchSettings(nodes=nodes, spares=spares, **settings)
        )
        runs.append(run)
        os.environ["HOLDFAST_VALIDATE"] = "1"
        run.start()
        if wait:
            run.wait_for(lambda v: all_running(v) and past(v, 3), DEADLINE_S, "start")
        return run

    yield begin
    for run in runs:
        report = run.stop()
        assert report.left == ()
    os.environ.pop("HOLDFAST_VALIDATE", None)


@pytest.fixture
def start(tmp_path):
    """A function that starts runs for this test alone."""
    with starting(tmp_path) as begin:
        yield begin


def past(view, epoch):
    return all(unit.epoch is not None and unit.epoch >= epoch for unit in view.units)


def unit(view, name):
    return next(unit for unit in view.units if unit.unit == str(name))


def recovered(run, count=1, more_epochs=5):
    """Wait until at least `count` recoveries are done, all units run and new epochs are out."""
    view = run.wait_for(
        lambda v: all_running(v) and len(v.recoveries) >= count, DEADLINE_S, "recovery"
    )
    end = max(unit.epoch for unit in view.units)
    run.wait_for(lambda v: past(v, end + more_epochs), DEADLINE_S, "progress")
    return view


def ended_exactly_once(run):
    """Stop cleanly, leave no process, and compare all output with an independent computation."""
    report = run.stop()
    assert report.clean, report
    assert report.left == ()
    assert check_output(run.run_dir, DEPLOYMENT) == []


def phases_in_order(view):
    for recovery in view.recoveries:
        assert (
            recovery.failed_at
            <= recovery.detected_at
            <= recovery.restored_at
            <= recovery.caught_up_at
        )


def test_a_quiet_run_starts_and_stops_cleanly(start):
    """Nothing fails: units run, the stop is clean, no process and no endpoint is left."""
    run = start()
    view = run.status()
    assert {node.node for node in view.nodes} == {"n0", "n1", "s0"}
    assert next(n for n in view.nodes if n.node == "s0").spare
    ended_exactly_once(run)
    assert not (run.run_dir / ENDPOINT).exists()
    text = node_log_path(run.run_dir, unit(view, SRC).node).read_text()
    assert "unit=src.0#0 generation=1 start" in text


def test_kill_9_of_a_node(start):
    """A killed node's units go to the spare; a new spare joins; output is exact."""
    run = start()
    victim = unit(run.status(), SRC).node
    run.kill_node(victim)
    view = recovered(run, 1)
    assert unit(view, SRC).node == "s0"
    assert {r.reason for r in view.recoveries} == {"node lost"}
    phases_in_order(view)
    run.wait_for(lambda v: any(node.node == "s1" for node in v.nodes), DEADLINE_S, "spare")
    ended_exactly_once(run)


def test_a_zombie_wakes_and_is_sent_away(start):
    """SIGSTOP past detection, units move, SIGCONT: the old process publishes nothing twice."""
    # On starved cores its units might be taken for stalled first.
    run = start(fence=False, policy_=policy(stall=StallPolicy()))
    victim = unit(run.status(), SUM0).node
    old = run.launcher.node(victim)
    run.stop_node(victim)
    view = recovered(run, 1)
    lost = [fact for fact in view.timeline if fact.kind == "node_lost"]
    assert [fact.reason for fact in lost] == ["silent"]
    assert old.exit_code() is None
    run.cont_node(victim)
    end = max(unit.epoch for unit in run.status().units)
    run.wait_for(lambda v: past(v, end + 10), DEADLINE_S, "progress beside the zombie")
    run.wait_for(lambda _: old.exit_code() is not None, DEADLINE_S, "end of the zombie")
    ended_exactly_once(run)


def test_a_hung_node_is_fenced(start):
    """With fencing the hung process is killed and replaced."""
    run = start()
    victim = unit(run.status(), SUM0).node
    old = run.launcher.node(victim)
    run.stop_node(victim)
    recovered(run, 1)
    run.wait_for(lambda _: old.exit_code() == -signal.SIGKILL, DEADLINE_S, "the fence")
    ended_exactly_once(run)


def test_kill_9_of_the_coordinator_stops_nothing(start):
    """A new coordinator replays the journal; no unit changes its generation."""
    run = start()
    before = run.status()
    dead = run.kill_coordinator()
    run.wait_for(lambda _: read_endpoint(run.run_dir).pid != dead, DEADLINE_S, "restart")
    view = run.wait_for(
        lambda v: all_running(v) and past(v, before.units[0].epoch + 10),
        DEADLINE_S,
        "the nodes' return",
    )
    assert [u.generation for u in view.units] == [1, 1, 1, 1]
    assert view.recoveries == ()
    ended_exactly_once(run)


def test_coordinator_and_node_killed_together(start):
    """The restarted coordinator finds that a node of its journal is gone."""
    run = start()
    victim = unit(run.status(), OUT).node
    run.kill_coordinator()
    run.kill_node(victim)
    view = recovered(run, 1)
    assert unit(view, OUT).node != victim
    ended_exactly_once(run)


def test_an_empty_spare_pool_waits_for_a_node(start):
    """No room anywhere: units wait, and start when a node joins."""
    run = start(nodes=2, spares=0, replace=False, policy_=policy(max_units_per_node=2, workers=2))
    victim = unit(run.status(), SRC).node
    run.kill_node(victim)
    run.wait_for(
        lambda v: (
            sum(u.phase == "waiting" for u in v.units) == 2
            and any(fact.kind == "unit_waiting" for fact in v.timeline)
        ),
        DEADLINE_S,
        "waiting units",
    )
    name = run.add_spare()
    view = recovered(run, 2)
    assert unit(view, SRC).node == name
    ended_exactly_once(run)


def test_loss_of_a_failure_domain(start):
    """All nodes of a domain die at once; the other domain takes over."""
    run = start(nodes=2, spares=2)
    lost = run.kill_domain("d0")
    assert len(lost) == 2
    view = recovered(run, 1)
    domains = {node.node: node.domain for node in view.nodes}
    assert {domains[u.node] for u in view.units} == {"d1"}
    ended_exactly_once(run)


def test_an_exception_is_retried_then_held_then_released(start):
    """A poisoned unit is reported with operator and traceback; the others go on."""
    run = start()
    set_fault(run.run_dir, SUM1, "raise")
    view = run.wait_for(lambda v: v.status == "failed", DEADLINE_S, "the hold")
    held = unit(view, SUM1)
    assert (held.phase, held.operator) == ("held", "sum")
    assert "ValueError: poisoned record in sum.0#1" in held.error
    assert unit(view, SRC).phase == "running"
    assert held.generation == 3
    set_fault(run.run_dir, SUM1, None)
    with ControlClient(run.run_dir) as client:
        with pytest.raises(BadInputError, match="no held unit"):
            client.retry("src.0#0")
        client.retry(str(SUM1))
    recovered(run, 3)
    ended_exactly_once(run)


def test_a_stalled_unit_costs_its_process(start):
    """A unit that hangs in a batch is ended by killing its node."""
    run = start()
    set_fault(run.run_dir, SRC, "stall")
    old = run.launcher.node(unit(run.status(), SRC).node)
    run.wait_for(
        lambda v: any(r.reason == "stalled" for r in v.recoveries), DEADLINE_S, "the stall"
    )
    set_fault(run.run_dir, SRC, None)
    recovered(run, 1)
    # Its launcher kills it, unless it hears first that it was sent away and ends itself.
    assert old.exit_code() in (-signal.SIGKILL, FENCED)
    ended_exactly_once(run)


def test_a_long_batch_that_works_is_left_alone(start):
    """Ten times the limit without a batch, but with work to be seen: nobody is killed."""
    limits = StallPolicy(stall_s=0.5, batches=0.1, intervals=0.1, first_batch_s=5.0)
    run = start(policy_=policy(stall=limits))
    set_fault(run.run_dir, SUM0, "work")
    behind = lambda v: unit(v, SRC).epoch > unit(v, SUM0).epoch + 3  # noqa: E731
    begin = run.wait_for(behind, DEADLINE_S, "a batch that takes long")
    view = run.wait_for(lambda v: v.now > begin.now + 5.0, DEADLINE_S, "ten limits")
    assert view.recoveries == ()
    assert unit(view, SUM0).epoch <= unit(begin, SUM0).epoch + 1
    set_fault(run.run_dir, SUM0, None)
    run.wait_for(lambda v: past(v, unit(view, SRC).epoch), DEADLINE_S, "the end of the batch")
    ended_exactly_once(run)


def test_a_run_directory_is_resumed(start):
    """After a stop the next launch goes on where the last one ended, under new generations."""
    first = start()
    end = first.status().units[0].epoch
    ended_exactly_once(first)
    second = start(wait=False)
    view = second.wait_for(lambda v: all_running(v) and past(v, end + 3), DEADLINE_S, "resumption")
    assert [u.generation for u in view.units] == [2, 2, 2, 2]
    assert view.recoveries == ()
    ended_exactly_once(second)


def test_a_journal_of_another_version_is_refused(tmp_path):
    """A run directory of the first edition ends at once, with one line that says what to do."""
    spec = RunSpec(app="", host="fake", deployment=DEPLOYMENT, policy=policy(workers=1))
    journal = journal_path(tmp_path / "run", -1)
    journal.parent.mkdir(parents=True)
    journal.write_bytes(b'e5cb5b6a {"seq":0,"facts":[]}\n')
    with LocalRun(tmp_path / "run", spec, LaunchSettings(nodes=1, spares=0)) as run:
        assert run.launcher.finished.wait(DEADLINE_S)
        assert "journal: is a journal from before versions" in run.launcher.given_up
        assert run.launcher.given_up.endswith("or start in a new run directory")


def test_a_run_directory_in_use_is_refused(start):
    """Two launches of one run directory at the same time are refused with one line."""
    run = start()
    other = LocalRun(run.run_dir, run.spec)
    with pytest.raises(BadInputError, match="is in use by processes"):
        other.start()
    ended_exactly_once(run)


def test_kill_and_stop_over_the_control_connection(start):
    """`kill` fences a node by name; unknown names are refused; `stop` ends the run."""
    run = start()
    victim = unit(run.status(), SRC).node
    with ControlClient(run.run_dir) as client:
        with pytest.raises(BadInputError, match="there are: "):
            client.kill("nobody")
        client.kill(victim)
    recovered(run, 1)
    with ControlClient(run.run_dir) as client:
        view = client.status()
        assert view.status in ("running", "recovering")
        assert view.pipeline == "fake"
        client.stop()
    assert run.launcher.finished.wait(DEADLINE_S)
    ended_exactly_once(run)


def test_a_wrong_token_is_refused(start):
    """Without the token nobody is heard; the endpoint is the owner's alone."""
    run = start(wait=False)
    run.wait_for(lambda _: True, DEADLINE_S)
    endpoint = read_endpoint(run.run_dir)
    assert (run.run_dir / ENDPOINT).stat().st_mode & 0o777 == 0o600
    assert journal_path(run.run_dir, endpoint.term).stat().st_mode & 0o777 == 0o600
    stranger = replace(endpoint, token="0" * 64)
    with pytest.raises(ConnectionLostError, match="wrong token"):
        LineSocket(stranger, "control")


def test_output_that_is_wrong_is_noticed(start):
    """The checker itself: an altered, a missing and a doubled slice are all reported."""
    run = start()
    ended_exactly_once(run)
    log = run.run_dir / "fake" / "log" / "sum.0%230"
    original = (log / "2.json").read_text()
    (log / "2.json").write_text('{"value": -1, "generation": 1}')
    assert any("sum.0#0 epoch 2" in line for line in check_output(run.run_dir, DEPLOYMENT))
    (log / "2.json").unlink()
    assert any("gaps" in line for line in check_output(run.run_dir, DEPLOYMENT))
    (log / "2.json").write_text(original)
    assert check_output(run.run_dir, DEPLOYMENT) == []


def test_nodes_die_with_their_launcher(tmp_path):
    """kill -9 of the launching process leaves neither nodes nor coordinator behind."""
    import json
    import subprocess
    import sys
    import textwrap

    code = textwrap.dedent("""
        import sys, time
        sys.path.insert(0, ".")
        from pathlib import Path
        from tests.chaos.test_coordinator_processes import DEPLOYMENT, policy
        from holdfast.rundir.spec import RunSpec
        from holdfast.runtime.launch.local import LaunchSettings
        from holdfast.runtime.launch.run import LocalRun, all_running
        spec = RunSpec(app="", host="fake", deployment=DEPLOYMENT, policy=policy())
        run = LocalRun(Path(sys.argv[1]), spec, LaunchSettings(nodes=2))
        run.start()
        run.wait_for(all_running, 30)
        print("up", flush=True)
        time.sleep(1000)
    """)
    run_dir = tmp_path / "run"
    launcher = subprocess.Popen(
        [sys.executable, "-c", code, str(run_dir)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert launcher.stdout.readline() == "up\n"
    finally:
        launcher.kill()
        launcher.wait()
    lines = (run_dir / "processes.jsonl").read_text().splitlines()
    recorded = [json.loads(line) for line in lines]
    assert len(recorded) == 3
    wait_until(
        lambda: not any(ProcessId(pid=r["pid"], started=r["started"]).alive() for r in recorded)
    )


def wait_until(condition):
    end = time.monotonic() + DEADLINE_S
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        pause.wait(0.05)


def test_a_paused_coordinator_blames_nobody(start):
    """SIGSTOP of the coordinator past every timeout: on waking it recovers nothing."""
    run = start()
    before = run.status()
    coordinator = run.launcher.coordinator()
    coordinator.signal(signal.SIGSTOP)
    end = before.now + 4.0
    wait_until(lambda: time.time() > end)
    coordinator.signal(signal.SIGCONT)
    view = run.wait_for(
        lambda v: all_running(v) and past(v, before.units[0].epoch + 40), DEADLINE_S
    )
    assert view.recoveries == ()
    ended_exactly_once(run)


@pytest.mark.sample(seed={1, 2})  # with and without fencing
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_failures_end_exactly_once(start, seed):
    """A seeded storm of kills, hangs, wakes, faults and coordinator kills; then calm weather."""
    rng = np.random.default_rng(seed)
    run = start(nodes=3, spares=2, replace_delay_s=0.2, fence=bool(seed % 2))
    stopped = []
    for _ in range(10):
        names = sorted(run.launcher.nodes())
        name = str(rng.choice(names)) if names else None
        action = str(rng.choice(["kill", "kill", "hang", "wake", "coordinator", "raise", "wait"]))
        with contextlib.suppress(BadInputError, ConnectionLostError, DeadlineError):
            if action == "kill" and name:
                run.kill_node(name)
            elif action == "hang" and name:
                run.stop_node(name)
                stopped.append(name)
            elif action == "wake" and stopped:
                run.cont_node(stopped.pop())
            elif action == "coordinator":
                run.kill_coordinator()
            elif action == "raise":
                victim = DEPLOYMENT.units()[int(rng.integers(4))]
                failed = unit(run.status(), victim).failures
                set_fault(run.run_dir, victim, "raise")
                run.wait_for(lambda v, u=victim, n=failed: unit(v, u).failures > n, 3.0)
                set_fault(run.run_dir, victim, None)
            else:
                run.wait_for(all_running, 3.0)
    for victim in DEPLOYMENT.units():
        set_fault(run.run_dir, victim, None)
    for name in stopped:
        with contextlib.suppress(BadInputError):
            run.cont_node(name)

    def calm(view):
        for held in [u.unit for u in view.units if u.phase == "held"]:
            with ControlClient(run.run_dir) as client:
                client.retry(held)
        return all_running(view)

    view = run.wait_for(calm, DEADLINE_S, f"calm after the storm of seed {seed}")
    end = max(unit.epoch for unit in view.units)
    run.wait_for(lambda v: past(v, end + 5), DEADLINE_S, "progress")
    ended_exactly_once(run)
