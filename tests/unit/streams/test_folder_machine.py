"""Streams that change hands on a real folder, step by step as hypothesis chooses.

The records are files that `rundir/records.py` writes and reads; units, coordinators and those
who trim are the ones of the model. Every rule lets one of them do some operations, stops it just
before it puts something (it may do so much later), crashes it, or starts another in its place.
Now and then the run is ended, but for some units that nobody could reach, and started again with an
operator reset, a sink added, or other units in place of those that carried a stream; whoever starts
it may be crashed at any step. Sinks check every batch they get, and when all is done everything
must have arrived.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.unit.streams.on_disk import OnDisk

from holdfast.errors import HoldfastError
from holdfast.streams.floors import Floors
from holdfast.streams.steps import Put, RaiseFloor
from holdfast.testing.hands import Violation, World, draw, rules
from holdfast.testing.hands.schedule import Running
from holdfast.testing.hands.starts import STARTER

pytestmark = pytest.mark.unit

MOST_CHANGES = 5
MOST_RESTARTS = 3
WITH_PATHS = next(seed for seed in range(100) if draw(seed).shared)
WITHOUT = next(seed for seed in range(100) if "N" not in draw(seed).segments)


class Folder(RuleBasedStateMachine):
    """Any order of operations, crashes, sleepers, late puts, changes and trims."""

    protocol = Floors

    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.mkdtemp(prefix="holdfast-folder-")

    @initialize(shape=st.sampled_from([WITH_PATHS, WITHOUT]), seed=st.integers(0, 9))
    def begin(self, shape, seed):
        quiet = {"faults": 0.0, "gap_faults": 0.0, "epochs": 4, "damaged": "", "coordinators": 0}
        drawn = draw(shape, restarts=True)
        scenario = replace(drawn, **quiet, strides=(1, 2), trim=False, survivors=0.5)
        self.world = World(
            seed, scenario=scenario, memory=OnDisk(self.root), protocol=self.protocol
        )
        self.world.restarts_left = 0  # it is restarted when a rule says so, and not by itself
        self.world.run_missing()
        self.changes, self.restarts, self.start_crashed = 0, 0, False

    def one(self, index):
        processes = self.world.processes
        return processes[index % len(processes)]

    @rule(index=st.integers(0, 60), operations=st.integers(5, 80))
    def go_on(self, index, operations):
        """Somebody does something, also one that others have given up."""
        if self.world.processes:
            self.world.go_on(self.one(index), operations)

    @rule()
    def everybody(self):
        """All that run do a little."""
        for process in list(self.world.processes):
            if not process.given_up:
                self.world.go_on(process, 25)

    @rule()
    def time_passes(self):
        self.world.next_epoch()

    @rule(index=st.integers(0, 60), kind=st.sampled_from([Put, RaiseFloor]))
    def stopped_before(self, index, kind):
        """Somebody is stopped just before others would see what it does, and given up."""
        if self.world.processes:
            process = self.one(index)
            self.world.go_on(process, 60, stop_before=kind)
            process.given_up = True

    @rule(index=st.integers(0, 60))
    def crashed(self, index):
        if self.world.processes:
            process = self.one(index)
            self.start_crashed |= process.name.startswith(STARTER)
            self.world.end(process)
            process.steps.close()

    @rule()
    def restarted(self):
        """Whoever is missing, or was given up, is started anew."""
        self.world.run_missing()

    @precondition(lambda self: self.restarts < MOST_RESTARTS and not self.is_starting())
    @rule(chance=st.integers(0, 10_000))
    def begun_anew(self, chance):
        """The run ends and is started with something that begins anew or is taken over."""
        self.restarts += 1
        self.world.rng.seed(chance)
        self.world.restarts_left = 1
        self.world.restart()

    @precondition(lambda self: self.is_starting())
    @rule(operations=st.integers(1, 60))
    def start_goes_on(self, operations):
        """Whoever starts the run does something; if it was crashed, the next one does."""
        self.see_it_started()
        self.world.go_on(self.starters()[0], operations)

    def starters(self):
        return [item for item in self.world.processes if item.name.startswith(STARTER)]

    def is_starting(self):
        """Whether the run is being started: nobody trims or changes anything meanwhile."""
        return self.start_crashed or bool(self.starters())

    def see_it_started(self):
        if self.start_crashed:
            self.start_crashed = False
            self.world.replace(STARTER)

    @precondition(lambda self: self.changes < MOST_CHANGES and not self.is_starting())
    @rule(stream=st.sampled_from(["s0", "k", "j", "j"]), halt=st.booleans())
    def changed(self, stream, halt):
        """Another coordinator wants a change; several may be at it."""
        if stream in self.world.streams:
            self.changes += 1
            self.world.start(Running("asked", self.world.one_change(stream, halt=halt)))

    @precondition(lambda self: not self.is_starting())
    @rule(index=st.integers(0, 60), at_once=st.booleans())
    def trimmed(self, index, at_once):
        """Somebody begins to trim what a unit owns; it may never come to an end."""
        units = list(self.world.units)
        process = Running("trimmer", self.world.one_trim(units[index % len(units)]))
        self.world.start(process)
        self.world.go_on(process, 200 if at_once else 12)

    def teardown(self):
        try:
            if hasattr(self, "world"):
                self.see_it_started()
                self.world.calm_down()
                last = self.world.scenario.epochs - 1
                assert all(sink.end == last for sink in self.world.sinks.values())
        finally:
            shutil.rmtree(self.root)


def _settings(examples):
    return settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.slow
def test_any_order_of_operations_on_a_folder_is_exact():
    """Whatever happens between two operations on files, sinks get every row once."""
    run_state_machine_as_test(Folder, settings=_settings(10))


class AnyEndCounts(Folder):
    """An end of one log is taken for an end of the stream."""

    protocol = rules.AnyEnd


def test_a_rule_that_is_missing_shows_on_a_folder():
    """The machine is not blind: without a rule, some order of operations breaks."""
    with pytest.raises((Violation, HoldfastError)):
        run_state_machine_as_test(AnyEndCounts, settings=_settings(60))


@pytest.mark.full
def test_many_orders_of_operations_on_a_folder_are_exact():
    """The same for longer."""
    run_state_machine_as_test(Folder, settings=_settings(100))
