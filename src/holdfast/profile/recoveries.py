"""How long this machine takes to notice a dead node and to run its unit elsewhere.

A small reference pipeline runs on a node of its own and is killed: with a warm spare beside it, and
without one. The time of restoring goes up to the first slice that the new generation publishes,
less what a slice takes anyhow, because first batches are slow and somebody has to count that; and
less the time for which the unit ran and nothing was due. The source is a thread and is timed apart.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import psutil

from holdfast.control.status import RecoveryView, RunView
from holdfast.deployment import Deployment, UnitId
from holdfast.health.policy import Policy
from holdfast.pipeline import deploy, load_pipeline
from holdfast.predict.statistics import REFERENCE_QUERIES, MachineStatistics, Measure
from holdfast.profile import estimate
from holdfast.profile.cpu import load_average, sessions_cpu
from holdfast.rundir.spec import RunSpec
from holdfast.runtime.launch.local import LaunchSettings
from holdfast.runtime.launch.run import DeadlineError, LocalRun, all_running
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.streams.steps import slices

Say = Callable[[str], None]

APP = "holdfast.profile.spark.reference:pipeline"
UNIT = UnitId(segment="count")
SOURCE = UnitId(segment="rows")
STEADY_EPOCHS = 16
WAIT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """One kill and what followed, seconds."""

    detection: float
    restore: float
    first_batch: float
    """What of the restore came after the unit ran."""
    restore_thread: float
    waited: bool
    """Whether nothing was due yet when the unit ran, so that its first batch was in no hurry."""
    takeover_cpu: float = 0.0
    """Cores that each of the node's queries kept busy until it had published."""
    refill: float | None = None
    """Until another spare was warm; None if there are no spares."""


def measure_recoveries(
    known: MachineStatistics, folder: Path, *, say: Say, warm: int = 6, cold: int = 3
) -> MachineStatistics:
    """Detection, restoring with and without a spare, and refilling; what fails stays as known."""
    killed: dict[str, list[Killed]] = {"warm": [], "cold": []}
    spare_bytes: list[int] = []
    for kind, kills, spares in (("warm", warm, 1), ("cold", cold, 0)):
        say(f"killing a node {kills} times {'with' if spares else 'without'} a spare")
        try:
            with _Victim(folder / kind, spares, known) as victim:
                for _ in range(kills):
                    killed[kind].append(victim.kill())
                    spare_bytes += victim.spare_bytes()
        except DeadlineError as error:
            say(f"recoveries {kind}: {error}")
    return _with_recoveries(known, killed["warm"], killed["cold"], spare_bytes)


def _with_recoveries(
    known: MachineStatistics,
    warm: Sequence[Killed],
    cold: Sequence[Killed],
    spare_bytes: Sequence[int],
) -> MachineStatistics:
    load = load_average()
    found: dict[str, Any] = {}
    if warm or cold:
        found["detection"] = estimate.duration(
            [one.detection for one in (*warm, *cold)], f"kill -9 of a node until known, {load}"
        )
        found["restore_thread"] = estimate.duration(
            [one.restore_thread for one in warm] or [one.restore_thread for one in cold],
            f"until the source has published, {load}",
        )
    state_s = known.state_read.fixed.value  # of next to no state, which a plan counts by itself
    if warm:
        telling = [one for one in warm if not one.waited] or warm
        found["restore_warm"] = estimate.duration(
            [max(0.0, one.restore - state_s) for one in telling],
            f"until a unit on a warm spare has published, less a usual batch, {load}",
        )
        found["takeover_cpu"] = estimate.mean(
            [one.takeover_cpu for one in warm],
            f"CPU time of a warm spare until all had caught up, over that of a restore, {load}",
        )
        found["first_batch"] = estimate.duration(
            [max(0.0, one.first_batch - state_s) for one in telling],
            f"the part of that after the unit was seen to run, {load}",
        )
    refills = [one.refill for one in warm if one.refill is not None]
    if refills:
        found["refill"] = estimate.duration(refills, f"kill until another spare is warm, {load}")
    if cold:
        found["restore_cold"] = estimate.duration(
            [max(0.0, one.restore - state_s) for one in cold],
            f"until a unit on a new node has published, less a usual batch, {load}",
        )
    if spare_bytes:
        per_core = psutil.virtual_memory().total / known.cores
        middle = statistics.median(spare_bytes)
        found["spare_cost"] = Measure(
            value=middle / per_core,
            samples=len(spare_bytes),
            how=f"{middle / 1e6:.0f} MB resident at {per_core / 1e9:.1f} GB a core",
        )
    return replace(known, **found)


