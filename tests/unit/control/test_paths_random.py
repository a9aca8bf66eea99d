"""Splits under random schedules: whatever fails in whatever order, the active path ends up running.

Every step is checked by the world: units of splits alone on their nodes, an active path with a
closed breaker, no unit started twice, and a journal that gives the same state back.
"""

import numpy as np
import pytest
from tests.unit.control.test_hot_paths import HotWorld
from tests.unit.control.test_paths import SplitWorld

pytestmark = pytest.mark.unit

STEPS = 60


class NestedWorld(SplitWorld):
    """A path that splits again is two in its place of the order."""

    paths = ("model/exact", "model/fast", "rules")


class Chance:
    """One schedule of faults, drawn from a seed."""

    def __init__(self, seed, world=None, *, workers=2, spares=1):
        self.rng = np.random.default_rng(seed)
        self.world = world or SplitWorld()
        self.workers, self.places = workers, workers + spares
        self.joined = 0
        for _ in range(self.places):
            self.join()
        self.world.all_run(6)

    def join(self):
        self.world.join(f"m{self.joined}", spare=self.joined >= self.workers)
        self.joined += 1

    def pick(self, items):
        found = list(items)
        return found[int(self.rng.integers(len(found)))] if found else None

    def step(self):
        world = self.world
        live = [name for name in world.nodes if name in world.coordinator.state.nodes]
        match int(self.rng.integers(10)):
            case 0 | 1:
                world.all_run(int(self.rng.integers(1, 6)))
            case 2:
                self.fail()
            case 3:
                if (node := self.pick(live)) is not None:
                    world.exit(node)
                    self.join()
            case 4:
                if (path := self.pick(world.probes)) is not None and world.probes[
                    path
                ].node in live:
                    world.ended(path, good=bool(self.rng.integers(2)))
            case 5:
                self.restart()
            case 6:
                world.answers = bool(self.rng.integers(4))
            case 7:
                world.ask(self.pick(["open", "close", "prefer"]), self.pick(world.paths))
            case 8:
                world.advance(float(self.rng.uniform(0.5, 8.0)))
            case 9:
                if (node := self.pick(live)) is not None:
                    world.now += 0.3
                    world.beat(node, suspended=1)

    @property
    def failing(self):
        """Segments that fail now: of hot paths, one of them."""
        if not isinstance(self.world, HotWorld):
            return ("score",)
        return (self.pick(("score.model", "score.rules")),)

    def fail(self):
        for node, fake in self.world.nodes.items():
            for unit, told in fake.units.items():
                if unit.segment in self.failing and told.state == "running":
                    self.world.set(node, unit, state="failed", error="ValueError: no")
                    if node in self.world.coordinator.state.nodes:
                        self.world.beat(node)
                    if fake.units[unit].state == "failed":  # else it was started anew at once
                        del fake.units[unit]
                    return

    def restart(self):
        world = self.world
        world.succeed()
        for name in list(world.nodes):
            if name in world.coordinator.state.nodes:
                world.hello(name)
            else:
                del world.nodes[name]

    def heal(self):
        """Faults are over, and a person closes what is open."""
        world = self.world
        world.answers = True
        for path in world.paths:
            world.ask("close", path)
        world.ask("prefer", "")
        for name in list(world.nodes):
            if name not in world.coordinator.state.nodes:
                del world.nodes[name]
        while len(world.nodes) < self.places:
            self.join()
        for _ in range(80):
            world.now += 0.5
            for name in list(world.nodes):
                if name in world.coordinator.state.nodes:
                    world.run(name)
            world.tick()
            for path in [p for p, probe in world.probes.items() if probe.node in world.nodes]:
                world.ended(path, good=True)


def healed(chance):
    """Of which segments a unit runs after a schedule and its end."""
    for _ in range(STEPS):
        chance.step()
    chance.heal()
    world = chance.world
    assert world.split.active == world.split.carried == world.paths[0]
    assert world.all_running()
    assert world.coordinator.state.unit(world.records.unit) is not None
    return sorted(unit.unit.segment for unit in world.coordinator.state.units.values())


@pytest.mark.sample(seed=set(range(8)))
@pytest.mark.parametrize("seed", range(40))
def test_the_active_path_runs_in_the_end(seed):
    """And nothing else of its split does."""
    assert healed(Chance(seed)) == ["score", "src"]


@pytest.mark.sample(seed=set(range(8)))
@pytest.mark.parametrize("seed", range(40))
def test_of_nested_paths_the_first_runs_in_the_end(seed):
    """However many of them were down at once, and whichever came back first."""
    assert healed(Chance(seed, NestedWorld(), spares=seed % 3)) == ["score", "src"]


@pytest.mark.sample(seed=set(range(8)))
@pytest.mark.parametrize("seed", range(40))
def test_hot_paths_all_run_in_the_end(seed):
    """And what takes their rows takes those of the first."""
    chance = Chance(seed, HotWorld(), workers=3, spares=2)
    assert healed(chance) == ["score", "score.model", "score.rules", "src"]
