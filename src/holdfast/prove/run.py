"""Prove a plan on a real run: start it, wait until it is steady, kill a node, measure, repeat.

One fault at a time: the next one waits until everything runs again at its normal lag and a spare is
warm. The slice log is read while it runs, since it is trimmed, and tells the recovery times; the
coordinator only splits them into phases. Interrupted, it stops cleanly and judges what it has.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from holdfast.control.shell.wire import ConnectionLostError
from holdfast.control.status import RunView, UnitView
from holdfast.deployment import Deployment, UnitId
from holdfast.faults.campaign import START_S, wait_delivered
from holdfast.health.breaker import BreakerPolicy
from holdfast.health.budget import RestartBudget
from holdfast.health.policy import Policy, Tentative
from holdfast.pipeline import Pipeline
from holdfast.pipeline.claims import claims
from holdfast.plan import Plan
from holdfast.prove.aim import Aim, aims
from holdfast.prove.failover import measure_failover
from holdfast.prove.judge import (
    Failure,
    Normal,
    Pace,
    Recovered,
    SeenSlice,
    compare,
    measure,
    paces,
    promises,
)
from holdfast.prove.result import Audience, Proof, Struck
from holdfast.prove.tentative import Fork, ForkWatch
from holdfast.rundir.spec import RunSpec
from holdfast.runtime.launch.local import LaunchSettings
from holdfast.runtime.launch.run import DeadlineError, LocalRun, all_running
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.spark.start.prepare import prepare
from holdfast.streams.steps import slices
from holdfast.verify.check import verify

POLL_S = 0.2
AIM_S = 0.02
"""How often the log alone is looked at when a fault is to strike at once after a slice."""
STEADY_SLICES = 3
"""Slices of one interval each that every unit must have published before it counts as steady."""
CALM_AGAIN = 2
"""Normal slices of every unit between a recovery and the next fault."""
DELIVERED_BATCHES = 3
"""Batches every exporter must deliver after the last fault before results are judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proving:
    """What is to be proved, and how."""

    app: str
    pipeline: Pipeline
    deployment: Deployment
    plan: Plan
    faults: int = 20
    nodes: int = 2
    together: tuple[tuple[str, ...], ...] = ()
    """Units, by name, that share a node."""
    spares: int = 1
    domains: int = 2
    """Failure domains that nodes are dealt to."""
    seed: int = 0
    max_recovery: float | None = None
    heal_s: float = 120.0
    """How long one recovery may take, and then the warming of a spare."""
    calm_slices: int = 6
    """Slices per unit that tell what its normal lag is, before the first fault."""
    tentative: Tentative = field(default_factory=Tentative)
    """When results go on without an input that is gone."""
    recovery_order: tuple[str, ...] = ()
    """Units, by name, the first to come back first; none: upstream first."""

    @property
    def policy(self) -> Policy:
        """Units of splits have nodes of their own, as in any run.

        Faults are what is asked for here: they must not use up a unit's budget, nor have a path
        left.
        """
        own = self.deployment.alone
        return Policy(
            workers=self.nodes + sum(own.values()),
            alone=tuple(own),
            together=self.together,
            tentative=self.tentative,
            recovery_order=self.recovery_order,
            crashes=RestartBudget(limit=self.faults + 20, window_s=300.0, delay_s=0.0),
            breaker=BreakerPolicy(losses=self.faults + 20),
        )


class SliceWatch:
    """Reads slice records as they appear."""

    def __init__(self, run_dir: Path, deployment: Deployment) -> None:
        self._log = SliceLog(run_dir)
        self.slices: dict[str, list[SeenSlice]] = {
            str(unit): [] for unit in deployment.units() if deployment.segment(unit.segment).outputs
        }

    def poll(self) -> None:
        """Take in what was published since."""
        for unit, found in self.slices.items():
            number = found[-1].number + 1 if found else 0
            # Whoever looks too seldom has missed what was trimmed meanwhile.
            number = max(number, self._log.floor(slices(unit)).number)
            for record in self._log.slices_from(unit, number):
                put_at = self._log.put_time(record)
                if put_at is None:  # trimmed between the two looks
                    continue
                found.append(
                    SeenSlice(
                        number=record.number,
                        after=record.after,
                        upto=record.upto,
                        generation=record.generation,
                        put_at=put_at,
                    )
                )


@dataclass(slots=True)
class _Record:
    """What a proof has come to know."""

    started_at: float = 0.0
    struck: list[Struck] = field(default_factory=list)
    recoveries: list[Recovered] = field(default_factory=list)
    normal: dict[str, Normal] = field(default_factory=dict)
    forks: tuple[Fork, ...] = ()
    note: str = ""
    gave_way: bool = False


