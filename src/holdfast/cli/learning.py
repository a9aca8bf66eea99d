"""What a run teaches, kept in its directory; and whether its promise still holds."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from holdfast.cli.profiles import Grounds
    from holdfast.control.status import RunView
    from holdfast.pipeline import Pipeline
    from holdfast.plan import JointPlan, Plan
    from holdfast.predict.learned import Drift, Expected, Learned, Recovery, Seen
    from holdfast.predict.recovery import Prediction
    from holdfast.predict.segments import SegmentPlan
    from holdfast.predict.statistics import Statistics
    from holdfast.topology.graph import Topology

SAMPLE_S = 5.0
"""Time between two looks that are kept."""
SAVE_S = 30.0


def read_learned(run_dir: Path) -> Learned:
    """What is known of a run so far."""
    from holdfast.predict.learned import Learned
    from holdfast.rundir.paths import LEARNED
    from holdfast.storage import open_storage

    stored = open_storage(run_dir).read(LEARNED)
    return Learned() if stored is None else Learned.from_json(json.loads(stored))


def looked_at(view: RunView) -> tuple[dict[str, Seen], list[Recovery]]:
    """One look at every segment whose units all run, and the recoveries that have ended."""
    from holdfast.deployment import UnitId
    from holdfast.predict.learned import Recovery, Seen

    units: dict[str, list[Seen]] = {}
    idle = set()
    for unit in view.units:
        segment = UnitId.parse(unit.unit).segment
        if unit.phase != "running" or unit.leads is False or not unit.batch_ms:
            idle.add(segment)
            continue
        look = Seen(
            rate_in=unit.rate_in,
            batch_s=unit.batch_ms / 1000.0,
            state_bytes=None if unit.state_bytes is None else float(unit.state_bytes),
        )
        units.setdefault(segment, []).append(look)
    recoveries = [
        Recovery(
            id=one.id,
            segment=UnitId.parse(one.unit).segment,
            detect_s=one.detect_s,
            restore_s=one.restore_s,
        )
        for one in view.recoveries
        if one.outcome == "caught up" and one.detect_s is not None and one.restore_s is not None
    ]
    seen = {name: _together(shards) for name, shards in units.items() if name not in idle}
    return seen, recoveries


def _together(shards: list[Seen]) -> Seen:
    from holdfast.predict.learned import Seen

    kept = [one.state_bytes for one in shards if one.state_bytes is not None]
    return Seen(
        rate_in=sum(one.rate_in or 0.0 for one in shards),
        batch_s=max(one.batch_s or 0.0 for one in shards),
        state_bytes=sum(kept) if kept else None,
    )


@dataclass(slots=True)
class Keeper:
    """Keeps what a run teaches, while it runs."""

    run_dir: Path
    say: Callable[[str], None]
    """Told when nothing can be written, once."""
    _failed: bool = field(default=False, init=False)
    _learned: Learned = field(init=False)
    _looked: float = field(default=0.0, init=False)
    _saved: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._learned = read_learned(self.run_dir)
        self._saved = time.monotonic()

    def look(self, view: RunView) -> None:
        """Look at a run, if it is time to; nothing counts while something recovers."""
        now = time.monotonic()
        if view.status != "running" or now - self._looked < SAMPLE_S:
            return
        self._looked = now
        self._learned = self._learned.add(*looked_at(view))
        if now - self._saved >= SAVE_S:
            self.save()

    def save(self) -> None:
        """Write it down; a run goes on if that fails, and learns on."""
        from holdfast.rundir.paths import LEARNED
        from holdfast.storage import open_storage

        self._saved = time.monotonic()
        text = json.dumps(self._learned.to_json())
        try:
            open_storage(self.run_dir).replace(LEARNED, text.encode())
        except OSError as error:
            if not self._failed:
                self.say(f"warning: what this run teaches cannot be kept: {error}")
            self._failed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.save()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the promise of a plan stands with what runs now."""

    statistics: Statistics
    drifts: tuple[Drift, ...]
    broken: Mapping[str, tuple[float, float]]
    """Segments that would break it: 95th percentile now, and the bound, seconds."""

    @property
    def warnings(self) -> list[str]:
        """One line per segment whose promise no longer holds, then why."""
        if not self.broken:
            return []
        lines = [
            f"the promise no longer holds: {name} would recover within {now:.2g} s (p95), "
            f"promised {bound:.2g} s"
            for name, (now, bound) in self.broken.items()
        ]
        why = [f"  {drift.words}" for drift in self.drifts]
        return [*lines, *why, "holdfast plan APP --from RUN plans again from what was seen"]


