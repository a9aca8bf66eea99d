"""How long this machine takes to notice a dead node and to run its unit elsewhere.

A small reference pipeline runs on a node of its own and is killed: with a warm spare beside it, and
without one. The time of restoring goes up to the first slice that the new generation publishes,
less what a slice takes anyhow, because first batches are slow and somebody has to count that.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import psutil

from holdfast.control.policy import Policy
from holdfast.control.shell.rundir import RunSpec
from holdfast.model.deployment import Deployment, UnitId
from holdfast.model.statistics import MachineStatistics, Measure
from holdfast.pipeline import deploy, load_pipeline
from holdfast.runtime.launch.local import LaunchSettings
from holdfast.runtime.launch.run import DeadlineError, LocalRun, all_running
from holdfast.runtime.log.layout import member
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.profile import estimate
from holdfast.runtime.profile.cpu import load_average

Say = Callable[[str], None]

APP = "holdfast.runtime.spark.profile.reference:pipeline"
UNIT = UnitId(segment="count")
STEADY_EPOCHS = 8
WAIT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """One kill and what followed, seconds."""

    detection: float
    restore: float
    refill: float | None = None
    """Until another spare was warm; None if there are no spares."""


def measure_recoveries(
    known: MachineStatistics, folder: Path, *, say: Say, warm: int = 4, cold: int = 3
) -> MachineStatistics:
    """Detection, restoring with and without a spare, and refilling; what fails stays as known."""
    killed: dict[str, list[Killed]] = {"warm": [], "cold": []}
    spare_bytes: list[int] = []
    for kind, kills, spares in (("warm", warm, 1), ("cold", cold, 0)):
        say(f"killing a node {kills} times {'with' if spares else 'without'} a spare")
        try:
            with _Victim(folder / kind, spares) as victim:
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
    if warm:
        found["restore_warm"] = estimate.duration(
            [one.restore for one in warm],
            f"until a unit on a warm spare has published, less a usual batch, {load}",
        )
    refills = [one.refill for one in warm if one.refill is not None]
    if refills:
        found["refill"] = estimate.duration(refills, f"kill until another spare is warm, {load}")
    if cold:
        found["restore_cold"] = estimate.duration(
            [one.restore for one in cold],
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

    def __init__(self, run_dir: Path, spares: int) -> None:
        deployment: Deployment = deploy(load_pipeline(APP))
        spec = RunSpec(app=APP, host="spark", deployment=deployment, policy=Policy(workers=1))
        self._spares = spares
        self._boundary = deployment.segment(UNIT.segment).outputs[0].name
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
        node = next(item["node"] for item in view["nodes"] if str(UNIT) in item["units"])
        known = {item["id"] for item in view["recoveries"]}
        usual = self._usual()
        killed_at = time.time()
        self._run.kill_node(node)

        def mine(now: Mapping[str, Any]) -> Mapping[str, Any] | None:
            found = [item for item in now["recoveries"] if item["id"] not in known]
            return next((item for item in found if item["unit"] == str(UNIT)), None)

        def back(now: dict[str, Any]) -> bool:
            item = mine(now)
            return item is not None and item["outcome"] == "caught up"

        recovery = mine(self._run.wait_for(back, WAIT_S, "the recovery of a killed node"))
        if recovery is None:
            raise AssertionError("it has just been seen")
        first = self._first_slice(int(recovery["generation"]))
        refill = None
        if self._spares:
            self._run.wait_for(_has_spare, WAIT_S, "another warm spare")
            refill = time.time() - killed_at
        return killed(
            killed_at=killed_at,
            detected_at=recovery["detected_at"],
            restored_at=recovery["restored_at"],
            first_at=first,
            usual_s=usual,
            refill_s=refill,
        )

    def spare_bytes(self) -> list[int]:
        """Memory of spares that are warm."""
        view = self._run.status()
        return [
            int(node["memory_bytes"])
            for node in view["nodes"]
            if not node["units"] and node["ready"] and node["memory_bytes"]
        ]

    def _calm(self) -> dict[str, Any]:
        view = self._run.wait_for(all_running, WAIT_S, "a start")
        if self._spares:
            self._run.wait_for(_has_spare, WAIT_S, "a warm spare")
        goal = max(unit["epoch"] for unit in view["units"]) + STEADY_EPOCHS
        return self._run.wait_for(
            lambda now: all_running(now) and all(unit["epoch"] >= goal for unit in now["units"]),
            WAIT_S,
            "steady progress",
        )

    def _usual(self) -> float:
        """How long a batch takes as a rule, from the decision what it reads to its slice."""
        took = []
        for number, _, at in self._slices()[-STEADY_EPOCHS:]:
            began = self._log.put_time(str(UNIT), number)
            if began:
                took.append(at - began)
        return statistics.median(took) if took else 0.0

    def _first_slice(self, generation: int) -> float:
        """When a generation published for the first time."""
        return next(at for _, by, at in self._slices() if by >= generation)

    def _slices(self) -> list[tuple[int, int, float]]:
        """Number, generation and time of every slice that is still there."""
        layout = self._log.layout
        found = []
        start = self._log.floor(layout.slice_floors(self._boundary, 0))
        for record in self._log.slices_from(self._boundary, 0, start):
            path = layout.root / member(layout.slices(self._boundary, 0), record.number)
            found.append((record.number, record.generation, path.stat().st_mtime))
        return found


def killed(
    *,
    killed_at: float,
    detected_at: float,
    restored_at: float | None,
    first_at: float,
    usual_s: float,
    refill_s: float | None,
) -> Killed:
    """The phases of one recovery.

    A restore ends where the first slice would have been begun to be worked on, had the unit been
    running; never before it was seen to run.
    """
    running = detected_at if restored_at is None else min(restored_at, first_at)
    return Killed(
        detection=max(0.0, detected_at - killed_at),
        restore=max(first_at - usual_s, running) - detected_at,
        refill=refill_s,
    )


def _has_spare(view: dict[str, Any]) -> bool:
    return any(node["ready"] and node["connected"] and not node["units"] for node in view["nodes"])
