"""Every transition of the launcher's machine, with the exact commands it gives."""

import pytest

from holdfast.control.launcher import commands as c
from holdfast.control.launcher import events as e
from holdfast.control.launcher.machine import ENDED_LOGS, MAX_EXITS, Launcher, UnknownNodeError
from holdfast.control.launcher.settings import LaunchSettings
from holdfast.health.budget import RestartBudget
from holdfast.rundir.spec import BAD_INPUT

pytestmark = pytest.mark.unit

KILLED = -9
FAILED = 1


def launcher(**settings):
    """One whose launch has begun, with every process started and none up, at time 0."""
    made = Launcher(LaunchSettings(**settings))
    started(made, made.handle(e.LaunchBegan(), 0.0))
    return made


def started(made, commands, now=0.0):
    """Carry out the starts among some commands; gives the names of the nodes."""
    names = [command.node for command in commands if isinstance(command, c.StartNode)]
    for name in names:
        assert made.handle(e.NodeStarted(node=name, pid=pid(name)), now) == []
    return names


def pid(name):
    return 100 + int(name[1:]) + (50 if name[0] == "s" else 0)


def up(made, *names, now=0.0):
    for name in names:
        made.handle(e.NodeUp(node=name), now)


def ended(made, name, code=KILLED, now=0.0, words=()):
    return made.handle(e.NodeEnded(node=name, code=code, words=words), now)


def tick(made, now):
    return made.handle(e.Tick(), now)


def texts(commands):
    return [command.text for command in commands if isinstance(command, c.Log)]


def ending(name, code=KILLED):
    """What is said of every end."""
    return [
        c.TellExited(node=name, pid=pid(name)),
        c.Log(level="info", text=f"node {name} ended with {code}"),
    ]


def test_a_launch_starts_the_coordinator_first_and_deals_the_domains():
    """Nodes, then spares, over d0, d1, ... in turn."""
    made = Launcher(LaunchSettings(nodes=2, spares=2, domains=3))
    assert made.handle(e.LaunchBegan(), 0.0) == [
        c.StartCoordinator(coordinator="c0", rank=0),
        c.StartNode(node="n0", domain="d0", spare=False),
        c.StartNode(node="n1", domain="d1", spare=False),
        c.StartNode(node="s0", domain="d2", spare=True),
        c.StartNode(node="s1", domain="d0", spare=True),
    ]
    assert made.coming() == ["n0", "n1", "s0", "s1"]


def test_a_node_that_came_up_is_not_coming_any_more():
    """It says nothing while there was no trouble but that there is none."""
    made = launcher(nodes=2)
    assert made.handle(e.NodeUp(node="n0"), 1.0) == []
    assert made.coming() == ["n1"]


def test_a_dead_node_is_replaced_by_a_spare_of_its_domain():
    """At the next tick, with the next name, if there is no spare that could have taken over."""
    made = launcher(nodes=2)
    up(made, "n0", "n1")
    assert ended(made, "n1", now=3.0) == ending("n1")
    assert tick(made, 3.0) == [c.StartNode(node="s0", domain="d1", spare=True)]
    assert made.nodes["s0"].replaces


def test_a_new_spare_waits_for_a_recovery_that_is_under_way():
    """Its start would take the processor from what is brought back; it does not wait for ever."""
    made = launcher(nodes=1, spares=1, replace_delay_s=5.0, replace_wait_s=30.0)
    up(made, "n0")
    up(made, "s0")
    ended(made, "n0", KILLED, now=10.0)
    assert not made.replacement_due(14.9)
    assert made.replacement_due(15.0)
    made.handle(e.RecoveriesSeen(under_way=True), 15.0)
    assert tick(made, 15.0) == []
    assert tick(made, 44.9) == []
    assert c.StartNode(node="s1", domain="d0", spare=True) in tick(made, 45.0)


def test_a_new_spare_starts_when_the_recovery_is_over():
    """As soon as nothing is brought back any more."""
    made = launcher(nodes=1, spares=1, replace_delay_s=5.0)
    up(made, "n0")
    up(made, "s0")
    ended(made, "n0", KILLED, now=10.0)
    made.handle(e.RecoveriesSeen(under_way=True), 15.0)
    assert tick(made, 16.0) == []
    made.handle(e.RecoveriesSeen(under_way=False), 17.0)
    assert c.StartNode(node="s1", domain="d0", spare=True) in tick(made, 17.0)


