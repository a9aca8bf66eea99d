"""Seeded random orders of events around the coordinator, plausible and hostile ones mixed."""

from dataclasses import replace

import numpy as np
from tests.unit.control.world import POLICY, World

from holdfast.control import events as e
from holdfast.deployment import UnitId

ACTIONS = (
    "run",
    "run",
    "run",
    "tick",
    "tick",
    "join",
    "fail",
    "disconnect",
    "hello",
    "exit",
    "hang",
    "stall",
    "lose_command",
    "restart",
    "kill",
    "retry",
    "old_beat",
    "pause",
    "trouble",
)


def random_world(seed, steps, *, units=3, followers=0):
    """A world after `steps` random events; every step is checked by the world itself."""
    rng = np.random.default_rng(seed)
    names = tuple(UnitId(segment=f"u{index}") for index in range(units))
    names += tuple(replace(unit, replica=1) for unit in names[:followers])
    world = World(units=names, policy=POLICY)
    graveyard = []
    joined = 0
    for _ in range(steps):
        world.now += _pick(rng, (0.0, 0.05, 0.3, 0.9))
        action = _pick(rng, ACTIONS)
        known = sorted(world.nodes)
        node = _pick(rng, known) if known else None
        if action == "join" or node is None:
            world.join(f"n{joined}", domain=f"d{joined % 3}", spare=bool(rng.random() < 0.3))
            joined += 1
            continue
        joined += _act(world, action, node, rng, graveyard, joined)
    return world


def _pick(rng, options):
    """As `rng.choice`, which would make an array of the options every time."""
    return options[int(rng.integers(len(options)))]


def settle(world, joined):
    """Fair weather: enough nodes, time passes, failures end; then everything must run."""
    for index in range(3):
        world.join(f"z{joined + index}", domain=f"z{index}")
    for _ in range(600):  # limits that were doubled take their time
        state = world.coordinator.state
        if world.all_running() and all(r.outcome != "open" for r in state.recoveries):
            return
        for unit in list(state.units.values()):
            if unit.phase == "held":
                world.do(e.RetryRequested(cause=world.cause(), unit=unit.unit))
        world.now += 0.25
        for node, fake in list(world.nodes.items()):
            if node not in world.coordinator.state.nodes:
                del world.nodes[node]
            elif not fake.connected or not world.coordinator.vitals.is_connected(node):
                world.hello(node)
            else:
                for unit, report in list(fake.units.items()):
                    if report.state in ("failed", "stopped"):
                        del fake.units[unit]
                world.run(node)
        world.tick()


def _act(world, action, node, rng, graveyard, joined):
    fake = world.nodes[node]
    units = sorted(fake.units)
    unit = _pick(rng, units) if units else None
    match action:
        case "run" if fake.connected and not fake.hung:
            world.run(node)
        case "fail" if unit is not None:
            world.set(node, unit, state="failed", operator="op", error="boom")
            world.beat(node)
        case "stall" if unit is not None:
            world.set(node, unit, waiting=5)
            world.advance(float(rng.uniform(1, 8)), silent=[])
        case "disconnect":
            world.disconnect(node)
        case "hello":
            world.hello(node)
        case "exit":
            graveyard.append(fake)
            world.exit(node)
        case "hang":
            world.advance(float(rng.uniform(0.5, 5)), silent=[node])
        case "lose_command" if unit is not None:
            del fake.units[unit]
        case "restart":
            world.restart_coordinator()
        case "kill":
            world.do(e.KillRequested(cause=world.cause(), node=node))
        case "retry":
            world.do(e.RetryRequested(cause=world.cause(), unit=world.units[0]))
        case "old_beat" if graveyard:
            ghost = _pick(rng, graveyard)
            world.do(
                e.Heartbeat(
                    cause=world.cause(),
                    node=ghost.node,
                    incarnation=ghost.incarnation,
                    reports=tuple(ghost.units.values()),
                )
            )
        case "trouble":
            trouble = _pick(rng, ("", "no room"))
            world.do(e.LauncherTroubled(cause=world.cause(), trouble=trouble))
            assert world.coordinator.state.run.trouble == trouble
        case "pause":
            world.tick(float(rng.uniform(1, 100)))
        case _:
            world.tick()
    return 0