def prove(proving: Proving, run_dir: Path, audience: Audience | None = None) -> Proof:
    """Run, break, measure and judge."""
    watched = audience or Audience()
    promised = promises(proving.deployment, proving.plan, proving.max_recovery)
    spec = RunSpec(
        app=proving.app,
        host="spark",
        deployment=proving.deployment,
        policy=proving.policy,
        options={"keep_input": True},
    )
    prepare(watched.say)
    launch = LaunchSettings(
        nodes=proving.policy.workers, spares=proving.spares, domains=proving.domains
    )
    run = LocalRun(run_dir, spec, launch)
    record = _Record()
    try:
        _Prover(proving, run, record, watched).run()
    except KeyboardInterrupt:
        record.note = f"interrupted after {len(record.struck)} of {proving.faults} faults"
    except DeadlineError as error:
        record.note, record.gave_way = str(error), True
    finally:
        with _uninterrupted():
            stopped = run.stop()
    verdict = None
    if record.struck and proving.pipeline.expectations:
        watched.say("comparing the results with an independent computation")
        verdict = verify(run.run_dir, claims(proving.pipeline))
    return Proof(
        run_dir=run.run_dir,
        app=proving.app,
        plan=proving.plan,
        asked=proving.faults,
        nodes=proving.nodes,
        spares=proving.spares,
        seed=proving.seed,
        started_at=record.started_at,
        struck=tuple(record.struck),
        recoveries=tuple(record.recoveries),
        comparisons=compare(promised, record.recoveries),
        normal=record.normal,
        forks=record.forks,
        stop=stopped,
        verdict=verdict,
        note=record.note,
        gave_way=record.gave_way,
    )


