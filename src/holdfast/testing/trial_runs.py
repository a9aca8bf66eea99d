"""Carries out a trial: starts the run, waits until it is steady, measures, kills, measures.

Everything is read from the slice log and from the system's account of processes; neither the
coordinator nor the units are asked how they have done.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import psutil

from holdfast.control.status import RunView
from holdfast.deployment import Deployment, UnitId
from holdfast.errors import CheckFailedError
from holdfast.health.policy import Policy
from holdfast.pipeline import deploy, load_pipeline
from holdfast.pipeline.replicas import with_followers
from holdfast.rundir.layout import ORIGIN
from holdfast.rundir.spec import RunSpec
from holdfast.runtime.launch.local import LaunchSettings
from holdfast.runtime.launch.run import LocalRun, all_running
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.node.processes import session_members
from holdfast.runtime.rescale import announce, outcome, rescale
from holdfast.streams.codec import encode
from holdfast.streams.records import Change, Slice
from holdfast.streams.steps import ranges, slices
from holdfast.testing.repartition import repartitioned_apart
from holdfast.testing.trials import Measured, Traffic, Trial

DEADLINE_S = 180.0
"""How long a start, a recovery or a catch-up may take."""
STEADY = 4
"""Slices of one interval each that show that a segment keeps up."""
POLL_S = 0.01


def run_trial(trial: Trial, folder: Path) -> Measured:
    """Run a trial in an empty folder."""
    found = _run(trial, folder)
    if not trial.repartition:
        return found
    seconds = repartitioned_apart(trial.repartition, folder / "repartition")
    return replace(found, repartition_s=seconds)


def _run(trial: Trial, folder: Path) -> Measured:
    app = folder / "app.py"
    app.write_text(trial.app, encoding="utf-8")
    pipeline = load_pipeline(str(app))
    made = deploy(pipeline, batch_epochs=dict(trial.batch_epochs))
    deployment = with_followers(pipeline, made, trial.replicate)
    bench = _Bench(trial, deployment, _launch(trial, deployment, app))
    bench.run.start()
    try:
        if trial.behind_s:
            return bench.catch_up()
        bench.settle()
        cpu = bench.cpu() if trial.cpu_s else {}
        scaled = bench.scale() if trial.scales else Measured()
        if trial.watch_s:
            scaled = replace(scaled, traffic=bench.watch())
        recovery = []
        for killed in trial.kills:
            recovery.append(bench.kill(killed))
            bench.settle()
        restarts = tuple(
            bench.restart(_launch(trial, deployment, app)) for _ in range(trial.restarts)
        )
        return replace(scaled, recovery=tuple(recovery), cpu=cpu, restarts=restarts)
    finally:
        bench.run.stop()


def _launch(trial: Trial, deployment: Deployment, app: Path) -> LocalRun:
    """A launch: a node for each home and for each follower, spares for what is killed at once."""
    nodes = len(trial.homes) + len(trial.replicate)
    spares = max([1, *map(len, trial.kills)])
    names = {str(unit) for unit in deployment.units()}
    together = tuple(
        tuple(name for one in home if (name := str(UnitId(segment=one))) in names)
        for home in trial.homes
    )
    spec = RunSpec(
        app=str(app),
        host="spark",
        deployment=deployment,
        policy=Policy(workers=nodes, together=together),
        options={"trim_every": trial.trim_every} if trial.trim_every else {},
    )
    run = LocalRun(
        app.parent / "run",
        spec,
        LaunchSettings(nodes=nodes, spares=spares, domains=nodes + spares),
    )
    if trial.behind_s:
        log = SliceLog(run.run_dir)
        log.store.put_if_absent(ORIGIN, json.dumps(time.time() - trial.behind_s).encode())
    return run


def _acked(unit: str) -> tuple[str, str]:
    """The sequences of a unit that have a floor: it rises as others have come further."""
    return ranges(unit), slices(unit)


def _bytes(item: Slice) -> int:
    """Of the rows of a slice, on all boundaries."""
    return sum(
        file.schema_size + sum(part.size for part in file.parts)
        for files in item.files.values()
        for file in files
    )


@dataclass(slots=True)
class _Bench:
    """One run under observation."""

    trial: Trial
    deployment: Deployment
    run: LocalRun
    _delays: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """Per watched segment, when its slices were due and how late they were, while it is scaled."""
    _noted: dict[str, int] = field(default_factory=dict)
    """Up to which epoch."""

    @property
    def log(self) -> SliceLog:
        return SliceLog(self.run.run_dir)

    def settle(self) -> None:
        """Wait until everything runs, is warm and keeps up."""

        def warm(view: RunView) -> bool:
            spare = any(node.spare and not node.units for node in view.nodes)
            return all_running(view) and spare and all(node.ready for node in view.nodes)

        self.run.wait_for(warm, DEADLINE_S, "the start")
        first = {segment: self._newest(segment) for segment in self.trial.watched}
        self._until(
            lambda: all(self._keeps_up(name, number) for name, number in first.items()),
            "keeping up; is the machine busy with other work?",
        )
        self.run.wait_for(warm, DEADLINE_S, "settling")

    def cpu(self) -> dict[str, float]:
        """Cores that the nodes of the watched segments keep busy."""
        nodes = {segment: self._node(segment) for segment in self.trial.watched}
        before, began = {name: self._used(node) for name, node in nodes.items()}, time.monotonic()
        end = began + self.trial.cpu_s
        self._until(lambda: time.monotonic() >= end, "the end of measuring its processor time")
        took = time.monotonic() - began
        return {name: (self._used(node) - before[name]) / took for name, node in nodes.items()}

    def kill(self, segments: Sequence[str]) -> dict[str, float]:
        """Kill the nodes that lead some segments; until each watched one among them goes on."""
        nodes = [self._node(segment) for segment in segments]
        hit = [segment for segment in self.trial.watched if segment in segments]
        before = {segment: self._newest(segment) for segment in hit}
        killed = time.time()
        for node in dict.fromkeys(nodes):
            self.run.kill_node(node)
        found: dict[str, float] = {}

        def all_back() -> bool:
            for segment in hit:
                back = self._first_after(segment, before[segment] + 1, killed)
                if segment not in found and back is not None:
                    found[segment] = back
            return len(found) == len(hit)

        self._until(all_back, "a slice after a kill")
        return found

    def watch(self) -> Traffic:
        """Look at floors, slices and what is kept of them, again and again for a while."""
        watched, log = self.trial.watched, self.log
        self._noted = {name: log.run(log.steps().last_end(name)) for name in watched}
        self._delays = {}
        units = [unit for one in self.deployment.segments for unit in self._units(one.name)]
        kept = [log.layout.data(unit) for unit in self._units(watched[0])]
        seen = {unit: log.newest_batch(unit) + 1 for unit in units}
        floors = {folder: log.floor(folder) for unit in units for folder in _acked(unit)}
        acks = data = most = 0
        began = time.monotonic()

        def look() -> bool:
            nonlocal acks, data, most
            for folder, known in floors.items():
                found = log.floor(folder)
                if found != known:
                    floors[folder], acks = found, acks + len(encode(found))
            for unit in units:
                for item in log.slices_from(unit, seen[unit]):
                    seen[unit], data = item.number + 1, data + _bytes(item)
            most = max(most, sum(sum(log.store.sizes(name).values()) for name in kept))
            return time.monotonic() - began >= self.trial.watch_s

        self._until(look, "the end of watching")
        self._noted_all()
        return Traffic(
            seconds=time.monotonic() - began,
            acks_bytes=acks,
            data_bytes=data,
            kept_bytes=most,
            delay_s=statistics.median(late for _, late in self._delays[watched[-1]]),
        )

    def restart(self, launch: LocalRun) -> float:
        """Kill everything and begin anew with nothing warm; until the last watched one goes on."""
        segment = self.trial.watched[-1]
        before = self._newest(segment)
        killed = time.time()
        self.run.stop(deadline_s=0.0)
        self.run = launch
        self.run.start()
        found: list[float] = []

        def is_back() -> bool:
            back = self._first_after(segment, before + 1, killed)
            found.extend([] if back is None else [back])
            return bool(found)

        self._until(is_back, "a slice after a restart")
        self.settle()
        return found[0]

    def scale(self) -> Measured:
        """Change shards, one change after another, and see what that does to the slices."""
        began, log = time.time(), self.log
        self._noted = {name: log.run(log.steps().last_end(name)) for name in self.trial.watched}
        handovers = []
        for segment, shards in self.trial.scales:
            asked = time.time()
            put = rescale(log, self.deployment.segment(segment), shards, reason="a trial")
            announce(log, put)
            self._until(partial(self._handed_over, put), "a handover")
            pauses = [done.pause_s for change in put if (done := outcome(log, change))]
            usual_s = self._interval(segment) * self.deployment.epoch_s
            handovers.append((shards, asked - began, max(0.0, max(pauses) - usual_s)))
            self.settle()
        self._noted_all()
        found = {
            name: tuple((due - began, late) for due, late in each)
            for name, each in self._delays.items()
        }
        return Measured(handovers=tuple(handovers), delays=found)

    def _handed_over(self, put: Sequence[Change]) -> bool:
        return all(outcome(self.log, change) for change in put)

    def _note(self) -> None:
        """Take down what was published since, before it is trimmed."""
        log = self.log
        for name, after in self._noted.items():
            steps = log.steps()
            for end in log.run(steps.ends(name, after)):
                items = log.run(steps.read(name, self._noted[name], end))
                times = [at for item in items if (at := log.put_time(item)) is not None]
                if times:
                    due = self._due(items[-1], name)
                    self._delays.setdefault(name, []).append((due, max(0.0, max(times) - due)))
                self._noted[name] = end

    def _noted_all(self) -> None:
        """Take the rest down and note no more: nobody looks while all of it is restarted."""
        self._note()
        self._noted = {}

    def catch_up(self) -> Measured:
        """How long the last watched segment takes for all that waits."""
        segment = self.trial.watched[-1]
        unit = self._unit(segment)
        self._until(lambda: self.log.range(unit, 0) is not None, "a first range")
        first = self.log.need_range(unit, 0)
        began = self.log.put_time(first)
        seen: list[Slice] = []

        def is_level() -> bool:
            """Slices are looked at as they come: old ones are trimmed."""
            for item in self.log.slices_from(unit, len(seen)):
                seen.append(item)
                if self._in_time(segment, item):
                    return True
            return False

        self._until(is_level, "catching up")
        ended = self.log.put_time(seen[-1])
        if began is None or ended is None:
            raise CheckFailedError(f"{unit}: the times of its records are not known")
        return Measured(
            catch_up_s=ended - began,
            catch_up_input_s=(seen[-1].upto - first.after) * self.deployment.epoch_s,
        )

    # What the log says

    def _units(self, segment: str) -> list[str]:
        """All that carry a segment's output now."""
        return [child.unit for child in self.log.carriers(segment)]

    def _unit(self, segment: str) -> str:
        """The first of those that carry a segment's output now."""
        carriers = self.log.carriers(segment)
        return carriers[0].unit if carriers else UnitId(segment=segment).name

    def _newest(self, segment: str) -> int:
        unit = self._unit(segment)
        number = self.log.newest_batch(unit)
        while number >= 0 and self.log.slice(unit, number) is None:
            number -= 1
        return number

    def _interval(self, segment: str) -> int:
        return self.deployment.segment(segment).batch_epochs

    def _due(self, item: Slice, segment: str) -> float:
        """When the first batch interval in a slice was over."""
        origin = self.log.origin()
        if origin is None:
            raise CheckFailedError("no source has started")
        upto = min(item.upto, item.after + self._interval(segment))
        return origin + (upto + 1) * self.deployment.epoch_s

    def _first_after(self, segment: str, number: int, killed: float) -> float | None:
        """From the kill, or from when it was due, to the first slice from a number on."""
        for item in self.log.slices_from(self._unit(segment), number):
            at = self.log.put_time(item)
            if at is not None and at > killed:
                return max(0.0, at - max(killed, self._due(item, segment)))
        return None

    def _keeps_up(self, segment: str, first: int) -> bool:
        last = self._newest(segment)
        return last - STEADY >= first and all(
            item is not None and item.upto - item.after == self._interval(segment)
            for item in (self.log.slice(self._unit(segment), last - n) for n in range(STEADY))
        )

    def _in_time(self, segment: str, item: Slice) -> bool:
        """Whether a slice came before the next one could have been due."""
        at, origin = self.log.put_time(item), self.log.origin()
        if at is None or origin is None:
            return False
        ahead = item.upto + 1 + self._interval(segment)
        return at <= origin + ahead * self.deployment.epoch_s

    # Processes

    def _node(self, segment: str) -> str:
        """The node of the replica that publishes."""
        name = self._unit(segment)
        units = [unit for unit in self.run.status().units if UnitId.parse(unit.unit).name == name]
        found = next((unit for unit in units if unit.leads), units[0]).node
        if found is None:
            raise CheckFailedError(f"{segment} has no node")
        return found

    def _used(self, node: str) -> float:
        child = self.run.launcher.node(node)
        if child is None:
            raise CheckFailedError(f"{node} is gone")
        spent = [psutil.Process(pid).cpu_times() for pid in session_members(child.pid)]
        return float(sum(item.user + item.system for item in spent))

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + DEADLINE_S
        while not condition():
            if time.monotonic() > end:
                watched = ", ".join(self.trial.watched)
                raise CheckFailedError(f"{watched}: not seen within {DEADLINE_S:.0f} s: {what}")
            self._note()
            time.sleep(POLL_S)
