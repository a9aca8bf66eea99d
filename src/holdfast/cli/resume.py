"""Whether a run directory can be resumed, and what `--reset` removes.

A unit's state and slices were made by the code that ran then. Going on with other code would mix
two results in one, so it is refused by operator name unless the operator is reset.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from holdfast.deployment import Deployment, UnitId
from holdfast.errors import BadInputError
from holdfast.pipeline.fingerprint import fingerprint
from holdfast.pipeline.operators import PipelineOperator
from holdfast.rundir.contents import is_run
from holdfast.rundir.spec import RunSpec, read_spec, write_spec
from holdfast.runtime.checkpoint.clone import newest_checkpoint, next_batch
from holdfast.runtime.launch.run import nothing_running
from holdfast.runtime.log.anew import (
    Prepare,
    Start,
    affected,
    begin_anew,
    finish_restart,
    with_changes,
)
from holdfast.runtime.log.crash import crash_plan
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.start import (
    find_gap,
    lost_offset,
    rebuilt_start,
    refusal,
    thread_start,
)
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.recut import Keeping, Recut, forget_vanished, restated, unlike
from holdfast.streams.records import Change, Restart, stream_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """Where what begins anew is to begin, as `--from` says."""

    everyone: Start | None = None
    operators: Mapping[str, Start] = field(default_factory=dict)

    @classmethod
    def parse(cls, words: Collection[str]) -> Starts:
        """EPOCH, `now` or `earliest` for all, or OPERATOR=... for one."""
        everyone: Start | None = None
        operators: dict[str, Start] = {}
        for word in words:
            operator, equals, told = word.rpartition("=")
            start = _start(told, word)
            if equals and operator not in operators:
                operators[operator] = start
            elif equals or everyone is not None:
                raise BadInputError("is said twice", where="--from", hint="--from OPERATOR=EPOCH")
            else:
                everyone = start
        return cls(everyone=everyone, operators=operators)

    def of(self, operator: str) -> Start | None:
        return self.operators.get(operator, self.everyone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """What a run directory is gone on with."""

    spec: RunSpec
    """With the changes that its segments have begun with."""
    fresh: Mapping[str, int] = field(default_factory=dict)
    """Segments that begin anew, and the first epoch they read."""
    recut: Sequence[Change] = ()
    """What becomes of streams that the plan cuts otherwise than the run did."""
    restated: Collection[str] = ()
    """Those of them whose state Spark has to repartition."""
    again: Callable[[], Resume]
    """Looks once more: what was there may have gone on since."""


def check_resume(
    run_dir: Path,
    spec: RunSpec,
    reset: Collection[str],
    starts: Starts | None = None,
    operators: Sequence[PipelineOperator] = (),
) -> Resume | None:
    """What there is to go on with; raises if it does not fit what is to run. None: nothing.

    `operators` are those of the pipeline, if other cuts may take the run over.
    """
    starts = starts or Starts()
    if not is_run(run_dir):
        if reset or starts != Starts():
            raise BadInputError("nothing to reset", where=str(run_dir))
        return None
    with nothing_running(run_dir):
        return _look(run_dir, spec, reset, starts, operators)


def _look(
    run_dir: Path,
    spec: RunSpec,
    reset: Collection[str],
    starts: Starts,
    operators: Sequence[PipelineOperator],
) -> Resume:
    again = partial(_look, run_dir, spec, reset, starts, operators)
    log = SliceLog(run_dir)
    finish_restart(log, _forgets(run_dir, log, spec.deployment), crash_plan())
    before = read_spec(run_dir).deployment
    if before.pipeline != spec.deployment.pipeline:
        raise BadInputError(
            f"holds a run of pipeline {before.pipeline!r}",
            where=str(run_dir),
            hint="choose another --run-dir",
        )
    if before.epoch_s != spec.deployment.epoch_s:
        raise BadInputError(
            f"the epoch was {before.epoch_s} s and is {spec.deployment.epoch_s} s now",
            where=before.pipeline,
            hint="keep it, or choose another --run-dir",
        )
    spec = replace(spec, deployment=with_changes(log, spec.deployment))
    after = spec.deployment
    chosen = _chosen(before, after, reset, starts)
    if chosen or unlike(before, after):
        begin(log, before)  # whoever began the run may have been killed before all of it was
    cuts = Recut(log, before, after, _keeping(operators, spec))
    if chosen:
        _check_cuts(before, after, chosen, may_change=bool(operators))
    fresh = _fresh(cuts, after, chosen, starts)
    refused = _changed_code(before, after, fresh, operators)
    if refused is not None:
        operator, error = refused
        if operator not in before.fingerprints and operator in _sinks(after):
            raise error
        # What it would be told after a reset, it is told at once.
        wider = {item.name: 0 for item in affected(after, [*chosen, operator])}
        gap = _gap(log, spec, {**wider, **fresh}, options=f"--reset {operator} ")
        raise error if gap is None else _after_reset(error, gap, "use the same code")
    forget_vanished(log, before)
    _check_cuts(before, after, chosen, may_change=bool(operators))
    changes = cuts.changes(fresh) if unlike(before, after, fresh) else ()
    appear = {
        change.stream: change.start + 1
        for change in changes
        if change.start is not None and change.children
    }
    gap = _gap(log, spec, {**appear, **fresh}, {change.stream for change in changes})
    if gap is not None:
        raise gap
    anew = [change.stream for change in changes if _is_restated(log, before, after, change)]
    return Resume(spec=spec, fresh=fresh, recut=changes, restated=anew, again=again)


def _is_restated(log: SliceLog, before: Deployment, after: Deployment, change: Change) -> bool:
    """Whether who carries a stream on has its state in other partitions than those before."""
    owners = {stream_of(unit) for unit, _ in change.state}
    return any(
        restated(log, item, after.segment(change.stream))
        for item in before.segments
        if item.name in owners
    )


def _keeping(operators: Sequence[PipelineOperator], spec: RunSpec) -> Keeping:
    return Keeping(
        stateful=[item.name for item in operators if item.keeps_state],
        quarantining=[item.name for item in operators if item.on_error == "quarantine"],
        rows=int(spec.options.get("partitions", 1)),
    )


def _check_cuts(
    before: Deployment, after: Deployment, chosen: Collection[str], *, may_change: bool
) -> None:
    """Raise if the plan cuts otherwise than the run, and that cannot be at this start.

    Sinks and operators may be added at the same start, but nothing that ran be begun anew.
    """
    fresh = affected(after, chosen)
    other = unlike(before, after, {segment.name for segment in fresh})
    known = [name for item in fresh for name in item.operators if name in before.fingerprints]
    if not other or (may_change and not known):
        return
    name = other[0].operators[0]
    ways = f"use the same plan, leave out --no-recut, --reset {name}, or another --run-dir"
    raise BadInputError(
        "the plan cuts or shards it otherwise than when this run began",
        where=other[0].name,
        hint="reset at one start, and change the cuts at another" if known else ways,
    )


def _start(told: str, word: str) -> Start:
    if told in ("now", "earliest"):
        return "now" if told == "now" else "earliest"
    if not (told.isascii() and told.isdigit() and len(told) < 19):
        raise BadInputError("is not an epoch, now or earliest", where=f"--from {word}")
    return int(told)


def _chosen(
    before: Deployment, after: Deployment, reset: Collection[str], starts: Starts
) -> list[str]:
    """Operators that begin anew: those to be reset, and sinks added since that say where."""
    operators = {name for segment in after.segments for name in segment.operators}
    for name, option in (*((name, "--reset") for name in reset), *_named(starts)):
        if name not in operators:
            raise BadInputError("no such operator", where=f"{option} {name}")
    added = [
        segment.name
        for segment in after.segments
        if segment.kind == "exporter"
        and segment.name not in before.fingerprints
        and starts.of(segment.name) is not None
    ]
    chosen = list(dict.fromkeys([*reset, *added]))
    idle = [name for name in starts.operators if name not in chosen]
    if idle or (starts.everyone is not None and not chosen):
        where = f"--from {idle[0]}=" if idle else "--from"
        hint = "--reset OPERATOR"
        if idle and idle[0] in _sinks(before):
            # Whoever added it may have been killed, and not know that it was decided.
            hint = f"the run has it already: leave that out, or --reset {idle[0]}"
        raise BadInputError("nothing is reset or added there", where=where, hint=hint)
    return chosen


def _named(starts: Starts) -> list[tuple[str, str]]:
    return [(name, "--from") for name in starts.operators]


def _fresh(
    cuts: Recut, deployment: Deployment, chosen: Collection[str], starts: Starts
) -> dict[str, int]:
    """Segments that begin anew, and where: with everything that reads from them."""
    together: dict[Start, list[str]] = {}
    for name in chosen:
        start = starts.of(name)
        together.setdefault(0 if start is None else start, []).append(name)
    found: dict[str, int] = {}
    for start, names in together.items():
        segments = affected(deployment, names)
        epoch = cuts.first_epoch(segments, start)
        for segment in segments:
            if found.setdefault(segment.name, epoch) != epoch:
                raise BadInputError(
                    f"would begin at epochs {found[segment.name]} and {epoch}",
                    where=segment.name,
                    hint="give all it reads from one --from",
                )
    return found


def reset_operators(run_dir: Path, resume: Resume) -> Resume:
    """Let segments begin anew, or go on with other cuts; gives what is to run then.

    The state and slices they had are removed once nobody needs them.
    """
    with nothing_running(run_dir):
        resume = resume.again()
        log, deployment = SliceLog(run_dir), resume.spec.deployment
        prepare, crash = _forgets(run_dir, log, deployment), crash_plan()
        fresh, besides = resume.fresh, resume.recut
        made = begin_anew(log, deployment, fresh, besides=besides, prepare=prepare, crash=crash)
    return replace(resume, spec=replace(resume.spec, deployment=made))


def require_unchanged(run_dir: Path, deployment: Deployment) -> None:
    """Raise if somebody has reset or cut the run otherwise since it was looked at."""
    if is_run(run_dir) and with_changes(SliceLog(run_dir), deployment) != deployment:
        raise BadInputError(
            "was reset or cut otherwise by somebody else meanwhile",
            where=str(run_dir),
            hint="start it again",
        )


def announced(resumed: Resume) -> str:
    """What begins anew, or goes on otherwise than before, in words."""
    said = [f"{name} begins at epoch {epoch}" for name, epoch in resumed.fresh.items()]
    changed = [_taken(change, resumed.restated) for change in resumed.recut]
    taken = f"other cuts take over: {', '.join(changed)}"
    return "; ".join([*([", ".join(said)] if said else []), *([taken] if resumed.recut else [])])


def _taken(change: Change, restated: Collection[str]) -> str:
    """What becomes of a stream that is cut otherwise, in words."""
    if not change.children:
        return f"{change.stream} is no stream any more"
    owners = dict.fromkeys(stream_of(unit) for unit, _ in change.state)
    state = f" with the state of {' and '.join(owners)}" if owners else ""
    if change.stream in restated:
        state += f", which Spark repartitions into {change.children[0].of}"
    since = -1 if change.since is None else change.since
    return f"{change.stream} goes on from epoch {since + 1}{state}"


def _forgets(run_dir: Path, log: SliceLog, deployment: Deployment) -> Prepare:
    """Notes what runs from now on, and removes what segments that begin anew must not go on with.

    Schemas may have changed with the code, and static tables are read again.
    """
    from holdfast.rundir.layout import SCHEMAS
    from holdfast.storage.identity import new_id

    def forget(record: Restart) -> None:
        fresh = [change.stream for change in record.changes if change.since is None]
        for segment in deployment.segments:
            for name in segment.operators if segment.name in fresh else ():
                folder = log.layout.tables(name)
                log.store.remove_folder(folder, aside=log.layout.removed(new_id()))
        log.store.delete(SCHEMAS)
        if record.deployment is not None:
            made = Deployment.from_json(record.deployment)
            write_spec(run_dir, replace(read_spec(run_dir), deployment=made))

    return forget


def _present(log: SliceLog, deployment: Deployment) -> list[UnitId]:
    """The units that are to run: those that carry the streams by now, else the first ones."""
    found: list[UnitId] = []
    for segment in deployment.segments:
        carriers = log.carriers(segment.name)
        first = [UnitId(segment=segment.name, shard=shard) for shard in range(segment.shards)]
        found += [UnitId.parse(child.unit) for child in carriers] or first
    return found


def _gap(
    log: SliceLog,
    spec: RunSpec,
    fresh: Mapping[str, int],
    but: Collection[str] = (),
    options: str = "",
) -> BadInputError | None:
    """Why a unit could only wait for ever for slices that are trimmed, if one could.

    Segments named in `but` are not looked at: they have been. What is begun anew there will need
    these `options` as well.
    """
    if spec.host != "spark":
        return None
    deployment = spec.deployment
    for unit in _present(log, deployment):
        if unit.segment in but:
            continue
        segment = deployment.segment(unit.segment)
        begins = segment.name in fresh
        folder = log.store.below(log.layout.checkpoints(str(unit)))
        if segment.kind == "source" and not begins and newest_checkpoint(folder) is None:
            lost = lost_offset(log, unit)
            if lost is not None:
                return lost
        checkpointed = segment.kind == "inner" and not begins
        first: int | None
        if checkpointed:
            found = newest_checkpoint(folder)
            rows = int(spec.options.get("partitions", 1))
            kept = next_batch(found, rows) if found else None
            first = kept if found else 0
            if kept is not None or not found:
                rebuilt = rebuilt_start(log, deployment, unit, first=kept, fresh=fresh)
                first = first if rebuilt is None else rebuilt
        else:
            first = 0 if begins else thread_start(log, unit)
        gap = None if first is None else find_gap(log, deployment, unit, first=first, fresh=fresh)
        if gap is not None:
            chosen = fresh if begins else {}
            return refusal(
                log, deployment, gap, checkpointed=checkpointed, chosen=chosen, options=options
            )
    return None


def _after_reset(error: BadInputError, gap: BadInputError, back: str) -> BadInputError:
    what = f"{error.what}; reset, {gap.where} {gap.what}"
    return BadInputError(what, where=error.where, hint=f"{back}, or {gap.hint}")


def _changed_code(
    before: Deployment,
    after: Deployment,
    fresh: Collection[str],
    operators: Sequence[PipelineOperator],
) -> tuple[str, BadInputError] | None:
    """An operator whose code is not that of the run and which is not reset, and what to say."""
    covered = {
        name for segment in after.segments if segment.name in fresh for name in segment.operators
    }
    sinks = _sinks(after)
    for name, now in after.fingerprints.items():
        known = before.fingerprints.get(name)
        if name in covered or known == now:
            continue
        if any(op.name == name and _only_partitions(op, before) for op in operators):
            continue
        if known is None and name in sinks:
            return name, BadInputError(
                "is new since this run began",
                where=name,
                hint=f"say where it begins: --from {name}=now, earliest or an epoch; "
                "or choose another --run-dir",
            )
        what = "is new" if known is None else "its code or options have changed"
        return name, BadInputError(
            f"{what} since this run began",
            where=name,
            hint=f"--reset {name} drops its state and that of all after it; "
            "or choose another --run-dir",
        )
    return None


def _only_partitions(operator: PipelineOperator, before: Deployment) -> bool:
    """Whether an operator is that of the run but for its `shards` and `max_shards`.

    Not that of a source: which rows it makes depends on it.
    """
    owners = [item for item in before.segments if operator.name in item.operators]
    known = before.fingerprints.get(operator.name)
    return operator.kind != "source" and any(
        fingerprint(replace(operator, max_shards=most, shards=shards)) == known
        for owner in owners
        for most in {None, 1, owner.max_shards}
        for shards in {1, owner.shards, operator.shards}
    )


def _sinks(deployment: Deployment) -> set[str]:
    return {segment.name for segment in deployment.segments if segment.kind == "exporter"}