class _Prover:
    """One run under fire."""

    def __init__(
        self, proving: Proving, run: LocalRun, record: _Record, audience: Audience
    ) -> None:
        self._proving = proving
        self._run = run
        self._record = record
        self._audience = audience
        self._watch = SliceWatch(run.run_dir, proving.deployment)
        self._forks = ForkWatch(run.run_dir, proving.deployment)
        self._paces: dict[str, Pace] = {}
        self._calm: dict[str, list[SeenSlice]] = {}
        self._calm_since = float("inf")
        self._in_time: dict[str, Normal] = {}
        """Lags after epochs were over, whatever the inputs."""

    def run(self) -> None:
        proving = self._proving
        rng = np.random.default_rng(proving.seed)
        self._audience.say(
            f"starting {_count(proving.nodes, 'node')} and {_count(proving.spares, 'spare')}"
        )
        self._record.started_at = time.time()
        self._run.start()
        self._come_up()
        self._audience.steady(self._record.normal)
        for number, aim in enumerate(aims(list(self._watch.slices), proving.faults, rng)):
            fault, failures = self._strike(number, aim)
            recoveries = self._heal(fault, failures)
            self._record.recoveries += recoveries
            self._audience.recovered(fault, recoveries)
            if number + 1 < proving.faults:
                self._calm_down(CALM_AGAIN)
        self._audience.say("waiting until the last results are delivered")
        wait_delivered(
            self._run,
            proving.pipeline,
            proving.heal_s,
            epochs=1,
            batches=DELIVERED_BATCHES,
        )

    def _come_up(self) -> None:
        """Start, work off what gathered meanwhile, and learn the normal lag."""
        self._wait(all_running, START_S, "start")
        origin = SliceLog(self._run.run_dir).origin()
        if origin is None:
            raise AssertionError("units that run have an origin")
        self._paces = paces(self._proving.deployment, origin, self._watch.slices)
        self._audience.say("running; waiting until it is steady and the spares are warm")

        def keeps_up(view: RunView) -> bool:
            return self._warm(view) and all(
                len(found) >= STEADY_SLICES
                and all(
                    item.upto - item.after == self._paces[unit].batch_epochs
                    for item in found[-STEADY_SLICES:]
                )
                for unit, found in self._watch.slices.items()
            )

        self._wait(keeps_up, START_S, "steady state")
        self._calm_down(self._proving.calm_slices, already_warm=True)

    def _warm(self, view: RunView) -> bool:
        idle = [node for node in view.nodes if node.spare and not node.units]
        ready = sum(node.ready and node.connected for node in idle)
        return all_running(view) and ready >= self._proving.spares

    def _calm_down(self, slices: int, *, already_warm: bool = False) -> None:
        """Wait for spares, then for so many slices of every unit at their normal lag."""
        if not already_warm:
            self._wait(self._warm, self._proving.heal_s + START_S, "warm spare")
        since = self._calm_since = time.time()

        def enough(view: RunView) -> bool:
            return all_running(view) and all(
                sum(item.put_at > since for item in found) >= slices
                for found in self._watch.slices.values()
            )

        longest = max(pace.interval_s for pace in self._paces.values())
        self._wait(enough, self._proving.heal_s + 2 * slices * longest, "calm")
        self._learn(time.time())

    def _learn(self, until: float) -> None:
        """Take the slices since all was calm into what counts as normal."""
        for unit, found in self._watch.slices.items():
            calm = self._calm.setdefault(unit, [])
            calm += [item for item in found if self._calm_since < item.put_at <= until]
            pace = self._paces[unit]
            self._record.normal[unit] = Normal.of(pace, calm)
            self._in_time[unit] = Normal.of(pace.whatever_the_inputs, calm)
        self._calm_since = until

    def _strike(self, number: int, aim: Aim) -> tuple[Struck, list[Failure]]:
        """Kill the node of a unit so long after its next slice."""
        self._audience.say(
            f"fault {number + 1} of {self._proving.faults}: waiting for {aim.unit} to be "
            f"{aim.phase:.0%} into a batch"
        )
        found = self._watch.slices[aim.unit]
        before = len(found)
        pace = self._paces[aim.unit]
        end = time.monotonic() + self._proving.heal_s + 2 * pace.interval_s
        while len(found) == before:
            if time.monotonic() > end:
                raise DeadlineError(f"no slice of {aim.unit}")
            time.sleep(AIM_S)
            self._watch.poll()
        last = found[-1].put_at
        view = self._run.status()
        with contextlib.suppress(ValueError):
            time.sleep(last + aim.phase * pace.interval_s - time.time())
        leading = _publishing(view)
        node = leading[aim.unit].node
        if node is None:
            raise DeadlineError(f"{aim.unit} has lost its node by itself")
        lost = {name: unit for name, unit in leading.items() if unit.node == node}
        self._watch.poll()
        self._learn(time.time())
        killed_at = time.time()
        self._run.kill_node(node)
        hit = tuple(unit for unit in self._watch.slices if unit in lost)
        fault = Struck(
            number=number,
            aim=aim,
            node=node,
            killed_at=killed_at,
            phase=(killed_at - last) / pace.interval_s,
            units=hit,
        )
        self._record.struck.append(fault)
        self._audience.struck(fault, view)
        failures = [
            Failure(
                unit=unit,
                killed_at=killed_at,
                generation=lost[unit].generation,
                hot=lost[unit].leads is not None,
            )
            for unit in hit
        ]
        return fault, failures

    def _heal(self, fault: Struck, failures: Sequence[Failure]) -> list[Recovered]:
        """Wait until every unit that was hit is back, as the log tells."""
        found: list[Recovered] = []

        def settled(view: RunView) -> bool:
            self._audience.watched(fault, view)
            found[:] = self._measure(fault, failures, view)
            return all_running(view) and all(
                item.seconds is not None and item.complete is not None for item in found
            )

        try:
            self._wait(settled, self._proving.heal_s, f"recovery from fault {fault.number + 1}")
        except DeadlineError:
            self._record.recoveries += found
            raise
        return found

    def _measure(
        self, fault: Struck, failures: Sequence[Failure], view: RunView
    ) -> list[Recovered]:
        told = {
            item.unit: item
            for item in view.recoveries
            if item.detected_at >= fault.killed_at and item.from_node == fault.node
        }
        found = []
        for failure in failures:
            item = told.get(failure.unit)
            known = replace(
                failure,
                detected_at=item.detected_at if item else None,
                restored_at=item.restored_at if item else None,
                caught_up_at=item.caught_up_at if item else None,
            )
            unit, pace = failure.unit, self._paces[failure.unit]
            slices, number = self._watch.slices[unit], fault.number
            judge = measure_failover if failure.hot else measure
            own = judge(number, known, pace, self._record.normal[unit], slices)
            late = pace.whatever_the_inputs
            complete = judge(number, known, late, self._in_time[unit], slices).seconds
            found.append(replace(own, complete=complete))
        return found

    def _watch_forks(self, view: RunView) -> None:
        if self._proving.tentative.after_s is not None and self._record.struck:
            last = self._record.struck[-1]
            self._forks.poll(view.forks, last.number, last.killed_at)
            self._record.forks = self._forks.found()

    def _wait(self, condition: Callable[[RunView], bool], deadline_s: float, what: str) -> RunView:
        """Like `LocalRun.wait_for`, reading the log all the while; asks seldom, to take no CPU."""
        end = time.monotonic() + deadline_s
        while time.monotonic() < end and not self._run.launcher.finished.is_set():
            with contextlib.suppress(ConnectionLostError):
                view = self._run.status()
                self._watch.poll()
                self._watch_forks(view)
                if view.given_up:
                    name = view.given_up[0].unit
                    raise DeadlineError(f"{name} has failed too often; see `holdfast logs`")
                if condition(view):
                    return view
            self._run.launcher.finished.wait(POLL_S)
        raise DeadlineError(
            f"the run ended before {what}"
            if self._run.launcher.finished.is_set()
            else f"no {what} within {deadline_s:.0f} s"
        )


def _publishing(view: RunView) -> dict[str, UnitView]:
    """By unit, the replica that publishes: the one that leads, or the only one."""
    found: dict[str, UnitView] = {}
    for unit in view.units:
        name = UnitId.parse(unit.unit).name
        if name not in found or unit.leads:
            found[name] = unit
    return found


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Stopping must come to its end, whatever is pressed meanwhile."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    both = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in both}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
