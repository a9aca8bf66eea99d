"""Which path of a split carries its stream: Pathfinder's circuit breakers, fed by Nexus.

Every heartbeat brings a sample of the unit that carries a split's stream, which has a node to
itself: what waits and what is done, and processor time and memory of its own process. Nexus judges
it; what it finds, and an exception, opens the path's breaker. The lowest in order with a closed
breaker is active. To leave a path is a `halt` on the records (`holdfast.streams.paths`), which the
shell puts: what is decided here is *when*. So a leader that dies in between harms nothing: its
successor finds the breakers in the journal, compares who is active with the records, and goes on.

Cold paths that do not carry run nowhere; spares have rehearsed them. A probe runs on a node that
has no unit. Hot ones are segments that run all along, each on a node of its own, and are judged
whether they carry or not; one that is on trial is sound when it has caught up, and one that has
failed for good is shut down. If no path may carry, the input waits in the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, assert_never

from holdfast.control.commands import KeepPath, StartProbe, StopProbe, TakePath
from holdfast.control.events import (
    Gauges,
    HandoverRequested,
    Heartbeat,
    PathAsked,
    PathCarried,
    PathKept,
    UnitReport,
)
from holdfast.control.facts import (
    BreakerChanged,
    DownReason,
    PathFact,
    PathLeft,
    PathPreferred,
    PathTaken,
    SplitOpened,
)
from holdfast.control.hot import HotLife, HotPaths
from holdfast.control.lingering import FORGET_S, LeftUnits
from holdfast.control.outlet import Moment, Outlet
from holdfast.control.probing import Places, ProbeLife
from holdfast.control.state.path_state import PathState
from holdfast.control.state.unit_state import UnitRecord, UnitState
from holdfast.deployment import Deployment, UnitId
from holdfast.health import breaker as b
from holdfast.health.nexus.classify import Nexus
from holdfast.health.nexus.history import Sample
from holdfast.health.policy import Policy

LOOK_S = 2.0
"""How often the records are asked again while another path carries than is to."""
Splits = Mapping[str, Mapping[str, str]]
"""Split to its paths in their order, each with a fingerprint of what it does."""


class Loads(Places, Protocol):
    """What it sees of nodes."""

    def give_back(self, node: str, load: int) -> None: ...


class Signs(Protocol):
    """What it sees of units' signs of life."""

    def gone(self, unit: UnitId) -> None: ...


class Heirs(Protocol):
    """Who has units started."""

    def begin(self, moment: Moment, event: HandoverRequested) -> None: ...


@dataclass(slots=True, kw_only=True)
class _Split:
    """What is known of a split for the moment."""

    breakers: b.Breakers
    carried: str = ""
    """The path that carries its stream, as the records said last; empty: not known yet."""
    units: tuple[UnitId, ...] = ()
    looked_at: float = 0.0


