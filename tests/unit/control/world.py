"""A small world around the coordinator: nodes that answer commands, a clock, a checker.

Every step goes through `World.do`, which checks all invariants and the commands, so no test can
forget to.
"""

from dataclasses import dataclass, field, replace

from holdfast.control import commands as c
from holdfast.control import events as e
from holdfast.control.coordinator import Coordinator
from holdfast.control.facts import Fact
from holdfast.control.invariants import broken_commands, validate
from holdfast.deployment import UnitId
from holdfast.health.budget import RestartBudget
from holdfast.health.heartbeat import HeartbeatPolicy
from holdfast.health.policy import Policy
from holdfast.health.stall import StallPolicy

A, B, C = (UnitId(segment=name) for name in "abc")
FULL = "Traceback\nOSError: [Errno 28] No space left on device: 'x'"
"""What a unit says that finds no room to write."""

POLICY = Policy(
    workers=1,
    max_units_per_node=3,
    heartbeat=HeartbeatPolicy(kind="fixed", timeout_s=3.0),
    stall=StallPolicy(stall_s=5.0, batches=5.0, first_batch_s=20.0),
    start_timeout_s=15.0,
    disconnect_grace_s=0.5,
    reconnect_s=6.0,
    pause_s=1.0,
    retries=RestartBudget(limit=2, window_s=60.0, delay_s=1.0),
    crashes=RestartBudget(limit=20, window_s=60.0, delay_s=0.0),
)


@dataclass
class FakeNode:
    """A node process as the coordinator meets it."""

    node: str
    incarnation: str
    domain: str
    spare: bool
    pid: int
    connected: bool = True
    hung: bool = False
    units: dict[UnitId, e.UnitReport] = field(default_factory=dict)


