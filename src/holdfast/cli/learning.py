"""What a run teaches, kept in its directory; and whether its promise still holds."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from holdfast.cli.profiles import Grounds
    from holdfast.control.status import RunView
    from holdfast.learning.difference import PlanChange
    from holdfast.learning.samples import Learned, Recovery, Told
    from holdfast.learning.standing import Standing
    from holdfast.pipeline import Pipeline
    from holdfast.plan import JointPlan, Plan
    from holdfast.planners.interface import PlanRequest
    from holdfast.predict.statistics import Statistics
    from holdfast.rundir.promise import Promise
    from holdfast.topology.graph import Topology

Say = Callable[[str], None]
SAMPLE_S = 5.0
"""Time between two looks that are kept."""
SAVE_S = 30.0
"""Time between two times that the promise is looked at, and everything is written down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised:
    """What a run by a joint plan promises, and the numbers that rest behind it."""

    plan: JointPlan
    topology: Topology
    statistics: Statistics

    def standing(self, learned: Learned, broken_before: tuple[str, ...] = ()) -> Standing:
        """How the promise stands with what was learned."""
        from holdfast.learning.standing import standing

        return standing(self.topology, self.statistics, self.plan, learned, broken_before)


def promised_by(app: str, pipeline: Pipeline, plan: Plan | None) -> Promised | str | None:
    """What a run promises; why nobody can tell whether it holds; None: it promises nothing."""
    from holdfast.cli.profiles import own_profile, profile_path
    from holdfast.errors import HoldfastError
    from holdfast.pipeline.growth import with_max_shards
    from holdfast.plan import JointPlan

    if not isinstance(plan, JointPlan) or not plan.feasible or not plan.segments:
        return None
    try:
        statistics = own_profile(app, pipeline.name)
    except (HoldfastError, OSError) as error:
        return str(error)
    if statistics is None:
        return f"there is no {profile_path(app, pipeline.name)}: holdfast profile {app}"
    topology = with_max_shards(pipeline, plan.max_shards).topology()
    known = {one.name for one in topology.operators}
    if not known.issuperset(statistics.operators):
        return f"the profile is of another pipeline: holdfast profile {app}"
    return Promised(plan=plan, topology=topology, statistics=statistics)


def read_learned(run_dir: Path) -> Learned:
    """What is known of a run so far."""
    from holdfast.learning.samples import Learned
    from holdfast.rundir.contents import LEARNED

    return Learned.from_json(_read(run_dir, LEARNED))


def told_by(view: RunView) -> tuple[list[Told], list[Recovery]]:
    """What units say that run, and recoveries from lost nodes that have ended.

    Nothing is taken of a segment of which a unit starts. Followers compute what leaders publish.
    """
    from holdfast.deployment import UnitId
    from holdfast.learning.samples import Recovery, Told

    told: list[Told] = []
    idle = set()
    for unit in view.units:
        segment = UnitId.parse(unit.unit).segment
        if unit.leads is False:
            continue
        if unit.phase != "running" or not unit.batch_ms or unit.epoch is None:
            idle.add(segment)
            continue
        told.append(
            Told(
                unit=unit.unit,
                segment=segment,
                generation=unit.generation,
                epoch=unit.epoch,
                rows_in=unit.rows_in or 0,
                batch_s=unit.batch_ms / 1000.0,
                state_bytes=None if unit.state_bytes is None else float(unit.state_bytes),
            )
        )
    recoveries = [
        Recovery(
            id=one.id,
            segment=UnitId.parse(one.unit).segment,
            detect_s=one.detect_s,
            restore_s=one.restore_s,
            cause=one.cause,
        )
        for one in view.recoveries
        if one.outcome == "caught up"
        and one.reason == "node lost"  # a unit that fails by itself is restarted where it was
        and one.detect_s is not None
        and one.restore_s is not None
    ]
    return [one for one in told if one.segment not in idle], recoveries