def test_with_spares_a_replacement_waits():
    """A starting Java virtual machine must not take the processor from the recovery."""
    made = launcher(nodes=1, spares=1, replace_delay_s=5.0)
    up(made, "n0", "s0")
    ended(made, "n0", now=10.0)
    assert tick(made, 14.9) == []
    assert tick(made, 15.0) == [c.StartNode(node="s1", domain="d0", spare=True)]


def test_nothing_is_replaced_if_told_so():
    """Nor is the run given up: someone may add a node."""
    made = launcher(nodes=1, replace=False)
    up(made, "n0")
    ended(made, "n0")
    assert tick(made, 100.0) == []
    assert made.given_up is None
    assert made.handle(e.SpareRequested(domain="d1"), 101.0) == [
        c.StartNode(node="s0", domain="d1", spare=True)
    ]


def test_a_node_that_was_told_to_leave_is_not_replaced():
    """Exit code 0 means that the run ends; without a node it is not given up then."""
    made = launcher(nodes=1)
    up(made, "n0")
    assert ended(made, "n0", code=0) == ending("n0", 0)
    assert tick(made, 100.0) == []
    assert made.given_up is None


def test_replacements_are_bounded():
    """Nodes that die too often are not replaced any more, and the reason is told once."""
    made = launcher(nodes=1, restarts=RestartBudget(limit=2, window_s=60.0))
    name = "n0"
    for now in (1.0, 2.0):
        up(made, name)
        ended(made, name, now=now)
        (name,) = started(made, tick(made, now))
    up(made, name)
    trouble = "nodes die too often: s1 is not replaced"
    assert ended(made, name, now=3.0) == [
        *ending("s1"),
        c.Log(level="error", text=trouble),
        c.TellTrouble(trouble=trouble),
    ]
    assert tick(made, 3.0) == [
        c.Log(level="info", text=f"given up: {trouble}"),
        c.TellTrouble(trouble=f"the run is given up: {trouble}"),
        c.Finish(),
    ]
    assert made.given_up == trouble
    assert tick(made, 4.0) == []


def test_a_window_that_has_passed_allows_replacements_again():
    """What died long ago does not count."""
    made = launcher(nodes=1, restarts=RestartBudget(limit=1, window_s=60.0))
    name = "n0"
    for now in (0.0, 100.0, 200.0):
        up(made, name, now=now)
        ended(made, name, now=now)
        (name,) = started(made, tick(made, now), now)
    assert made.trouble is None


def test_a_failed_start_is_told_with_the_nodes_own_words():
    """The line that says most, here and to the coordinator; it is replaced all the same."""
    made = launcher(nodes=2)
    trouble = "n0 ended with 1 before it could run anything: OSError: no session"
    words = ("Traceback", "OSError: no session")
    assert ended(made, "n0", FAILED, words=words) == [
        *ending("n0", FAILED),
        c.Log(level="error", text=trouble),
        c.TellTrouble(trouble=trouble),
    ]
    assert made.trouble == trouble
    assert made.last_words == words
    assert started(made, tick(made, 0.0)) == ["s0"]
    assert ended(made, "s0", FAILED)[-1] == c.TellTrouble(
        trouble="2 nodes in a row could not start; "
        "s0 ended with 1 before it could run anything: it said nothing"
    )


def test_too_many_failed_starts_in_a_row_are_owed_until_one_comes_up():
    """Starting goes on as soon as a node comes up again, and the trouble is over."""
    made = launcher(nodes=2, failed_starts=2, replace_delay_s=5.0)
    up(made, "n0")
    ended(made, "n1", FAILED)
    (name,) = started(made, tick(made, 0.0))
    ended(made, name, FAILED)
    assert tick(made, 100.0) == []
    assert started(made, made.handle(e.SpareRequested(domain="d1"), 100.0)) == ["s1"]
    assert made.handle(e.NodeUp(node="s1"), 101.0) == [c.TellTrouble(trouble="")]
    assert made.trouble is None
    assert tick(made, 105.0) == []
    assert tick(made, 106.0) == [c.StartNode(node="s2", domain="d1", spare=True)]


