"""Faults in the first path of a split, and how soon the next one takes over and the first is back.

The paper's topology (examples/locations.py), on nodes of their own. A fault is put into the
functions of the first path: its workers are stopped (SLP), every row takes longer (THR), memory
leaks (MEM), it raises (ERR). Times are those of the records: from the fault to the first slice that
the next path published; and from when the fault has ended and the probe that closed the breaker had
begun, whichever is later, to the first slice of the first path. What arrives is checked against an
independent computation.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from holdfast.clock import SystemClock
from holdfast.control.facts import BreakerChanged
from holdfast.deployment import Segment
from holdfast.faults.campaign import Campaign
from holdfast.faults.inject import Injector
from holdfast.faults.schedule import Fault, FaultKind, Schedule
from holdfast.health.breaker import BreakerPolicy
from holdfast.pipeline import Pipeline, deploy, load_pipeline
from holdfast.pipeline.claims import claims
from holdfast.rundir.contents import sabotage_path
from holdfast.rundir.layout import member, record_folder
from holdfast.rundir.spec import RunSpec
from holdfast.runtime.launch.local import LaunchSettings
from holdfast.runtime.launch.run import LocalRun, all_running
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.node.processes import session_members
from holdfast.runtime.paths import carried, splits
from holdfast.streams.steps import changes
from holdfast.testing.adaptations import Adapted, Phase
from holdfast.verify.check import verify

AMOUNT: dict[FaultKind, str] = {"slp": "", "thr": "400", "mem": "200", "err": ""}
"""Milliseconds a row; megabytes a second."""
SETTLE_S: dict[FaultKind, float] = {"slp": 10.0, "thr": 10.0, "mem": 34.0, "err": 5.0}
"""Without a fault, before each: a leak is told from a start by what was used for half a minute."""
FAULT_S = 6.0
OPEN_S = 4.0
SETTLED_S = 5.0
DEADLINE_S = 120.0


def adapt(
    app: Path,
    kinds: Sequence[str],
    folder: Path,
    *,
    tell: Callable[[Adapted], None] = lambda _: None,
) -> tuple[list[Adapted], bool]:
    """Faults one after another in one run, and whether the rows were right in the end."""
    pipeline = load_pipeline(str(app))
    found: list[Adapted] = []
    with _running(app, pipeline, folder) as run:
        split = splits(deploy(pipeline))[0]
        for kind in (known for word in kinds for known in AMOUNT if known == word):
            found.append(_one(run, kind, split))
            tell(found[-1])
    return found, verify(run.run_dir, claims(pipeline)).ok


def stay_calm(app: Path, folder: Path, span_s: float) -> tuple[list[str], bool]:
    """Why breakers opened in a while without any fault, and whether the rows were right."""
    pipeline = load_pipeline(str(app))
    alarms: dict[tuple[str, float], str] = {}
    with _running(app, pipeline, folder) as run:
        end = time.monotonic() + span_s
        while time.monotonic() < end:
            for fact in run.status().timeline:
                if isinstance(fact, BreakerChanged) and fact.breaker.state == "open":
                    where = f"{fact.split}:{fact.breaker.path}"
                    alarms[where, fact.breaker.since] = f"{where}: {fact.breaker.why}"
            time.sleep(1.0)
    return list(alarms.values()), verify(run.run_dir, claims(pipeline)).ok


@contextmanager
def _running(app: Path, pipeline: Pipeline, folder: Path) -> Iterator[LocalRun]:
    """A run in which all nodes are warm; it is stopped at the end."""
    deployment = deploy(pipeline)
    campaign = Campaign(
        app=str(app),
        pipeline=pipeline,
        deployment=deployment,
        schedule=Schedule(faults=(Fault(at_s=0, kind="slp"),)),
        nodes=1,
        spares=1,
        breaker=BreakerPolicy(open_s=OPEN_S, cooldown_s=OPEN_S, settled_s=SETTLED_S),
    )
    spec = RunSpec(
        app=campaign.app,
        host="spark",
        deployment=deployment,
        policy=campaign.policy,
        options=campaign.options,
    )
    nodes = campaign.policy.workers
    run = LocalRun(folder, spec, LaunchSettings(nodes=nodes, spares=campaign.spares))
    with run:
        run.wait_for(all_running, DEADLINE_S, "the start")
        run.wait_for(
            lambda view: sum(node.ready for node in view.nodes) == nodes + campaign.spares,
            DEADLINE_S,
            "warmth",
        )
        yield run


def _one(run: LocalRun, kind: FaultKind, split: Segment) -> Adapted:
    first = split.paths[0]
    calm = time.monotonic() + SETTLE_S[kind]
    while time.monotonic() < calm:
        # The breaker must be closed and the path must carry all that time.
        if not _on(run, first):
            calm = time.monotonic() + SETTLE_S[kind]
        time.sleep(0.2)
    log = SliceLog(run.run_dir)
    before = carried(log, split).change
    fault = Fault(
        at_s=0.0, kind=kind, target=f"{split.name}:{first}", duration_s=FAULT_S, text=AMOUNT[kind]
    )
    injector = Injector(
        run,
        Schedule(faults=(fault,)),
        SystemClock(),
        processes=lambda name: _processes(run, name),
    )
    injector.step()
    place = sabotage_path(run.run_dir, split.name, first)
    began = place.stat().st_mtime
    ended = 0.0
    slices: dict[int, float] = {}
    end = time.monotonic() + DEADLINE_S
    while injector.step() or ended == 0.0 or not _on(run, first) or len(slices) < 2:
        if ended == 0.0 and not place.exists():
            ended = time.time()
        if time.monotonic() > end:
            raise TimeoutError(f"{kind}: {run.status().splits}")
        _note_slices(log, split, before, slices)
        time.sleep(0.05)
    return _adapted(run, kind, split, log, before, began, ended, slices)


def _note_slices(log: SliceLog, split: Segment, before: int, known: dict[int, float]) -> None:
    """When the first slice of each change after `before` was put; soon they are trimmed."""
    for change in log.run(log.steps().changes_of(split.name))[before + 1 :]:
        if change.number not in known:
            found = log.slice(change.children[0].unit, 0)
            at = log.put_time(found) if found is not None else None
            if at is not None:
                known[change.number] = at


def _on(run: LocalRun, path: str) -> bool:
    view = run.status()
    (split,) = view.splits
    return split.active == split.carried == path and all_running(view)


def _adapted(
    run: LocalRun,
    kind: str,
    split: Segment,
    log: SliceLog,
    before: int,
    began: float,
    ended: float,
    slices: dict[int, float],
) -> Adapted:
    """From the journal's timeline and the put times of records."""
    left, back = before + 1, max(slices)
    facts = [
        fact
        for fact in run.status().timeline
        if isinstance(fact, BreakerChanged) and fact.breaker.path == split.paths[0]
    ]
    opened = next(f for f in facts if f.breaker.state == "open" and f.at > began)
    first, last = slices[left], slices[back]
    probe = max(f.at for f in facts if f.breaker.state == "half-open" and f.at < last)
    cut = log.store.put_time(member(record_folder(changes(split.name)), left)) or 0.0
    return Adapted(
        kind=kind,
        why=opened.breaker.why,
        detect_s=round(opened.at - began, 3),
        switch_s=round(cut - opened.at, 3),
        start_s=round(first - cut, 3),
        adapt_s=round(first - began, 3),
        return_s=round(last - max(ended, probe), 3),
        bad_probes=max(f.breaker.bad_probes for f in facts),
        phases=_phases(split, facts, began, ended, slices, back),
    )


def _phases(
    split: Segment,
    facts: Sequence[BreakerChanged],
    began: float,
    ended: float,
    slices: dict[int, float],
    back: int,
) -> tuple[Phase, ...]:
    """As the paper's figure 7 has them."""
    first = min(slices.values())
    found = [
        ("fault", began, ended),
        ("no path", began, first),
        (split.paths[1], first, slices[back]),
        (split.paths[0], slices[back], slices[back] + OPEN_S),
    ]
    probes = [fact for fact in facts if fact.at > began]
    for fact, after in itertools.pairwise(probes):
        if fact.breaker.state == "half-open":
            found.append((f"probe {fact.breaker.probe}", fact.at, after.at))
    return tuple(
        Phase(what=what, start_s=round(start - began, 3), end_s=round(end - began, 3))
        for what, start, end in found
    )


def _processes(run: LocalRun, name: str) -> list[int]:
    child = run.launcher.node(name)
    return session_members(child.pid, run.launcher.launch) if child else []
