"""The coordinator keeps its invariants under any order of events, and repairs what it can."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.control.random_world import random_world, settle
from tests.unit.control.world import POLICY, World

from holdfast.control import events as e
from holdfast.control.coordinator import Coordinator
from holdfast.control.view import view
from holdfast.deployment import UnitId

pytestmark = pytest.mark.unit

UNITS = tuple(UnitId(segment="s", shard=shard) for shard in range(4))


@pytest.mark.sample(block=0)
@pytest.mark.parametrize("block", range(10))
def test_a_thousand_random_orders_keep_the_invariants_and_heal(block):
    """1,000 seeds of 40 events, checked after each; in fair weather all units then run again."""
    for seed in range(block * 100, block * 100 + 100):
        world = random_world(seed, steps=40)
        settle(world, joined=1000)
        assert world.all_running(), f"seed {seed}: {world.coordinator.state.units}"
        open_ = [r for r in world.coordinator.state.recoveries if r.outcome == "open"]
        assert open_ == [], f"seed {seed}: {open_}"


class CoordinatorMachine(RuleBasedStateMachine):
    """Nodes that join, hang, break, die and come back in any order."""

    @initialize()
    def begin(self):
        self.world = World(units=UNITS, policy=POLICY)
        self.joined = 0

    def node(self, data):
        return data.draw(st.sampled_from(sorted(self.world.nodes)))

    @rule(domain=st.sampled_from(["d0", "d1"]), spare=st.booleans())
    def join(self, domain, spare):
        if len(self.world.nodes) < 6:
            self.world.join(f"n{self.joined}", domain=domain, spare=spare)
            self.joined += 1

    @precondition(lambda self: self.world.nodes)
    @rule(data=st.data())
    def run(self, data):
        self.world.run(self.node(data))

    @rule(seconds=st.floats(0.01, 8.0), data=st.data())
    def time_passes(self, seconds, data):
        names = sorted(self.world.nodes)
        silent = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
        self.world.advance(seconds, silent=silent)

    @rule(seconds=st.floats(0.0, 100.0))
    def pause(self, seconds):
        self.world.tick(seconds)

    @precondition(lambda self: self.world.nodes)
    @rule(data=st.data())
    def break_connection(self, data):
        self.world.disconnect(self.node(data))

    @precondition(lambda self: self.world.nodes)
    @rule(data=st.data())
    def connect_again(self, data):
        self.world.hello(self.node(data))

    @precondition(lambda self: self.world.nodes)
    @rule(data=st.data())
    def die(self, data):
        self.world.exit(self.node(data))

    @precondition(lambda self: self.world.nodes)
    @rule(data=st.data(), state=st.sampled_from(["failed", "stopped", "starting", "running"]))
    def report(self, data, state):
        node = self.node(data)
        units = sorted(self.world.nodes[node].units)
        if units:
            self.world.set(node, data.draw(st.sampled_from(units)), state=state, error="boom")
            self.world.beat(node)

    @precondition(lambda self: self.world.nodes)
    @rule(data=st.data(), unit=st.sampled_from(UNITS), generation=st.integers(0, 9))
    def claim_anything(self, data, unit, generation):
        # A placement is journaled before its start is sent, so none is newer than the journal says.
        # (One that were, and were told to stop just when its number is handed out, would be stopped
        # and started in one breath.)
        given = min(generation, self.world.coordinator.state.unit(unit).generation)
        fake = self.world.nodes[self.node(data)]
        fake.units[unit] = e.UnitReport(unit=unit, generation=given, state="running")
        self.world.beat(fake.node)

    @rule(unit=st.sampled_from(UNITS))
    def retry(self, unit):
        self.world.do(e.RetryRequested(cause="retry", unit=unit))

    @rule()
    def restart(self):
        before = self.world.coordinator.state
        self.world.coordinator = Coordinator(pipeline="p", units=UNITS, policy=POLICY)
        self.world.coordinator.replay(None, self.world.journal)
        assert self.world.coordinator.state == before
        self.world.do(e.LaunchOpened(cause="again", launch="L1"))
        for fake in self.world.nodes.values():
            fake.connected = False

    @rule()
    def relaunch(self):
        self.world.launch = f"L{self.joined}-{self.world.count}"
        self.world.do(e.LaunchOpened(cause="relaunch", launch=self.world.launch))

    @rule()
    def stop(self):
        self.world.do(e.StopRequested(cause="stop"))

    @invariant()
    def a_view_can_always_be_made(self):
        shown = view(self.world.coordinator, self.world.now)
        assert len(shown.units) == len(UNITS)


TestCoordinator = CoordinatorMachine.TestCase
TestCoordinator.settings = settings(stateful_step_count=30)
