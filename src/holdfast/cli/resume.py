"""Whether a run directory may be gone on with, and what `--reset` removes.

A unit's state and slices were made by the code that ran then. Going on with other code would mix
two results in one, so it is refused by operator name unless the operator is reset.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from holdfast.control.shell.rundir import RunSpec, read_spec, spec_path
from holdfast.deployment import Deployment, Segment
from holdfast.errors import BadInputError


def check_resume(run_dir: Path, spec: RunSpec, reset: Collection[str]) -> bool:
    """Whether there is something to go on with; raises if it does not fit what is to run."""
    if not spec_path(run_dir).exists():
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
    _check_code(before, after, fresh)
    _check_plan(before, after, fresh)
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
    from holdfast.runtime.log.layout import word

    chosen = affected(deployment, operators)
    for segment in chosen:
        for boundary in segment.outputs:
            shutil.rmtree(run_dir / "log" / word(boundary.name), ignore_errors=True)
        for shard in range(segment.shards):
            unit = word(f"{segment.name}#{shard}")
            shutil.rmtree(run_dir / "units" / unit, ignore_errors=True)
            shutil.rmtree(run_dir / "checkpoints" / unit, ignore_errors=True)
    # Schemas may have changed with the code. The journal stays: it knows the generations, and a
    # number handed out twice would pass for a zombie.
    (run_dir / "schemas.json").unlink(missing_ok=True)
    return [segment.name for segment in chosen]


def _check_code(before: Deployment, after: Deployment, fresh: set[str]) -> None:
    covered = {
        name for segment in after.segments if segment.name in fresh for name in segment.operators
    }
    for name, fingerprint in after.fingerprints.items():
        known = before.fingerprints.get(name)
        if name in covered or known == fingerprint:
            continue
        what = "is new" if known is None else "its code or options have changed"
        raise BadInputError(
            f"{what} since this run began",
            where=name,
            hint=f"--reset {name} drops its state and that of all after it; "
            "or choose another --run-dir",
        )


def _check_plan(before: Deployment, after: Deployment, fresh: set[str]) -> None:
    known = {segment.name: segment for segment in before.segments}
    for segment in after.segments:
        if segment.name not in fresh and known.get(segment.name) != segment:
            raise BadInputError(
                "the plan cuts, shards or paces it otherwise than when this run began",
                where=segment.name,
                hint=f"use the same plan, --reset {segment.operators[0]}, or another --run-dir",
            )
