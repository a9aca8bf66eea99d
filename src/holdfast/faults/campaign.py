"""One chaos run from start to verdict: start, break, wait until it has healed, stop, verify."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from holdfast.clock import SystemClock
from holdfast.control.client import ControlClient
from holdfast.control.shell.wire import ConnectionLostError
from holdfast.control.status import RecoveryView, RunView
from holdfast.deployment import Deployment, UnitId
from holdfast.faults.inject import WAIT_S, Injected, Injector
from holdfast.faults.schedule import PATH_FAULTS, Schedule
from holdfast.health.breaker import BreakerPolicy
from holdfast.health.policy import Policy, Tentative
from holdfast.pipeline import Pipeline
from holdfast.pipeline.claims import claims
from holdfast.rundir.spec import RunSpec
from holdfast.runtime.launch.local import LaunchSettings
from holdfast.runtime.launch.run import LocalRun, StopReport, all_running
from holdfast.runtime.node.processes import session_members
from holdfast.runtime.spark.start.prepare import prepare
from holdfast.verify.check import Verdict, verify
from holdfast.verify.keep import InputKeeper

START_S = 180.0
"""How long a run may take to come up, several cold sessions on few cores included."""
TRIM_S = 480.0
"""How long it may take until the first slices are trimmed: 16 batches of the slowest source, and
with followers 64 more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What is broken, and on how many nodes."""

    app: str
    pipeline: Pipeline
    deployment: Deployment
    schedule: Schedule
    nodes: int = 2
    spares: int = 1
    domains: int = 2
    coordinators: int = 1
    heal_s: float = 120.0
    """How long the run may take to heal after the last fault."""
    epochs_after: int = 5
    """Epochs that must be delivered after it has healed."""
    batches_after: int = 6
    """Batches every exporter must deliver then: a window's row comes a batch or more behind the
    epoch that closes it, for each stateful segment on its way."""
    ack_levels: int = 1
    """Levels of acknowledgement: with 2, any slice that is still to be read can be made again."""
    tentative: Tentative = field(default_factory=Tentative)
    """When results go on without an input that is gone; no tentative row may be left."""
    trim: bool = False
    """Trim what sources published as every run does; a copy is kept aside for the check. Faults
    begin when the first slices are trimmed."""
    batches_before: int = 0
    """Batches every exporter must have delivered before faults begin. Without any, one may come in
    the first batch of a unit, for which nobody can say yet how long it usually takes."""
    breaker: BreakerPolicy = field(default_factory=BreakerPolicy)
    rules: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Of splits: when paths are left and probed."""

    @property
    def policy(self) -> Policy:
        """Units of splits have nodes of their own."""
        own = self.deployment.alone
        return Policy(
            workers=self.nodes + sum(own.values()),
            alone=tuple(own),
            breaker=self.breaker,
            rules=self.rules,
            tentative=self.tentative,
        )

    @property
    def options(self) -> dict[str, Any]:
        """Settings of the nodes."""
        found: dict[str, Any] = {"keep_input": not self.trim, "ack_levels": self.ack_levels}
        if any(fault.kind in PATH_FAULTS for fault in self.schedule.faults):
            found["sabotage"] = True
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a campaign went."""

    run_dir: Path
    injected: tuple[Injected, ...]
    recoveries: tuple[RecoveryView, ...]
    stop: StopReport
    verdict: Verdict
    trimmed: Mapping[str, int] = field(default_factory=dict)
    """Log of a source to its first slice that was not trimmed, if the run was to trim them."""

    @property
    def ok(self) -> bool:
        return self.verdict.ok and not self.stop.left

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "run": str(self.run_dir),
            "faults": [item.to_json() for item in self.injected],
            "recoveries": [item.to_json() for item in self.recoveries],
            "clean_stop": self.stop.clean,
            "left": list(self.stop.left),
            "trimmed": dict(self.trimmed),
            "verdict": self.verdict.to_json(),
        }


def run_campaign(
    campaign: Campaign, run_dir: Path, report: Callable[[str], None] = lambda _line: None
) -> Outcome:
    """Play a schedule against a fresh run and judge what came out."""
    spec = RunSpec(
        app=campaign.app,
        host="spark",
        deployment=campaign.deployment,
        policy=campaign.policy,
        options=campaign.options,
    )
    settings = LaunchSettings(
        nodes=campaign.policy.workers,
        spares=campaign.spares,
        domains=campaign.domains,
        coordinators=campaign.coordinators,
        # A suspended node must really wake up: nothing may rest on it having been killed.
        fence=False,
    )
    prepare(report)
    run = LocalRun(run_dir, spec, settings)
    keeper = InputKeeper(run_dir, [source.name for source in campaign.pipeline.sources])
    injector: Injector | None = None
    recoveries: tuple[RecoveryView, ...] = ()
    try:
        report(f"starting {campaign.nodes} nodes and {campaign.spares} spares in {run_dir}")
        run.start()
        if campaign.trim:
            keeper.start()
        _wait_started(run, campaign)
        if campaign.trim:
            run.wait_for(lambda _: all(keeper.trimmed().values()), TRIM_S, "trimming the input")
        injector = Injector(
            run,
            campaign.schedule,
            SystemClock(),
            pipeline=campaign.pipeline,
            processes=lambda name: _processes(run, name),
        )
        _play(injector, report)
        view = wait_delivered(
            run,
            campaign.pipeline,
            campaign.heal_s,
            epochs=campaign.epochs_after,
            batches=campaign.batches_after,
            report=report,
            # A torn file may have used up the budget of its readers before it was mended.
            retry=any(fault.kind == "tear" for fault in campaign.schedule.faults),
        )
        recoveries = view.recoveries
    finally:
        if injector is not None:
            injector.close()
        stopped = run.stop()
        if campaign.trim:
            keeper.close()
    if campaign.trim:
        keeper.require_whole()
    report("verifying")
    return Outcome(
        run_dir=run_dir,
        injected=tuple(injector.history),
        recoveries=recoveries,
        stop=stopped,
        verdict=verify(run_dir, claims(campaign.pipeline)),
        trimmed=keeper.trimmed() if campaign.trim else {},
    )


def _wait_started(run: LocalRun, campaign: Campaign) -> None:
    """Everything runs, and has delivered what it must have before it is broken."""
    run.wait_for(all_running, START_S, "the start")
    last = campaign.batches_before - 1  # batches are counted from 0, and -1 is none
    run.wait_for(
        lambda now: _delivered(now, campaign.pipeline, "batch") >= last,
        START_S,
        "the first results",
    )


def wait_delivered(
    run: LocalRun,
    pipeline: Pipeline,
    heal_s: float,
    *,
    epochs: int,
    batches: int,
    report: Callable[[str], None] = lambda _line: None,
    retry: bool = False,
) -> RunView:
    """Wait until a run has healed and its exporters have delivered so much more; the last view.

    With `retry` units that are held are tried again, as an operator would once the cause is gone.
    """
    view = run.wait_for(
        lambda now: all_running(now) or (retry and _retry_held(run, now)), heal_s, "healing"
    )
    epoch = _newest_epoch(view) + epochs
    batch = _delivered(view, pipeline, "batch") + batches
    report(f"healed; waiting for epoch {epoch} and batch {batch}")
    return run.wait_for(
        lambda now: (
            all_running(now)
            and _delivered(now, pipeline, "epoch") >= epoch
            and _delivered(now, pipeline, "batch") >= batch
        ),
        heal_s,
        f"delivering epoch {epoch} and batch {batch}",
    )


def _retry_held(run: LocalRun, view: RunView) -> bool:
    """Ask for another try of everything held; False, as nothing has healed by that yet."""
    for unit in view.units:
        if unit.phase == "held":
            with contextlib.suppress(ConnectionLostError), ControlClient(run.run_dir) as client:
                client.retry(unit.unit)
    return False


def _play(injector: Injector, report: Callable[[str], None]) -> None:
    told = 0
    going = True
    while going:
        going = injector.step()
        for item in injector.history[told:]:
            report(f"{item.at_s:6.1f} s  {item.fault}: {item.done or item.note}")
        told = len(injector.history)
        time.sleep(WAIT_S)


def _processes(run: LocalRun, name: str) -> list[int]:
    child = run.launcher.node(name)
    return session_members(child.pid, run.launcher.launch) if child else []


def _newest_epoch(view: RunView) -> int:
    return max((unit.epoch for unit in view.units if unit.epoch is not None), default=-1)


def _delivered(view: RunView, pipeline: Pipeline, what: Literal["epoch", "batch"]) -> int:
    """The smallest epoch, or batch, that any exporter has come to."""
    sinks = {str(UnitId(segment=sink.name)) for sink in pipeline.sinks}
    found = [
        unit.epoch if what == "epoch" else unit.batch for unit in view.units if unit.unit in sinks
    ]
    return min((-1 if item is None else item for item in found), default=-1)
