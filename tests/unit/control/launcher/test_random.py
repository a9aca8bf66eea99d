"""The launcher in a random world: starts stay bounded, the end is final, a calm world heals."""

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.control.launcher import commands as c
from holdfast.control.launcher import events as e
from holdfast.control.launcher.machine import Launcher
from holdfast.control.launcher.settings import LaunchSettings
from holdfast.health.budget import RestartBudget
from holdfast.rundir.spec import BAD_INPUT

pytestmark = pytest.mark.unit

SETTINGS = LaunchSettings(
    nodes=2,
    spares=1,
    replace_delay_s=2.0,
    start_s=20.0,
    failed_starts=3,
    restarts=RestartBudget(limit=6, window_s=30.0),
    coordinator_retries=RestartBudget(limit=4, window_s=60.0, delay_s=0.5),
)
CODES = st.sampled_from([-9, 1, BAD_INPUT])


class LauncherWorld(RuleBasedStateMachine):
    """Processes that start, come up, die, or cannot be started."""

    def __init__(self):
        super().__init__()
        self.machine = Launcher(SETTINGS)
        self.now = 0.0
        self.pids = {}
        self.coming = set()
        self.coordinator = False
        self.out_of_memory = False
        self.finished = False
        self.stopped = False
        self.starts = []
        self.tell(e.LaunchBegan())

    def tell(self, event):
        events = [event]
        while events:
            for command in self.machine.handle(events.pop(0), self.now):
                events += self.carry_out(command)

    def carry_out(self, command):
        match command:
            case c.StartNode(node=name):
                assert not self.finished
                assert not self.stopped
                assert name not in self.pids
                self.starts.append(self.now)
                if self.out_of_memory:
                    return [e.NodeNotStarted(node=name, error="no memory")]
                self.pids[name] = 1000 + len(self.starts)
                self.coming.add(name)
                return [e.NodeStarted(node=name, pid=self.pids[name])]
            case c.StartCoordinator():
                assert not self.finished
                assert not self.stopped
                assert not self.coordinator
                if self.out_of_memory:
                    return [e.CoordinatorNotStarted(coordinator="c0", error="no memory")]
                self.coordinator = True
            case c.KillNode(node=name) | c.TerminateNode(node=name):
                assert name in self.pids
            case c.Finish():
                assert not self.finished, "the run ends once"
                self.finished = True
        return []

    @rule(step=st.sampled_from([0.01, 0.5, 3.0, 25.0]))
    def wait(self, step):
        self.now += step
        self.tell(e.Tick())

    @precondition(lambda self: self.coming)
    @rule(data=st.data())
    def comes_up(self, data):
        name = data.draw(st.sampled_from(sorted(self.coming)))
        self.coming.remove(name)
        self.tell(e.NodeUp(node=name))

    @precondition(lambda self: self.pids)
    @rule(data=st.data(), code=CODES)
    def dies(self, data, code):
        self.end(data.draw(st.sampled_from(sorted(self.pids))), code)

    def end(self, name, code):
        del self.pids[name]
        self.coming.discard(name)
        self.tell(e.NodeEnded(node=name, code=code, words=("why",)))

    @precondition(lambda self: self.coordinator)
    @rule(code=st.sampled_from([-9, 1]))
    def coordinator_dies(self, code):
        self.coordinator = False
        self.tell(e.CoordinatorEnded(coordinator="c0", code=code))

    @rule(scarce=st.booleans())
    def memory(self, scarce):
        self.out_of_memory = scarce

    @precondition(lambda self: self.coordinator)
    @rule()
    def reached(self):
        self.tell(e.CoordinatorReached())

    @precondition(lambda self: self.pids)
    @rule(data=st.data())
    def fenced(self, data):
        name = data.draw(st.sampled_from(sorted(self.pids)))
        self.tell(e.FenceOrdered(node=name, pid=self.pids[name]))

    @rule()
    @precondition(lambda self: self.now > 200)
    def no_more_restarts(self):
        self.tell(e.RestartsEnded())
        self.stopped = True

    @invariant()
    def agrees_with_the_world(self):
        assert set(self.machine.nodes) == set(self.pids)
        assert set(self.machine.coming()) == self.coming
        if self.machine.given_up is not None:
            assert self.finished

    @invariant()
    def starts_are_bounded(self):
        """In any window, no more than the first ones, the budget's, and those without memory."""
        recent = [at for at in self.starts if self.now - at < SETTINGS.restarts.window_s]
        without = 3 * SETTINGS.restarts.window_s / SETTINGS.replace_delay_s
        assert len(recent) <= 3 + 3 * (SETTINGS.restarts.limit + 1) + 3 * without

    def teardown(self):
        """Left alone with memory enough, the run has all its nodes again, or was given up."""
        self.out_of_memory = False
        for _ in range(12):
            self.now += 5.0
            self.tell(e.Tick())
            if self.coordinator:
                self.reached()
            for name in sorted(self.coming):
                self.coming.remove(name)
                self.tell(e.NodeUp(node=name))
        if self.finished or self.stopped:
            return
        assert self.pids, "a run that goes on has a node"
        assert self.coordinator
        assert "cannot" not in (self.machine.trouble or ""), "what passes is over"


TestLauncherWorld = LauncherWorld.TestCase
TestLauncherWorld.settings = hypothesis_settings(stateful_step_count=30)