class World:
    """The coordinator under test and the nodes it commands."""

    reads: dict[str, tuple[str, ...]] | None = None
    """Segment to those that it reads; None: no matter."""

    def __init__(self, units=(A, B), policy=POLICY, launch="L1", open_=True):
        self.units = units
        self.policy = policy
        self.now = 100.0
        self.count = 0
        self.journal: list[Fact] = []
        self.nodes: dict[str, FakeNode] = {}
        self.log: dict[UnitId, int] = dict.fromkeys(units, -1)
        self.launch = launch
        self.coordinator = self.new_coordinator()
        if open_:
            self.do(e.LaunchOpened(cause=self.cause(), launch=launch))

    def new_coordinator(self):
        return Coordinator(pipeline="p", units=self.units, policy=self.policy, reads=self.reads)

    def cause(self):
        self.count += 1
        return f"e{self.count}"

    def do(self, event):
        """Handle one event, check everything, journal the facts, give the commands to nodes."""
        before = {name: unit.generation for name, unit in self.coordinator.state.units.items()}
        got = self.coordinator.handle(event, self.now)
        validate(self.coordinator)
        assert broken_commands(self.coordinator, got, before) == []
        assert all(
            (command.fact.cause if isinstance(command, c.Record) else command.cause) == event.cause
            for command in got
        )
        self.journal += [command.fact for command in got if isinstance(command, c.Record)]
        for command in got:
            self._carry_out(command)
        return got

    def _carry_out(self, command):
        if isinstance(command, c.StartUnit):
            node = self.nodes[command.node]
            known = node.units.get(command.unit)
            if known is None or known.generation < command.generation:
                node.units[command.unit] = e.UnitReport(
                    unit=command.unit, generation=command.generation, state="starting"
                )
        elif isinstance(command, c.StopUnit):
            node = self.nodes[command.node]
            known = node.units.get(command.unit)
            if known is not None and known.generation == command.generation:
                del node.units[command.unit]

    def join(self, node, *, domain="d0", spare=False, incarnation=None):
        incarnation = incarnation or f"{node}-{self.count}"
        fake = FakeNode(node, incarnation, domain, spare, pid=1000 + self.count)
        self.nodes[node] = fake
        return self.hello(node)

    def hello(self, node):
        fake = self.nodes[node]
        fake.connected = True
        return self.do(
            e.NodeHello(
                cause=self.cause(),
                node=node,
                incarnation=fake.incarnation,
                launch=self.launch,
                domain=fake.domain,
                spare=fake.spare,
                pid=fake.pid,
                reports=tuple(fake.units.values()),
            )
        )

    def beat(self, node, **more):
        """One heartbeat with the state of the node's units, and what else it is to say."""
        fake = self.nodes[node]
        return self.do(
            e.Heartbeat(
                cause=self.cause(),
                node=node,
                incarnation=fake.incarnation,
                reports=tuple(fake.units.values()),
                **more,
            )
        )

    def run(self, node):
        """The node's starting units run, and each running unit publishes one epoch; then a beat."""
        fake = self.nodes[node]
        for unit, report in list(fake.units.items()):
            if report.state == "starting":
                log = self.log.setdefault(unit, -1)
                fake.units[unit] = replace(report, state="running", epoch=log, batch=log)
            elif report.state == "running":
                self.log[unit] = self.log.get(unit, -1) + 1
                fake.units[unit] = replace(
                    report, epoch=self.log[unit], batch=self.log[unit], waiting=0
                )
        return self.beat(node)

    def set(self, node, unit, **changes):
        fake = self.nodes[node]
        fake.units[unit] = replace(fake.units[unit], **changes)

    def disconnect(self, node):
        fake = self.nodes[node]
        fake.connected = False
        return self.do(
            e.NodeDisconnected(cause=self.cause(), node=node, incarnation=fake.incarnation)
        )

    def exit(self, node):
        fake = self.nodes.pop(node)
        return self.do(e.NodeExited(cause=self.cause(), node=node, pid=fake.pid))

    def tick(self, seconds=0.0):
        self.now += seconds
        return self.do(e.Tick(cause=self.cause()))

    def advance(self, seconds, *, silent=(), step=0.5):
        """Time passes; all connected nodes but the silent ones send heartbeats."""
        got = []
        end = self.now + seconds
        while self.now < end - 1e-9:
            self.now = min(end, self.now + step)
            for node, fake in list(self.nodes.items()):
                known = self.coordinator.state.nodes.get(node)
                if fake.connected and node not in silent and known is not None:
                    got += self.beat(node)
            got += self.do(e.Tick(cause=self.cause()))
        return got

    def restart_coordinator(self):
        """Kill the coordinator and start one from the journal."""
        self.coordinator = self.new_coordinator()
        self.coordinator.replay(None, self.journal)
        for fake in self.nodes.values():
            fake.connected = False
        return self.do(e.LaunchOpened(cause=self.cause(), launch=self.launch))

    def phase(self, unit):
        return self.coordinator.state.unit(unit).phase

    def where(self, unit):
        return self.coordinator.state.unit(unit).node

    def all_running(self):
        return all(unit.phase == "running" for unit in self.coordinator.state.units.values())


def recoveries(world, unit):
    """All of one unit, oldest first."""
    return [r for r in world.coordinator.state.recoveries if r.unit == unit]


def facts(commands):
    """Names of the facts among commands, in order."""
    return [command.fact.kind for command in commands if isinstance(command, c.Record)]


def acts(commands):
    """What is to be done, without facts, as short tuples."""
    short = []
    for command in commands:
        match command:
            case c.StartUnit():
                short.append(
                    ("start", str(command.unit), command.generation, command.node)
                    + ((command.clone_from,) if command.clone_from is not None else ())
                )
            case c.StopUnit():
                short.append(("stop", str(command.unit), command.generation, command.node))
            case c.Dismiss():
                short.append(("dismiss", command.node, command.reason))
            case c.Fence():
                short.append(("fence", command.node, command.pid))
            case c.PutFork():
                short.append(("put fork", command.fork))
            case c.EndFork():
                short.append(("end fork", command.fork))
            case c.Finish():
                short.append(("finish",))
    return short


def started(
    nodes=("n0", "n1"), spares=("s0",), units=(A, B), policy=None, domains=None, world=World
):
    """A world in which all units run and have published up to epoch 2."""
    policy = policy or replace(POLICY, workers=len(nodes))
    world = world(units=units, policy=policy)
    domains = domains or {}
    for node in nodes:
        world.join(node, domain=domains.get(node, "d0"))
    for node in spares:
        world.join(node, domain=domains.get(node, "d1"), spare=True)
        world.beat(node)
    for _ in range(4):
        world.now += 0.25
        for node in (*nodes, *spares):
            world.run(node)
    assert world.all_running()
    assert set(world.log.values()) == {2}
    return world