def standing(
    topology: Topology, statistics: Statistics, plan: JointPlan, learned: Learned
) -> Standing:
    """What a plan promises with what was learned in the place of what was profiled."""
    from holdfast.predict.learned import refined

    now, drifts = refined(statistics, expectations(topology, statistics, plan), learned)
    found = _predicted(topology, now, plan)
    scale = _seconds_per_unit(topology)
    broken = {}
    for i, segment in enumerate(plan.segments):
        promised = plan.recovery_latency[segment.name].p95
        bound = (plan.max_recovery if plan.max_recovery is not None else promised) * scale
        p95 = float(found.phases.p95[i])
        if drifts and p95 > bound * (1 + 1e-6):
            broken[segment.name] = (p95, bound)
    return Standing(statistics=now, drifts=drifts, broken=broken)


def expectations(
    topology: Topology, statistics: Statistics, plan: JointPlan
) -> dict[str, Expected]:
    """What a profile makes one expect of each segment of a plan."""
    from holdfast.predict.learned import Expected
    from holdfast.predict.recovery import RecoveryModel

    model = RecoveryModel(topology, statistics)
    prediction = _predicted(topology, statistics, plan)
    segments = _segment_plans(topology, plan)
    # A run counts a batch from when its input is there, as a model counts its lag.
    lag = model.paced(segments, prediction.pace).lag_s
    found = {}
    for i, segment in enumerate(segments):
        inside = set(segment.operators)
        read = [u for v in inside for u in topology.upstream[v] if u not in inside]
        rows = [float(model.load.emitted.value[u]) for u in read]
        sources = [v for v in inside if not topology.upstream[v]]
        rows += [float(model.load.emitted.value[v]) for v in sources]
        planned = plan.segments[i]
        found[planned.name] = Expected(
            operators=planned.operators,
            rate_in=sum(rows),
            batch_s=float(lag[i]),
            state_bytes=float(model.load.state.value[list(segment.operators)].sum()),
            restore_s=float(prediction.phases.restore[i]),
        )
    return found


def _predicted(topology: Topology, statistics: Statistics, plan: JointPlan) -> Prediction:
    from holdfast.predict.recovery import RecoveryModel

    model = RecoveryModel(topology, statistics)
    segments = _segment_plans(topology, plan)
    place = {segment.name: i for i, segment in enumerate(plan.segments)}
    nodes = [[place[name] for name in node.segments] for node in plan.nodes] or None
    interval, snapshots = segments[0].interval_s, segments[0].snapshot_batches
    uncut = model.uncut_cpu(interval, snapshots)
    return model.predict(segments, plan.spares or 0, uncut_cpu=uncut, nodes=nodes)


def _segment_plans(topology: Topology, plan: JointPlan) -> list[SegmentPlan]:
    from holdfast.predict.segments import SegmentPlan

    scale = _seconds_per_unit(topology)
    return [
        SegmentPlan(
            operators=tuple(topology.index[name] for name in segment.operators),
            interval_s=segment.batch_interval * scale,
            snapshot_batches=segment.snapshot_batches,
            replicated=segment.replicated,
        )
        for segment in plan.segments
    ]


def _seconds_per_unit(topology: Topology) -> float:
    from holdfast.quantities import TIME_UNITS

    return TIME_UNITS[topology.unit.time]


def keep_plan(run_dir: Path, plan: Plan | None) -> None:
    """Keep the plan that a run goes by; a run without one promises nothing."""
    from holdfast.rundir.paths import PLAN
    from holdfast.storage import open_storage

    text = json.dumps(None if plan is None else plan.to_json())
    open_storage(run_dir).replace(PLAN, text.encode())


def run_plan(run_dir: Path) -> JointPlan | None:
    """The joint plan that a run goes by, if any."""
    from holdfast.rundir.paths import PLAN
    from holdfast.storage import open_storage

    stored = open_storage(run_dir).read(PLAN)
    told = None if stored is None else json.loads(stored)
    if told is None:
        return None
    from holdfast.plan import JointPlan
    from holdfast.plan.document import parse_plan

    found = parse_plan(told, origin=f"{run_dir}/{PLAN}")
    return found if isinstance(found, JointPlan) and found.feasible else None


def warnings(run_dir: Path, app: str) -> list[str]:
    """Why the promise of a run no longer holds; nothing if it does, or nothing was promised."""
    plan = run_plan(run_dir)
    if plan is None or not app:
        return []
    from holdfast.cli.profiles import own_profile
    from holdfast.errors import HoldfastError
    from holdfast.pipeline import load_pipeline

    learned = read_learned(run_dir)
    if not learned.segments:
        return []
    try:
        pipeline = load_pipeline(app)
        profiled = own_profile(app, pipeline.name)
        if profiled is None:
            return []
        found = standing(pipeline.topology(), profiled, plan, learned)
    except (HoldfastError, OSError) as error:
        return [f"whether the promise holds is not known: {error}"]
    return found.warnings


