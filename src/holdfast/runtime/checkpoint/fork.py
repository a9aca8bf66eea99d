"""The first checkpoint of a unit of a fork: the last commit of its exact unit, which stands still.

It is cloned under a name of its own first, a *seed*, and the branch that is put on record names it.
So whoever begins counts only with the clone that belongs to the branch, also if two generations
begin at once while the exact unit goes on. The exact unit's checkpoints are only read.
"""

from __future__ import annotations

import json
import uuid

from holdfast.deployment import UnitId
from holdfast.errors import HoldfastError
from holdfast.runtime.checkpoint.clone import clone_between, generations, next_batch
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.forked import ForkedLog
from holdfast.storage.identity import new_id
from holdfast.streams.records import Branch


def begin_from_exact(
    log: ForkedLog, unit: UnitId, generation: int, *, rows: int, crash: Crash
) -> Branch:
    """See that a unit of a fork has a branch, and this generation the state that belongs to it.

    For one that has no checkpoint of its own yet. `rows` of the clock source stand for one batch.
    """
    steps = log.steps()
    branch = log.run(steps.branch(unit.name))
    if branch is None:
        seed = _seed(log, unit, generation)
        _clone_exact(log, unit, seed, rows=rows, crash=crash)
        batch = next_batch(log.store.below(seed), rows)
        if batch is None:
            raise HoldfastError(f"{unit}: the checkpoint of {unit.exact} cannot be read")
        crash.at("before-branch", unit.name)
        branch = log.run(steps.begin(batch, generation=generation))
        crash.at("after-branch", unit.name)
    else:
        branch = log.run(steps.begin(branch.batch, generation=branch.generation))
    clone_between(
        log.store,
        _seed(log, unit, branch.generation),
        log.layout.checkpoint(unit, generation),
        unit=unit.name,
        crash=crash,
    )
    return branch


def _clone_exact(log: ForkedLog, unit: UnitId, seed: str, *, rows: int, crash: Crash) -> None:
    """The checkpoint that has come furthest, of whichever replica; it may be in use."""
    best: tuple[int, str] | None = None
    for other in unit.exact.replicas:
        there = generations(log.store.below(log.layout.checkpoints(str(other))))
        for generation in there[-1:]:
            name = log.layout.checkpoint(other, generation)
            reached = next_batch(log.store.below(name), rows)
            if reached is not None and (best is None or reached > best[0]):
                best = reached, name
    if best is None:
        log.store.make_checkpoint(seed)
        return
    clone_between(log.store, best[1], seed, unit=unit.name, crash=crash)
    # Spark would take both for one query, and stop the exact one. Its file is linked: put another
    # one in its place, without the checksum that Hadoop has put beside it.
    log.store.delete(f"{seed}/.metadata.crc")
    identity = json.dumps({"id": str(uuid.UUID(new_id()))}).encode()
    log.store.replace(f"{seed}/metadata", identity)


def _seed(log: ForkedLog, unit: UnitId, generation: int) -> str:
    return f"{log.layout.checkpoints(str(unit))}/seed-{generation}"
