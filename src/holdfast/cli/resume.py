"""Whether a run directory can be resumed, and what `--reset` removes.

A unit's state and slices were made by the code that ran then. Going on with other code would mix
two results in one, so it is refused by operator name unless the operator is reset.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.deployment import Deployment, Segment, UnitId
from holdfast.errors import BadInputError
from holdfast.rundir.paths import is_run
from holdfast.rundir.spec import RunSpec, read_spec

if TYPE_CHECKING:
    from holdfast.runtime.log.slicelog import SliceLog


def check_resume(run_dir: Path, spec: RunSpec, reset: Collection[str]) -> bool:
    """Whether there is something to go on with; raises if it does not fit what is to run."""
    if not is_run(run_dir):
        if reset:
            raise BadInputError("nothing to reset", where=str(run_dir))
        return False
    before = read_spec(run_dir).deployment
    after = spec.deployment
    if before.pipeline != after.pipeline:
        raise BadInputError(
            f"holds a run of pipeline {before.pipeline!r}",
            where=str(run_dir),
            hint="choose another --run-dir",
        )
    operators = {name for segment in after.segments for name in segment.operators}
    for name in reset:
        if name not in operators:
            raise BadInputError("no such operator", where=f"--reset {name}")
    if before.epoch_s != after.epoch_s:
        raise BadInputError(
            f"the epoch was {before.epoch_s} s and is {after.epoch_s} s now",
            where=after.pipeline,
            hint="keep it, or choose another --run-dir",
        )
    fresh = {segment.name for segment in affected(after, reset)}
    for refused, back in (
        (_changed_code(before, after, fresh), "use the same code"),
        (_changed_plan(before, after, fresh), "use the same plan"),
    ):
        if refused is not None:
            operator, error = refused
            # What it would be told after a reset, it is told at once.
            wider = {segment.name for segment in affected(after, [*reset, operator])}
            gap = _gap(run_dir, spec, wider)
            raise error if gap is None else _after_reset(error, gap, back)
    gap = _gap(run_dir, spec, fresh)
    if gap is not None:
        raise gap
    return True


def affected(deployment: Deployment, operators: Collection[str]) -> tuple[Segment, ...]:
    """The segments of some operators and all that read from them, directly or not."""
    chosen: list[Segment] = []
    logs: set[str] = set()
    for segment in deployment.segments:
        if set(segment.operators) & set(operators) or set(segment.inputs) & logs:
            chosen.append(segment)
            logs.update(boundary.name for boundary in segment.outputs)
    return tuple(chosen)


def reset_operators(run_dir: Path, deployment: Deployment, operators: Collection[str]) -> list[str]:
    """Forget state, slices and progress of the affected segments; gives their names."""
    from holdfast.rundir.layout import SCHEMAS, stream_folder, unit_folder
    from holdfast.runtime.log.slicelog import SliceLog
    from holdfast.storage.identity import new_id

    log = SliceLog(run_dir)
    layout, store = log.layout, log.store
    chosen = affected(deployment, operators)
    # A kill may leave half of this. So readers go first: none is left to go on in a log that is
    # numbered anew. A unit with a checkpoint goes by that, then by its records: without them it
    # begins with batch 0, or is refused if that is trimmed. A source goes by its records alone.
    for segment in reversed(chosen):
        units = _units(log, segment)
        state = [layout.checkpoints(unit) for unit in units]
        records = [unit_folder(unit) for unit in units]
        # Last: a unit that still has state goes on with the tables it was made with.
        tables = [layout.tables(name) for name in segment.operators]
        folders = [*state, *records, stream_folder(segment.name), *tables]
        for folder in folders:
            # Whole or not at all; what lies aside is removed here, or when a run is started.
            store.remove_folder(folder, aside=layout.removed(new_id()))
    # Schemas may have changed with the code. The journal stays: it knows the generations, and a
    # number handed out twice would pass for a zombie.
    store.delete(SCHEMAS)
    return [segment.name for segment in chosen]


def _units(log: SliceLog, segment: Segment) -> list[str]:
    """All units that have ever carried a segment's stream, and those that are to."""
    made = log.run(log.steps().changes_of(segment.name))
    known = [child.unit for change in made for child in change.children]
    first = [str(UnitId(segment=segment.name, shard=shard)) for shard in range(segment.shards)]
    return list(dict.fromkeys([*known, *first]))


def _present(log: SliceLog, deployment: Deployment) -> list[UnitId]:
    """The units that are to run: those that carry the streams by now, else the first ones."""
    found: list[UnitId] = []
    for segment in deployment.segments:
        carriers = log.carriers(segment.name)
        first = [UnitId(segment=segment.name, shard=shard) for shard in range(segment.shards)]
        found += [UnitId.parse(child.unit) for child in carriers] or first
    return found


def _gap(run_dir: Path, spec: RunSpec, fresh: set[str]) -> BadInputError | None:
    """Why a unit could only wait for ever for slices that are trimmed, if one could."""
    from holdfast.runtime.checkpoint.clone import newest_checkpoint, next_batch
    from holdfast.runtime.log.slicelog import SliceLog
    from holdfast.runtime.log.start import (
        find_gap,
        lost_offset,
        rebuilt_start,
        refusal,
        thread_start,
    )

    if spec.host != "spark":
        return None
    log, deployment = SliceLog(run_dir), spec.deployment
    for unit in _present(log, deployment):
        segment = deployment.segment(unit.segment)
        anew = segment.name in fresh
        folder = log.store.below(log.layout.checkpoints(str(unit)))
        if segment.kind == "source" and not anew and newest_checkpoint(folder) is None:
            lost = lost_offset(log, unit)
            if lost is not None:
                return lost
        checkpointed = segment.kind == "inner" and not anew
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
            first = 0 if anew else thread_start(log, unit)
        gap = None if first is None else find_gap(log, deployment, unit, first=first, fresh=fresh)
        if gap is not None:
            chosen = fresh if anew else ()
            return refusal(log, deployment, gap, checkpointed=checkpointed, chosen=chosen)
    return None


def _after_reset(error: BadInputError, gap: BadInputError, back: str) -> BadInputError:
    what = f"{error.what}; reset, {gap.where} {gap.what}"
    return BadInputError(what, where=error.where, hint=f"{back}, or {gap.hint}")


def _changed_code(
    before: Deployment, after: Deployment, fresh: set[str]
) -> tuple[str, BadInputError] | None:
    """An operator whose code is not that of the run and which is not reset, and what to say."""
    covered = {
        name for segment in after.segments if segment.name in fresh for name in segment.operators
    }
    for name, fingerprint in after.fingerprints.items():
        known = before.fingerprints.get(name)
        if name in covered or known == fingerprint:
            continue
        what = "is new" if known is None else "its code or options have changed"
        return name, BadInputError(
            f"{what} since this run began",
            where=name,
            hint=f"--reset {name} drops its state and that of all after it; "
            "or choose another --run-dir",
        )
    return None


def _changed_plan(
    before: Deployment, after: Deployment, fresh: set[str]
) -> tuple[str, BadInputError] | None:
    """An operator whose segment is not that of the run and which is not reset, and what to say."""
    known = {segment.name: segment for segment in before.segments}
    for segment in after.segments:
        if segment.name not in fresh and known.get(segment.name) != segment:
            operator = segment.operators[0]
            return operator, BadInputError(
                "the plan cuts, shards or paces it otherwise than when this run began",
                where=segment.name,
                hint=f"use the same plan, --reset {operator}, or another --run-dir",
            )
    return None