class _Victim:
    """The reference pipeline on one node."""

    def __init__(self, run_dir: Path, spares: int, machine: MachineStatistics) -> None:
        deployment: Deployment = deploy(load_pipeline(APP))
        spec = RunSpec(app=APP, host="spark", deployment=deployment, policy=Policy(workers=1))
        self._spares = spares
        self._usual_s = usual_batch(machine)
        self._epoch_s = deployment.epoch_s
        self._boundaries = {
            unit: deployment.segment(unit.segment).outputs[0].name for unit in (UNIT, SOURCE)
        }
        self._run = LocalRun(run_dir, spec, LaunchSettings(nodes=1, spares=spares))
        self._log = SliceLog(run_dir)

    def __enter__(self) -> Self:
        self._run.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._run.stop()

    def kill(self) -> Killed:
        """Wait until all is calm, kill the node that works, and watch."""
        view = self._calm()
        node = next(item.node for item in view.nodes if str(UNIT) in item.units)
        known = {item.id for item in view.recoveries}
        others = [item.pid for item in view.nodes if item.node != node]
        used = sessions_cpu(others)
        killed_at = time.time()
        self._run.kill_node(node)

        def mine(now: RunView) -> dict[str, RecoveryView]:
            fresh = [item for item in now.recoveries if item.id not in known]
            return {item.unit: item for item in fresh if item.outcome == "caught up"}

        view = self._run.wait_for(
            lambda now: {str(unit) for unit in self._boundaries} <= mine(now).keys(),
            WAIT_S,
            "the recovery of a killed node",
        )
        spent = sessions_cpu(others) - used
        recoveries = mine(view)
        mine_at, detected_at = recoveries[str(UNIT)], recoveries[str(UNIT)].detected_at
        count = self._restore(UNIT, mine_at, self._usual_s)
        source = self._restore(SOURCE, recoveries[str(SOURCE)], 0.0)
        refill = None
        if self._spares:
            self._run.wait_for(_has_spare, WAIT_S, "another warm spare")
            refill = time.time() - killed_at
        return Killed(
            detection=max(0.0, detected_at - killed_at),
            restore=count.seconds,
            first_batch=count.after_running,
            restore_thread=source.seconds,
            waited=count.waited > 0,
            # Looking and waiting take next to nothing, so all of it was spent on restoring.
            takeover_cpu=spent / REFERENCE_QUERIES / (count.seconds + self._usual_s),
            refill=refill,
        )

    def _restore(self, unit: UnitId, recovery: RecoveryView, usual_s: float) -> Restore:
        generation = recovery.generation or 0
        first = next(item for item in self._slices(unit) if item.generation >= generation)
        return restore_time(
            detected_at=recovery.detected_at,
            restored_at=recovery.restored_at,
            due_at=(self._log.origin() or 0.0) + (first.after + 2) * self._epoch_s,
            first_at=first.put_at,
            usual_s=usual_s,
        )

    def spare_bytes(self) -> list[int]:
        """Memory of spares that are warm."""
        view = self._run.status()
        return [
            node.memory_bytes
            for node in view.nodes
            if not node.units and node.ready and node.memory_bytes
        ]

    def _calm(self) -> RunView:
        view = self._run.wait_for(all_running, WAIT_S, "a start")
        if self._spares:
            self._run.wait_for(_has_spare, WAIT_S, "a warm spare")
        goal = max(unit.epoch or 0 for unit in view.units) + STEADY_EPOCHS
        return self._run.wait_for(
            lambda now: all_running(now) and all((unit.epoch or 0) >= goal for unit in now.units),
            WAIT_S,
            "steady progress",
        )

    def _slices(self, unit: UnitId) -> list[_Slice]:
        """Every slice of a unit that is still there."""
        found, name = [], str(unit)
        start = self._log.floor(slices(name)).number
        for record in self._log.slices_from(name, start):
            put_at = self._log.put_time(record)
            if put_at is not None:
                found.append(
                    _Slice(after=record.after, generation=record.generation, put_at=put_at)
                )
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slice:
    after: int
    generation: int
    put_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """How one unit came back, seconds."""

    seconds: float
    """From detection until it would have begun its first slice, had it been running."""
    after_running: float
    """The part of that after it was seen to run."""
    waited: float
    """For how long it ran and nothing was due; not counted."""


def restore_time(
    *,
    detected_at: float,
    restored_at: float | None,
    due_at: float,
    first_at: float,
    usual_s: float,
) -> Restore:
    """Take a recovery apart; `usual_s` is what a batch takes that is not the first."""
    running = detected_at if restored_at is None else min(restored_at, first_at)
    waited = max(0.0, min(due_at, first_at) - running)
    ended = max(first_at - usual_s - waited, running)
    return Restore(seconds=ended - detected_at, after_running=ended - running, waited=waited)


def usual_batch(machine: MachineStatistics) -> float:
    """What a plan counts for a small batch that keeps state."""
    return float(
        machine.batch_floor.value
        + machine.slice_write.fixed.value
        + machine.slice_read.fixed.value
        + machine.state_write.fixed.value
    )


def _has_spare(view: RunView) -> bool:
    return any(node.ready and node.connected and not node.units for node in view.nodes)
