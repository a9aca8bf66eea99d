"""Several coordinators, really killed and stopped: another one leads, and no unit notices."""

import numpy as np
import pytest
from tests.chaos.test_coordinator_processes import (
    DEADLINE_S,
    SUM0,
    ended_exactly_once,
    past,
    recovered,
    starting,
    unit,
    wait_until,
)

from holdfast.control.election import DEPOSED
from holdfast.rundir.endpoint import read_endpoint
from holdfast.runtime.launch.run import all_running

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(180)]


@pytest.fixture
def start(tmp_path):
    """A function that starts runs with three coordinators, all of them ready."""
    with starting(tmp_path) as begin:

        def start_ready(**settings):
            run = begin(coordinators=3, **settings)
            all_ready(run)
            return run

        yield start_ready


def all_ready(run):
    """Wait until one leads and the other two follow it."""
    return run.wait_for(lambda v: len(set(v.coordinators)) == 3, DEADLINE_S, "three coordinators")


def led_on(run, before, more_epochs=10):
    """Wait until another coordinator leads and all units have gone on; gives its view."""
    goal = max(one.epoch for one in before.units) + more_epochs
    return run.wait_for(
        lambda v: v.term > before.term and all_running(v) and past(v, goal),
        DEADLINE_S,
        "a new leader",
    )


def test_a_killed_leader_is_replaced(start):
    """A new process leads, no unit is started again, and there are three coordinators again.

    On a loaded machine the dead one may be back before the others have noticed, and lead.
    """
    run = start()
    before = run.status()
    dead = run.kill_coordinator()
    view = led_on(run, before)
    assert read_endpoint(run.run_dir).pid != dead
    assert [one.generation for one in view.units] == [one.generation for one in before.units]
    assert view.recoveries == ()
    assert any(fact.kind == "term_began" and fact.term == view.term for fact in view.timeline)
    assert sorted(all_ready(run).coordinators) == sorted(before.coordinators)
    ended_exactly_once(run)


def test_a_leader_that_hangs_is_replaced_and_harms_nothing_when_it_wakes(start):
    """Its successor repairs a node meanwhile; woken, it finds a newer term and ends."""
    run = start()
    before = run.status()
    hung = run.launcher.coordinator()
    run.stop_coordinator()
    led_on(run, before)
    run.kill_node(unit(before, SUM0).node)
    view = recovered(run, 1)
    run.cont_coordinator(hung.pid)
    wait_until(lambda: hung.exit_code() is not None)
    assert hung.exit_code() == DEPOSED
    after = all_ready(run)
    assert after.term == view.term
    assert [one.generation for one in after.units] == [one.generation for one in view.units]
    ended_exactly_once(run)


@pytest.mark.sample(seed=1)
@pytest.mark.parametrize("seed", range(6))
def test_a_storm_of_leaders_and_nodes(start, seed):
    """Leaders are killed and stopped and nodes are killed in any order; the output is exact."""
    rng = np.random.default_rng(seed)
    run = start(nodes=2, spares=2)
    hung = []
    for _ in range(6):
        view = run.wait_for(lambda v: len(v.coordinators) >= 2, DEADLINE_S, "a leader")
        match str(rng.choice(["kill", "hang", "node"])):
            case "kill":
                run.kill_coordinator()
            case "hang":
                hung.append(run.stop_coordinator())
            case "node":
                run.kill_node(str(rng.choice([one.node for one in view.nodes if one.units])))
                continue
        led_on(run, view, more_epochs=2) if not view.recoveries else run.wait_for(
            lambda v, term=view.term: v.term > term, DEADLINE_S, "a new leader"
        )
        if hung and rng.random() < 0.5:
            run.cont_coordinator(hung.pop())
    for pid in hung:
        run.cont_coordinator(pid)
    recovered(run, 0)
    ended_exactly_once(run)