def test_a_node_that_came_up_in_between_ends_the_row():
    """Failed starts count only in a row."""
    made = launcher(nodes=2, failed_starts=2)
    ended(made, "n0", FAILED)
    up(made, "n1")
    assert started(made, tick(made, 0.0)) == ["s0"]
    ended(made, "s0", FAILED)
    assert made.trouble.startswith("s0 ended with 1")
    assert started(made, tick(made, 0.0)) == ["s1"]


def test_wrong_input_ends_the_starts_at_once():
    """No node can ever start, so none is tried; without one the run is given up."""
    made = launcher(nodes=1)
    ended(made, "n0", BAD_INPUT, words=("app.py: no such file",))
    assert texts(tick(made, 0.0)) == [
        "given up: n0 ended with 2 before it could run anything: app.py: no such file"
    ]
    assert made.last_words == ("app.py: no such file",)


def test_a_run_goes_on_while_a_node_is_left():
    """One that runs, though none may be started any more."""
    made = launcher(nodes=2)
    up(made, "n0")
    ended(made, "n1", BAD_INPUT)
    assert tick(made, 100.0) == []
    assert made.given_up is None
    ended(made, "n0", now=101.0)
    assert started(made, tick(made, 101.0)) == ["s0"], "it had come up, so another one can"


def test_a_node_that_hangs_while_starting_is_killed_once():
    """Its end is a failed start with the limit in its reason."""
    made = launcher(nodes=1, start_s=5.0)
    assert tick(made, 5.0) == []
    assert tick(made, 5.1) == [
        c.Log(level="error", text="node n0 hangs while starting and is killed"),
        c.KillNode(node="n0"),
    ]
    assert tick(made, 6.0) == []
    ended(made, "n0", now=6.0)
    assert made.trouble == "n0 hung while starting and was killed after 5 s: it said nothing"
    assert started(made, tick(made, 6.0)) == ["s0"]


def test_a_node_that_is_up_may_take_any_time():
    """The limit is one of starting."""
    made = launcher(nodes=1, start_s=5.0)
    up(made, "n0")
    assert tick(made, 1e6) == []


def test_a_replacement_that_cannot_be_started_is_tried_again():
    """Under another name; the same reason is told once."""
    made = launcher(nodes=2, replace_delay_s=5.0)
    up(made, "n0", "n1")
    ended(made, "n1")
    assert tick(made, 0.0) == [c.StartNode(node="s0", domain="d1", spare=True)]
    trouble = "cannot start a node: No space left on device"
    failure = {"error": "No space left on device"}
    assert made.handle(e.NodeNotStarted(node="s0", **failure), 0.0) == [
        c.Log(level="error", text=trouble),
        c.TellTrouble(trouble=trouble),
    ]
    assert made.trouble == trouble
    assert tick(made, 4.9) == []
    assert tick(made, 5.0) == [c.StartNode(node="s1", domain="d1", spare=True)]
    assert made.handle(e.NodeNotStarted(node="s1", **failure), 5.0) == []
    assert started(made, tick(made, 10.0)) == ["s2"]


def test_whoever_asks_for_a_spare_may_ask_again():
    """A start that someone waits for is not tried again on its own."""
    made = launcher(nodes=1)
    up(made, "n0")
    made.handle(e.SpareRequested(domain="d1"), 0.0)
    assert made.handle(e.NodeNotStarted(node="s0", error="no memory"), 0.0) == []
    assert tick(made, 1e6) == []
    assert list(made.nodes) == ["n0"]


def test_a_killed_coordinator_is_started_again_at_once():
    """Its death says nothing about the next one."""
    made = launcher(nodes=1)
    assert made.handle(e.CoordinatorEnded(coordinator="c0", code=KILLED), 1.0) == [
        c.Log(level="info", text="coordinator c0 ended with -9, starting another")
    ]
    assert made.coordinator_due
    assert tick(made, 1.0) == [c.StartCoordinator(coordinator="c0", rank=0)]
    assert not made.coordinator_due


def test_a_coordinator_that_is_killed_too_often_ends_the_run():
    """Nodes are told, since nobody else can tell them."""
    made = launcher(nodes=1, restarts=RestartBudget(limit=2, window_s=60.0))
    for now in (1.0, 2.0):
        made.handle(e.CoordinatorEnded(coordinator="c0", code=KILLED), now)
        assert tick(made, now) == [c.StartCoordinator(coordinator="c0", rank=0)]
    why = "the coordinator ended 3 times, last with -9"
    assert made.handle(e.CoordinatorEnded(coordinator="c0", code=KILLED), 3.0) == [
        c.Log(level="info", text=f"given up: {why}"),
        c.TellTrouble(trouble=f"the run is given up: {why}"),
        c.TerminateNode(node="n0"),
        c.Finish(),
    ]
    assert made.given_up == why
    assert made.last_words == ()
    assert tick(made, 3.0) == []