class PathLife:
    """Sees splits, their units and what these report; decides which path carries each."""

    def __init__(
        self,
        *,
        splits: Splits,
        hot: HotPaths,
        state: PathState,
        units: UnitState,
        signs: Signs,
        loads: Loads,
        heirs: Heirs,
        nexus: Nexus,
        policy: Policy,
        out: Outlet[PathFact, TakePath | KeepPath | StartProbe | StopProbe],
    ) -> None:
        self._wanted = splits
        self._hot = HotLife(hot)
        self._state = state
        self._units = units
        self._signs = signs
        self._loads = loads
        self._heirs = heirs
        self._nexus = nexus
        self._policy = policy
        self._out = out
        self._splits: dict[str, _Split] = {}
        self._probes = ProbeLife(places=loads, out=out)
        self._errors: dict[str, int] = {}
        """Exceptions ever, by split and path."""
        self._left = LeftUnits()
        """When generations of units were left that have not ended yet."""

    def begin(self, moment: Moment, *, anew: bool) -> None:
        """A coordinator begins to lead; in a new launch what a person has opened stays so.

        Whoever launches has had the chance to repair the rest.
        """
        for split, paths in self._wanted.items():
            before = self._state.splits.get(split)
            known = b.forgiven(before) if anew and before is not None else before
            made = b.Breakers(paths, now=moment.now, policy=self._policy.breaker, before=known)
            # Who is active follows from the breakers; the records are asked for it below.
            made.handle(b.Tick(), moment.now, places=0)
            self._splits[split] = _Split(breakers=made)
            if made.state != before:
                self._out.record(
                    SplitOpened(at=moment.now, cause=moment.cause, split=split, state=made.state)
                )
            self._take(moment, split, "a coordinator begins to lead")
            self._keep(moment, split)

    def tick(self, moment: Moment) -> None:
        """Time has passed: probes may be due, and what was asked for may not have happened."""
        for of, ended in self._probes.lost():
            self._handle(moment, of, ended)
        self._left.forget(moment.now - FORGET_S)
        self._hot.forget(moment.now - FORGET_S)
        for name, split in self._splits.items():
            self._handle(moment, name, b.Tick())
            active = split.breakers.active
            due = moment.now - split.looked_at >= LOOK_S
            if due and not self._as_wanted(name, split, active):
                self._take(moment, name, "it is to carry the stream and does not")
            self._keep(moment, name)

    def _as_wanted(self, name: str, split: _Split, active: str | None) -> bool:
        """Whether the active path carries; others run if somebody else has halted the stream.

        With none, whether none runs: another launch may have deployed it.
        """
        there = {record.unit for record in self._units.of_segment(name)}
        if active is None:
            return not there
        return active == split.carried and there == set(split.units)

    def carried(self, moment: Moment, event: PathCarried) -> None:
        """The records say which path carries a split's stream."""
        split = self._splits.get(event.split)
        if split is None:
            return
        if event.path != split.carried or event.units != split.units:
            self._forget(event.split, split)
        split.carried, split.units = event.path, event.units
        active = split.breakers.active
        if active is None:
            self._leave(moment, event.split, keep=())
        elif event.path == active:
            self._leave(moment, event.split, keep=self._up(event.units))
            self._heirs.begin(
                moment,
                HandoverRequested(
                    cause=moment.cause,
                    stream=event.split,
                    change=event.change,
                    parents=(),
                    children=event.units,
                    reason=event.reason,
                ),
            )

    def kept(self, moment: Moment, event: PathKept) -> None:
        """The records say who runs a hot path."""
        self._hot.kept(event.segment, runs=event.runs)
        if not event.runs:
            self._leave(moment, event.segment, keep=())
        elif event.units:
            self._heirs.begin(
                moment,
                HandoverRequested(
                    cause=moment.cause,
                    stream=event.segment,
                    change=event.units[0].change,
                    parents=(),
                    children=event.units,
                    reason="its path is trusted again",
                ),
            )

    def _keep(self, moment: Moment, name: str) -> None:
        """See that hot paths run, but for those that have failed for good."""
        known = {item.path: item for item in self._splits[name].breakers.state.breakers}
        for segment, path in self._hot.of(name):
            breaker = known[path]
            # Also if a person has opened it since: it is not begun again to be used by nobody.
            runs = breaker.bad_probes < self._policy.breaker.probes
            if self._hot.to_keep(segment, moment.now, runs=runs):
                self._out.send(
                    KeepPath(cause=moment.cause, segment=segment, runs=runs, reason=breaker.why)
                )

    def _up(self, units: tuple[UnitId, ...]) -> tuple[UnitId, ...]:
        """Those that are not held: of a path, its breaker says whether it is tried again."""
        records = [(unit, self._units.of(unit)) for unit in units]
        return tuple(unit for unit, known in records if known is None or known.phase != "held")

    @property
    def restless(self) -> frozenset[str]:
        """Nodes on which a unit that was left may not have ended yet: it may hang, or leak."""
        return self._left.nodes

    def heard(self, moment: Moment, event: Heartbeat) -> None:
        """A live node has told how its units and its processes do."""
        self._left.heard(event.node, event.reports)
        for told in event.reports:
            self._note_lingering(moment, event.node, told)
            place = self._place(told.unit)
            current = told.state == "running" and self._is_placed(told, event.node)
            if place is not None and current:
                self._judge(moment, place, told, event.gauges)
        for probe in event.probes:
            ended = self._probes.heard(moment, event.node, probe)
            if ended is not None:
                self._handle(moment, probe.split, ended)

    @property
    def probed_on(self) -> frozenset[str]:
        """Nodes on which a path is probed."""
        return self._probes.nodes

    def make_way(self, moment: Moment, node: str) -> None:
        """A node is to run a unit: what is probed there is put off."""
        for split, put_off in self._probes.in_the_way(node):
            self._handle(moment, split, put_off)

    def failed(
        self, moment: Moment, record: UnitRecord, reason: DownReason, why: str | None
    ) -> None:
        """A generation of a unit has ended against our will."""
        place = self._place(record.unit)
        if place is None:
            return
        held = record.phase == "held"
        match reason:
            case "error" | "stopped by itself":
                key = _key(place, record.unit)
                self._errors[key] = self._errors.get(key, 0) + 1
                self._fail(moment, place, why or reason, given_up=held)
            case "stalled" | "never started":
                self._fail(moment, place, why or reason, given_up=held)
            case "node lost":
                window_s = self._policy.breaker.window_s
                lost = [at for at in record.crashes if moment.now - at < window_s]
                if held or len(lost) >= self._policy.breaker.losses:
                    why = f"its process was lost {len(lost)} times"
                    self._fail(moment, place, why, given_up=held)
            case "no space" | "left behind":
                pass
            case _:
                assert_never(reason)

    def carries(self, split: str) -> str:
        """The path that carries a split's stream, as the records said last; empty: not known."""
        known = self._splits.get(split)
        return known.carried if known is not None else ""

    def knows(self, event: PathAsked) -> bool:
        """Whether there is what somebody asks for."""
        paths = self._wanted.get(event.split)
        return paths is not None and (
            event.path in paths or (event.what == "prefer" and not event.path)
        )

    def ask(self, moment: Moment, event: PathAsked) -> None:
        """Someone wants a path to be left, to be trusted again, or to be preferred."""
        match event.what:
            case "open":
                self._handle(moment, event.split, b.OpenAsked(path=event.path))
            case "close":
                self._handle(moment, event.split, b.CloseAsked(path=event.path))
            case "prefer":
                self._handle(moment, event.split, b.PreferAsked(path=event.path))
            case _:
                assert_never(event.what)

    def lingering(self, moment: Moment, node: str, reports: tuple[UnitReport, ...]) -> str | None:
        """Why a node is to be killed: a unit of a path that was left does not end there."""
        for told in reports:
            if self._left.lingers(told, moment.now):
                return f"{told.unit} on {node} does not end though its path was left"
            if self._hot.keeps_failing(told, moment.now):
                return f"{told.unit} on {node} is a hot path that keeps failing"
        return None

    def revived(self) -> list[UnitId]:
        """Units of hot paths that are held, and whose breakers let them be tried."""
        found: list[UnitId] = []
        for segment, (name, path) in self._hot.segments.items():
            known = self._splits[name].breakers.state.breakers if name in self._splits else ()
            if any(item.path == path and item.state in ("closed", "half-open") for item in known):
                records = self._units.of_segment(segment)
                found += [record.unit for record in records if record.phase == "held"]
        return found

    # What paths report

    def _place(self, unit: UnitId) -> tuple[str, str] | None:
        """The split and the path that a unit tells of; None: of none.

        What takes the rows of hot paths is none of them.
        """
        split = self._splits.get(unit.segment)
        if split is None or unit not in split.units or self._hot.has(unit.segment):
            return self._hot.place(unit)
        return unit.segment, split.carried

    def _is_placed(self, told: UnitReport, node: str) -> bool:
        """Whether a node is to run what it tells of."""
        found = self._units.of(told.unit)
        return found is not None and (found.node, found.generation) == (node, told.generation)

    def _judge(
        self, moment: Moment, place: tuple[str, str], told: UnitReport, gauges: Gauges
    ) -> None:
        key = _key(place, told.unit)
        begun = told.batch >= 0
        # What a node's processes use says nothing about one of several units on it.
        own = gauges.processes > 0 and told.unit.segment in self._policy.alone
        sample = Sample(
            at=moment.now,
            waiting=told.waiting,
            arrived=told.epoch + 1 + told.waiting if begun else None,
            taken=told.epoch + 1 if begun else 0,
            given=told.batch + 1,
            rows=told.rows_in,
            errors=self._errors.get(key, 0),
            cpu=gauges.cpu if own else None,
            memory_bytes=gauges.worker_bytes or None if own else None,
            batch_ms=told.batch_ms if begun else None,
            suspended=gauges.suspended if own else 0,
        )
        found = self._nexus.observe(key, sample)
        again = self._splits[place[0]].breakers.counts_again(place[1], moment.now)
        for finding in found:
            if again or finding.since == moment.now:
                self._fail(moment, place, f"{finding.rule}: {finding.why}")
        beside = [record.unit for record in self._units.of_segment(told.unit.segment)]
        trial = self._hot.heard(told, moment.now, ill=bool(found), beside=beside)
        if trial is not None:
            why = "it runs along and has caught up"
            ended = b.ProbeEnded(path=place[1], probe=trial, good=True, why=why)
            self._handle(moment, place[0], ended)

    def _note_lingering(self, moment: Moment, node: str, told: UnitReport) -> None:
        if told.state not in ("starting", "running"):
            self._left.ended(told)
        elif told.unit.segment in self._splits and not self._is_placed(told, node):
            # A leader before this one has left it.
            self._left.found(told, node, moment.now)

    def _fail(
        self, moment: Moment, place: tuple[str, str], why: str, *, given_up: bool = False
    ) -> None:
        name, path = place
        last = why.strip().rpartition("\n")[2]
        self._handle(moment, name, b.PathFailed(path=path, why=last, given_up=given_up))

    def _forget(self, name: str, split: _Split) -> None:
        """Another unit runs: what the one before has shown lately says nothing about it."""
        for unit in split.units:
            self._nexus.restart(f"{name}:{split.carried}#{unit.shard}")

    # Breakers

    def _handle(self, moment: Moment, name: str, event: b.BreakerEvent) -> None:
        split = self._splits[name]
        places = None if self._hot.has(name) else len(self._probes.free(self.restless))
        commands = split.breakers.handle(event, moment.now, places=places)
        self._journal(moment, name, split.breakers.state, commands)
        for command in commands:
            match command:
                case b.Activate():
                    self._take(moment, name, command.why)
                case b.AllDown():
                    self._leave(moment, name, keep=())
                case b.StartProbe():
                    if not self._hot.try_out((name, command.path), command.probe):
                        self._probes.start(moment, name, command, self.restless)
                case b.StopProbe():
                    self._hot.end_trial((name, command.path))
                    self._probes.stop(moment, name, command.path)
                case b.ShutDown():
                    pass  # nothing of a cold path runs that does not carry; hot ones: below
                case _:
                    assert_never(command)
        if commands:
            self._keep(moment, name)

    def _journal(
        self,
        moment: Moment,
        name: str,
        after: b.SplitState,
        commands: list[b.BreakerCommand],
    ) -> None:
        before = self._state.splits[name]
        at, cause = moment.now, moment.cause
        for known, now in zip(before.breakers, after.breakers, strict=True):
            if known != now:
                self._out.record(BreakerChanged(at=at, cause=cause, split=name, breaker=now))
        if before.preferred != after.preferred:
            self._out.record(PathPreferred(at=at, cause=cause, split=name, path=after.preferred))
        if before.active != after.active:
            turns = [x for x in commands if isinstance(x, b.Activate | b.AllDown)]
            self._out.record(
                PathTaken(
                    at=at,
                    cause=cause,
                    split=name,
                    path=after.active or "",
                    before=before.active or "",
                    why=turns[-1].why if turns else "",
                )
            )

    def _take(self, moment: Moment, name: str, why: str) -> None:
        split = self._splits[name]
        split.looked_at = moment.now
        self._out.send(
            TakePath(cause=moment.cause, split=name, path=split.breakers.active or "", reason=why)
        )

    def _leave(self, moment: Moment, name: str, *, keep: tuple[UnitId, ...]) -> None:
        """Units of a split are not to run any more; whoever still reports them is told to stop."""
        left = [record for record in self._units.of_segment(name) if record.unit not in keep]
        if not left:
            return
        nodes = [record.node for record in left if record.node is not None]
        for record in left:
            self._signs.gone(record.unit)
            if record.node is not None:
                self._left.leave(record.unit, record.generation, record.node, moment.now)
        units = tuple(record.unit for record in left)
        self._out.record(PathLeft(at=moment.now, cause=moment.cause, split=name, units=units))
        for node in nodes:
            self._loads.give_back(node, self._units.load(node))


def _key(place: tuple[str, str], unit: UnitId) -> str:
    """What Nexus knows a unit of a path by."""
    return f"{place[0]}:{place[1]}#{unit.shard}"


def path_versions(deployment: Deployment) -> dict[str, dict[str, str]]:
    """The paths of each split, with what they are known by: a changed split begins anew."""
    return {
        segment.name: dict.fromkeys(segment.paths, deployment.fingerprints.get(segment.name, ""))
        for segment in deployment.segments
        if segment.paths
    }