def changes(before: JointPlan | None, after: Plan) -> list[str]:
    """What another plan does otherwise, in words."""
    from holdfast.plan import JointPlan

    if before is None or not isinstance(after, JointPlan) or not after.feasible:
        return []
    found = []
    cut, fused = _differ(before.boundaries, after.boundaries)
    if cut:
        found.append(f"would change: cut after {', '.join(cut)}")
    if fused:
        found.append(f"would change: no cut after {', '.join(fused)}")
    was = {one.name: one for one in before.segments}
    for one in after.segments:
        old = was.get(one.name)
        if old is not None and old.batch_interval != one.batch_interval:
            found.append(
                f"would change: batches of {one.name} every {one.batch_interval:g} s "
                f"instead of {old.batch_interval:g} s"
            )
        if old is not None and old.snapshot_batches != one.snapshot_batches:
            found.append(
                f"would change: snapshots of {one.name} every {one.snapshot_batches} batches "
                f"instead of {old.snapshot_batches}"
            )
    if before.spares != after.spares:
        found.append(f"would change: {after.spares} spares instead of {before.spares}")
    if [one.segments for one in before.nodes] != [one.segments for one in after.nodes]:
        found.append("would change: which segments share a node")
    if before.replicas != after.replicas:
        found.append("would change: which units have followers")
    return found or ["would change: nothing"]


def _differ(before: Sequence[str], after: Sequence[str]) -> tuple[list[str], list[str]]:
    """What is there now and was not, and the other way round."""
    more = [name for name in after if name not in before]
    return more, [name for name in before if name not in after]


def replanned(
    topology: Topology, statistics: Statistics, run_dir: Path, say: Callable[[str], None]
) -> JointPlan:
    """The plan to go on with: made again with the same bounds, if only its numbers change.

    Another cut or another follower is said and left to a new run; so is a plan that is not to be
    had any more.
    """
    from holdfast.errors import BadInputError
    from holdfast.plan import JointPlan
    from holdfast.planners.interface import PlanRequest
    from holdfast.planners.planning import plan_topology

    before = run_plan(run_dir)
    if before is None:
        raise BadInputError(
            "has no plan of method joint to make again", where=str(run_dir), hint="--plan FILE"
        )
    now = standing(topology, statistics, before, read_learned(run_dir))
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
    after = plan_topology(topology, request, method="joint")
    if not isinstance(after, JointPlan) or not after.feasible:
        say(f"no plan keeps the bounds any more, so the one before goes on: {after.note}")
        return before
    for line in changes(before, after):
        say(line)
    if set(before.boundaries) != set(after.boundaries) or before.replicas != after.replicas:
        say("cuts and followers cannot change in a run, so the plan before goes on")
        return before
    return after


def replan_run(
    app: str, pipeline: Pipeline, run_dir: Path, plan: Path | None, say: Callable[[str], None]
) -> JointPlan:
    """What `run --replan` goes on with."""
    from holdfast.cli.profiles import grounds
    from holdfast.errors import BadInputError
    from holdfast.rundir.paths import is_run

    if plan is not None:
        raise BadInputError("makes its own plan", where="--replan", hint="leave --plan out")
    if not is_run(run_dir):
        raise BadInputError("is not a run directory", where=str(run_dir), hint="--plan FILE first")
    found = grounds(app, pipeline, None, "joint")
    if found.statistics is None or not found.measured:
        raise BadInputError(
            "needs a profile to refine", where="--replan", hint=f"holdfast profile {app}"
        )
    return replanned(pipeline.topology(), found.statistics, run_dir, say)


def relearned(found: Grounds, topology: Topology, run_dir: Path) -> Grounds:
    """What a plan rests on, with what a run taught in the place of what was profiled."""
    from holdfast.errors import BadInputError
    from holdfast.rundir.paths import is_run

    if not is_run(run_dir):
        raise BadInputError("is not a run directory", where=f"--from {run_dir}")
    plan, learned = run_plan(run_dir), read_learned(run_dir)
    if plan is None or found.statistics is None:
        raise BadInputError(
            "has no plan of method joint, so nothing was promised that could have changed",
            where=f"--from {run_dir}",
            hint="run --plan FILE keeps its plan there",
        )
    now = standing(topology, found.statistics, plan, learned)
    told = "; ".join(drift.words for drift in now.drifts) or "nothing has changed"
    return replace(
        found,
        statistics=now.statistics,
        said=f"{found.said} Since then, seen by {run_dir}: {told}.",
    )