def test_a_coordinator_that_fails_is_tried_ever_more_slowly():
    """Until its budget is used up; then the run ends with its last words."""
    budget = RestartBudget(limit=3, window_s=60.0, delay_s=0.5)
    made = launcher(nodes=1, coordinator_retries=budget)
    now = 0.0
    for delay_s in (0.0, 0.5, 1.0):
        (said,) = made.handle(
            e.CoordinatorEnded(coordinator="c0", code=FAILED, words=("OSError: full",)), now
        )
        assert said.text == "the coordinator ended with 1: OSError: full; trying again"
        assert made.trouble == said.text
        if delay_s:
            assert tick(made, now + delay_s - 0.01) == []
        now += delay_s
        assert tick(made, now) == [c.StartCoordinator(coordinator="c0", rank=0)]
    end = made.handle(
        e.CoordinatorEnded(coordinator="c0", code=FAILED, words=("OSError: full",)), now
    )
    assert made.given_up == "the coordinator ended with 1: OSError: full; 4 times in 60 s"
    assert end[-2:] == [c.TerminateNode(node="n0"), c.Finish()]
    assert made.last_words == ("OSError: full",)


def test_a_coordinator_that_cannot_be_started_is_tried_again():
    """On the same account as one that fails, without anybody's last words."""
    budget = RestartBudget(limit=1, window_s=60.0, delay_s=0.5)
    made = launcher(nodes=1, coordinator_retries=budget)
    made.handle(e.CoordinatorEnded(coordinator="c0", code=FAILED, words=("x",)), 0.0)
    assert tick(made, 0.0) == [c.StartCoordinator(coordinator="c0", rank=0)]
    made.handle(e.CoordinatorNotStarted(coordinator="c0", error="no memory"), 0.0)
    assert made.given_up == "the coordinator cannot be started: no memory; 2 times in 60 s"
    assert made.last_words == ()


def test_wrong_input_to_the_coordinator_ends_the_run_at_once():
    """A damaged journal does not mend itself."""
    made = launcher(nodes=1)
    end = made.handle(
        e.CoordinatorEnded(coordinator="c0", code=BAD_INPUT, words=("altered line",)), 0.0
    )
    assert made.given_up == "the coordinator ended with 2: altered line"
    assert end[-2:] == [c.TerminateNode(node="n0"), c.Finish()]


def test_a_coordinator_that_ends_the_run_takes_the_nodes_along():
    """Those that had not joined yet would wait for a coordinator in vain."""
    made = launcher(nodes=1, spares=1)
    up(made, "n0")
    assert made.handle(e.CoordinatorEnded(coordinator="c0", code=0), 0.0) == [
        c.TerminateNode(node="n0"),
        c.TerminateNode(node="s0"),
        c.Finish(),
    ]
    assert made.given_up is None
    for name in ("n0", "s0"):
        assert ended(made, name) == ending(name)
    assert tick(made, 100.0) == []


def test_after_the_end_of_restarts_nothing_is_started():
    """Neither what died before nor what dies after it."""
    made = launcher(nodes=2)
    up(made, "n0", "n1")
    ended(made, "n0")
    made.handle(e.CoordinatorEnded(coordinator="c0", code=KILLED), 0.0)
    assert made.handle(e.RestartsEnded(), 0.0) == []
    assert not made.coordinator_due
    assert tick(made, 0.0) == []
    assert ended(made, "n1", now=1.0) == ending("n1")
    assert made.handle(e.CoordinatorEnded(coordinator="c0", code=FAILED), 1.0) == []
    assert made.handle(e.CoordinatorNotStarted(coordinator="c0", error="x"), 1.0) == []
    assert tick(made, 100.0) == []
    assert made.given_up is None
    assert made.trouble is None


