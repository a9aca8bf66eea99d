"""Streams that change hands: the production decisions under every interleaving we can think of."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.streams.on_disk import OnDisk

from holdfast.testing.hands import World, draw
from holdfast.testing.hands.mutants import MUTANTS, violation

pytestmark = pytest.mark.unit

SAMPLE = 96
"""Worlds that `make chaos` looks at, the first 24 of them in `make test`; `make bench`: 100,000."""
MUTANT_WORLDS = 600
"""Worlds in which a missing rule must show."""


@pytest.mark.sample(first=0)
@pytest.mark.parametrize("first", range(0, SAMPLE, 24))
def test_every_row_arrives_once_whatever_happens(first):
    """Crashes, sleepers, two coordinators, nested changes, trimming: sinks get the exact rows."""
    seen = 0
    for seed in range(first, first + 24):
        world = World(seed)
        world.run()
        seen += world.count["published"]
        assert all(sink.end == world.scenario.epochs - 1 for sink in world.sinks.values())
    assert seen > 0


@pytest.mark.parametrize("seed", [27_934, 213_531, 320_634, 411_675, 503_443, 2_066_639, 4_048_212])
def test_worlds_that_failed_once_are_right(seed):
    """Units ran while others took their state over; a sink of an old life delivered late; a
    stream was left after all its slices were read and gone; where a unit was born was asked
    after those whose state it has were forgotten; heirs that had not run were left, and what they
    had taken over was made again from older state; units with other cuts were rescaled before they
    had come to where they carry on.
    """
    World(seed).run()


def test_the_documentation_lists_every_rule():
    """The table of rules and of what breaks without them is that of the model."""
    page = (Path(__file__).parents[3] / "docs" / "concepts" / "streams.md").read_text()
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")]
    assert sorted(rows[1:]) == sorted(mutant.rule for mutant in MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule.replace(" ", "-"))
def test_a_rule_that_is_switched_off_is_missed(mutant):
    """In one and the same world all is well with the rule, and something breaks without it.

    The first world shows it, until a change of the decisions moves their operations; then one of
    those that follow does, and a warning names its seed: with it noted, the test is short again.
    """
    worlds = itertools.islice(mutant.scenarios(itertools.count(mutant.seed)), MUTANT_WORLDS)
    shown = next(found for found in worlds if violation(mutant, *found) is not None)
    seed, scenario = shown
    World(seed, scenario=scenario).run()
    if seed != next(mutant.scenarios(itertools.count(mutant.seed)))[0]:
        warnings.warn(f"{mutant.rule}: note seed={seed:_}", stacklevel=1)


@pytest.mark.parametrize("seed", [1, 2])
def test_records_on_disk_decide_the_same(seed, tmp_path):
    """Every operation on a folder gives what it gives in memory, encoding included."""
    scenario = replace(draw(seed), epochs=4, pace=0.02)
    world = World(seed, scenario=scenario, memory=OnDisk(tmp_path))
    world.run()
    assert world.count["published"] > 0
    assert any(tmp_path.rglob("slices/*"))