@dataclass(slots=True)
class Keeper:
    """Keeps what a run teaches while it runs, and says when its promise no longer holds."""

    run_dir: Path
    say: Say
    """Told when nothing can be written, once, and when the promise breaks or holds again."""
    epoch_s: float
    promised: Promised | str | None = None
    warning: str | None = field(default=None, init=False)
    """Why the promise does not hold at present."""
    _failed: bool = field(default=False, init=False)
    _learned: Learned = field(init=False)
    _base: dict[str, Told] = field(default_factory=dict, init=False)
    _broken: tuple[str, ...] = field(default=(), init=False)
    _looked: float = field(default=-math.inf, init=False)
    _saved: float = field(default=-math.inf, init=False)
    """A run that is resumed is judged at once by what it has taught before."""

    def __post_init__(self) -> None:
        from holdfast.rundir.promise import read_promise

        self._learned = read_learned(self.run_dir)
        self._broken = read_promise(self.run_dir).broken

    def look(self, view: RunView) -> None:
        """Look at a run, if it is time to; nothing counts while something recovers."""
        from holdfast.learning.samples import compare

        now = time.monotonic()
        if view.status != "running" or now - self._looked < SAMPLE_S:
            return
        if any(one.outcome == "open" for one in view.recoveries):
            return
        self._looked = now
        told, recoveries = told_by(view)
        seen, self._base = compare(self._base, told, self.epoch_s)
        self._learned = self._learned.add(seen, recoveries)
        if now - self._saved >= SAVE_S:
            self.save()

    def save(self) -> None:
        """Judge the promise and write all down; a run goes on if that fails, and learns on."""
        from holdfast.rundir.contents import LEARNED
        from holdfast.rundir.promise import write_promise
        from holdfast.storage import open_storage

        self._saved = time.monotonic()
        try:
            learned = json.dumps(self._learned.to_json()).encode()
            open_storage(self.run_dir).replace(LEARNED, learned)
            write_promise(self.run_dir, self._judged())
        except OSError as error:
            if not self._failed:
                self.say(f"warning: what this run teaches cannot be kept: {error}")
            self._failed = True

    def _judged(self) -> Promise:
        from holdfast.rundir.promise import Promise

        if self.promised is None:
            return Promise()
        if isinstance(self.promised, str):
            return Promise(unknown=self.promised)
        try:
            standing = self.promised.standing(self._learned, self._broken)
        except Exception as error:  # noqa: BLE001 - a run does not end because of its prediction
            why = f"{type(error).__name__}: {error}"
            self.say(f"warning: whether the promise holds is not known: {why}")
            self.promised = why
            return Promise(unknown=why)
        before, self.warning = self.warning, standing.warning
        if self.warning is not None and before is None:
            self.say(f"warning: {self.warning}")
        elif self.warning is None and before is not None:
            self.say("the promise holds again")
        self._broken = tuple(standing.broken)
        drifts = tuple(one.words for one in standing.drifts)
        return Promise(warning=self.warning, broken=self._broken, drifts=drifts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.save()


def keep_plan(run_dir: Path, plan: Plan | None) -> None:
    """Keep the plan that a run goes by; a run without one promises nothing."""
    from holdfast.rundir.contents import PLAN
    from holdfast.storage import open_storage

    text = json.dumps(None if plan is None else plan.to_json())
    open_storage(run_dir).replace(PLAN, text.encode())


def run_plan(run_dir: Path) -> JointPlan | None:
    """The joint plan that a run goes by, if any."""
    from holdfast.rundir.contents import PLAN

    told = _read(run_dir, PLAN)
    if not told:
        return None
    from holdfast.plan import JointPlan
    from holdfast.plan.document import parse_plan

    found = parse_plan(told, origin=f"{run_dir}/{PLAN}")
    return found if isinstance(found, JointPlan) and found.feasible else None


def _read(run_dir: Path, name: str) -> dict[str, Any]:
    """A JSON object of a run directory; empty if there is none."""
    from holdfast.storage import open_storage

    stored = open_storage(run_dir).read(name)
    return (None if stored is None else json.loads(stored)) or {}


def changes(standing: Standing, before: JointPlan, after: Plan, unit_s: float) -> list[PlanChange]:
    """What another plan does otherwise, and why."""
    from holdfast.learning.difference import differences, explained
    from holdfast.plan import JointPlan

    if not isinstance(after, JointPlan) or not after.feasible:
        return []
    found = differences(before, after, seconds=unit_s)
    return explained(found, before, standing.drifts, standing.broken)


def replanned(promised: Promised, learned: Learned, *, say: Say, another: str) -> JointPlan:
    """The plan to go on with: made again with the same bounds.

    Nodes are as many as before unless the bounds cannot be kept with them. Where the best plan has
    other cuts or followers, that is said, with what it would take (`another`), and the best with
    those that there are is gone on with. Where no plan keeps the bounds, the one before is.
    """
    from holdfast.learning.difference import beyond_settings, tell
    from holdfast.learning.standing import seconds_per_unit
    from holdfast.planners.interface import PlanRequest

    before, unit_s = promised.plan, seconds_per_unit(promised.topology)
    now = promised.standing(learned)
    for drift in now.drifts:
        say(drift.words)
    request = PlanRequest(
        statistics=now.statistics,
        max_recovery=before.max_recovery,
        max_overhead=before.max_overhead,
        max_latency=before.max_latency,
        max_outage=before.max_outage,
        max_replicas=before.max_replicas,
        nodes=max(1, len(before.nodes)),
    )
    after = _planned(promised, request)
    if after is None:
        say("no plan keeps the bounds any more, so the one before goes on")
        return before
    found = changes(now, before, after, unit_s)
    tell(found, say)
    beyond = beyond_settings(found)
    if not beyond:
        return after
    say(f"{len(beyond)} of these need other units; {another}")
    cut = set(before.boundaries)
    uncut = [one.name for one in promised.topology.operators if one.name not in cut]
    same = replace(request, required=before.boundaries, forbidden=tuple(uncut))
    kept = _planned(promised, same)
    if kept is None or beyond_settings(found := changes(now, before, kept, unit_s)):
        say("with the units there are no plan keeps the bounds, so the one before goes on")
        return before
    say("with the units there are:")
    tell(found, say)
    return kept


def _planned(promised: Promised, request: PlanRequest) -> JointPlan | None:
    """A plan that keeps the bounds, on more nodes if it takes them; None: there is none."""
    from holdfast.clock import SystemClock
    from holdfast.plan import JointPlan
    from holdfast.planners.planning import plan_topology

    for asked in (request, replace(request, nodes=None)):
        found = plan_topology(promised.topology, asked, clock=SystemClock(), method="joint")
        if isinstance(found, JointPlan) and found.feasible:
            # State stays in the partitions that it is in.
            same = promised.plan
            return replace(
                found,
                max_growth=same.max_growth,
                max_shards=same.max_shards,
                max_shards_why=same.max_shards_why,
            )
    return None


def replan_run(
    app: str, pipeline: Pipeline, run_dir: Path, plan: Path | None, say: Say
) -> JointPlan:
    """What `run --replan` goes on with."""
    from holdfast.errors import BadInputError
    from holdfast.rundir.contents import is_run

    if plan is not None:
        raise BadInputError("makes its own plan", where="--replan", hint="leave --plan out")
    if not is_run(run_dir):
        raise BadInputError("is not a run directory", where=str(run_dir), hint="--plan FILE first")
    before = run_plan(run_dir)
    if before is None:
        raise BadInputError(
            "has no plan of method joint to make again", where=str(run_dir), hint="--plan FILE"
        )
    promised = promised_by(app, pipeline, before)
    if not isinstance(promised, Promised):
        raise BadInputError(
            f"needs a profile to refine: {promised}",
            where="--replan",
            hint=f"holdfast profile {app}",
        )
    another = (
        f"to go over to them: holdfast plan {app} --from {run_dir} -o PLAN.json with the bounds, "
        f"then holdfast run {app} --plan PLAN.json -d {run_dir}"
    )
    return replanned(promised, read_learned(run_dir), say=say, another=another)


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """What `plan --from RUN` plans from, and compares with."""

    grounds: Grounds
    plan: JointPlan
    standing: Standing
    unit_s: float
    """Seconds in a unit of the plan's time."""

    def tell(self, after: Plan, say: Say) -> None:
        """What another plan would change against the one that runs, and why."""
        from holdfast.learning.difference import tell

        if self.standing.warning is not None:
            say(self.standing.warning)
        tell(changes(self.standing, self.plan, after, self.unit_s), say)


def relearned(found: Grounds, topology: Topology, run_dir: Path) -> Again:
    """What a plan rests on, with what a run taught in the place of what was profiled."""
    from holdfast.errors import BadInputError
    from holdfast.learning.standing import seconds_per_unit
    from holdfast.rundir.contents import is_run

    if not is_run(run_dir):
        raise BadInputError("is not a run directory", where=f"--from {run_dir}")
    plan, learned = run_plan(run_dir), read_learned(run_dir)
    if plan is None or found.statistics is None:
        raise BadInputError(
            "has no plan of method joint, so nothing was promised that could have changed",
            where=f"--from {run_dir}",
            hint="run --plan FILE keeps its plan there",
        )
    promised = Promised(plan=plan, topology=topology, statistics=found.statistics)
    now = promised.standing(learned)
    told = "; ".join(drift.words for drift in now.drifts) or "nothing has changed"
    grounds = replace(
        found,
        statistics=now.statistics,
        said=f"{found.said} Since then, seen by {run_dir}: {told}.",
    )
    scale = seconds_per_unit(topology)
    return Again(grounds=grounds, plan=plan, standing=now, unit_s=scale)