def test_a_coordinator_that_is_reached_hears_everything():
    """All ends, its own trouble, which is over, and that of the nodes or that there is none."""
    made = launcher(nodes=2)
    assert made.handle(e.CoordinatorReached(), 0.0) == [c.TellTrouble(trouble="")]
    ended(made, "n0", FAILED)
    made.handle(e.CoordinatorEnded(coordinator="c0", code=FAILED), 0.0)
    failed = "the coordinator ended with 1: it said nothing; trying again"
    assert made.trouble == failed
    nodes = "n0 ended with 1 before it could run anything: it said nothing"
    assert made.handle(e.CoordinatorReached(), 1.0) == [
        c.TellExited(node="n0", pid=pid("n0")),
        c.TellTrouble(trouble=failed),
        c.TellTrouble(trouble=nodes),
    ]
    assert made.trouble == nodes


def test_a_fence_kills_the_process_it_names():
    """Not a later one of the same name, nor one that ended, nor any if chaos forbids it."""
    made = launcher(nodes=1)
    assert made.handle(e.FenceOrdered(node="n0", pid=pid("n0")), 0.0) == [
        c.Log(level="info", text="fencing n0"),
        c.KillNode(node="n0"),
    ]
    assert made.handle(e.FenceOrdered(node="n0", pid=7), 0.0) == []
    ended(made, "n0")
    assert made.handle(e.FenceOrdered(node="n0", pid=pid("n0")), 0.0) == []
    unfenced = launcher(nodes=1, fence=False)
    assert unfenced.handle(e.FenceOrdered(node="n0", pid=pid("n0")), 0.0) == []


def test_what_is_remembered_of_ended_nodes_is_bounded():
    """The logs of the last ones are kept, and a coordinator is told of so many ends."""
    made = launcher(nodes=1, restarts=RestartBudget(limit=10_000, window_s=1e6))
    name, forgotten = "n0", []
    for index in range(MAX_EXITS + 10):
        up(made, name)
        forgotten += [x.node for x in ended(made, name) if isinstance(x, c.ForgetLogs)]
        (name,) = tick(made, float(index))
        made.handle(e.NodeStarted(node=name.node, pid=index), 0.0)
        name = name.node
    assert len(forgotten) == MAX_EXITS + 10 - ENDED_LOGS
    assert forgotten[:2] == ["n0", "s0"]
    assert len(made.handle(e.CoordinatorReached(), 0.0)) == MAX_EXITS + 1


@pytest.mark.parametrize(
    "event",
    [
        e.NodeStarted(node="n7", pid=1),
        e.NodeNotStarted(node="n7", error="x"),
        e.NodeUp(node="n7"),
        e.NodeEnded(node="n7", code=1),
    ],
)
def test_news_of_a_node_that_does_not_run_is_an_error(event):
    """The shell is wrong then, and going on would be guessing."""
    with pytest.raises(UnknownNodeError, match="no node n7 runs; there are: \\['n0'\\]"):
        launcher(nodes=1).handle(event, 0.0)


def test_a_node_cannot_end_before_it_was_started():
    """The coordinator could not be told which process it was."""
    made = Launcher(LaunchSettings(nodes=1))
    made.handle(e.LaunchBegan(), 0.0)
    with pytest.raises(UnknownNodeError, match="n0 ended before it was started"):
        ended(made, "n0")


def test_a_worker_that_is_asked_for_is_named_after_those_of_the_launch():
    """It is no spare."""
    made = launcher(nodes=2, spares=1)
    assert made.handle(e.WorkerRequested(domain="d1"), 1.0) == [
        c.StartNode(node="n2", domain="d1", spare=False)
    ]


def test_a_retired_node_ends_without_a_replacement():
    """The run goes on, and the coordinator is told that nothing failed, also a later one."""
    made = launcher(nodes=2)
    up(made, "n0", "n1")
    assert made.handle(e.RetireRequested(node="n1"), 1.0) == [
        c.Log(level="info", text="node n1 is not needed any more"),
        c.TerminateNode(node="n1"),
    ]
    assert made.handle(e.RetireRequested(node="n1"), 1.0) == []
    told = c.TellExited(node="n1", pid=pid("n1"), retired=True)
    got = ended(made, "n1", code=0, now=2.0)
    assert got == [told, c.Log(level="info", text="node n1 ended with 0")]
    assert tick(made, 60.0) == []
    assert told in made.handle(e.CoordinatorReached(), 60.0)
    ended(made, "n0", now=61.0)
    assert started(made, tick(made, 61.0)) == ["s0"]
    assert made.handle(e.RetireRequested(node="n7"), 62.0) == []
