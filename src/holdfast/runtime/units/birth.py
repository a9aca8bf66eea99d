"""Where a unit begins, and what waits for it from there on."""

from __future__ import annotations

import threading

from holdfast.runtime.log.slicelog import SupersededError
from holdfast.runtime.log.takeable import Takeable
from holdfast.runtime.units.progress import Progress
from holdfast.runtime.units.threads import UnitContext
from holdfast.streams.handover import Birth
from holdfast.streams.repair import Repairs
from holdfast.streams.steps import Newest, claims

BIRTH_LOOK_S = 0.02
"""How often a unit looks whether it is born: nobody reads its stream on before."""
PATIENCE_S = 60.0
"""How long one who is ready waits for those who are born with it. Parents go on meanwhile, so it
costs nobody a row; but one that never gets ready, on a node without room, must not hold up all."""


def is_awaited(context: UnitContext, protocol: Repairs) -> bool:
    """Whether others are to hand over to the unit and have not: it has time to get ready."""
    log = context.log
    change = log.run(protocol.change(context.unit.segment, context.unit.change))
    return change.how == "run" and log.run(protocol.birth(context.name)) == "not yet"


def await_birth(
    context: UnitContext, protocol: Repairs, progress: Progress, stopping: threading.Event
) -> Birth:
    """Where the unit begins; waits until those before it have handed over.

    One that waits is warm, and counts as running: it has nothing to take. Its parents turn when all
    who are born with it have claimed what is to be theirs, which they do when they are ready: so
    nobody waits for a query to be planned. Whoever put the change may have died long ago.
    """
    log, name = context.log, context.name
    began: float | None = None
    turned = False
    while True:
        found = log.run(protocol.birth(name))
        if isinstance(found, Birth):
            return found
        if found == "void":
            raise SupersededError(f"{name}: the change that made it was overtaken")
        now = context.clock.now()
        if began is None:
            began = now
            progress.tell(state="running", doing="waiting for its parents to hand over")
        if not turned and (now - began >= PATIENCE_S or _all_ready(context, protocol)):
            turned = True
            log.run(protocol.carry_out(context.unit.segment))
        if stopping.wait(BIRTH_LOOK_S):
            raise SupersededError(f"{name} was stopped before it was born")
        log.check_current(name, context.generation, context.replica)


def _all_ready(context: UnitContext, protocol: Repairs) -> bool:
    """Whether those born with the unit are ready; where logs are halted, nobody waits."""
    log = context.log
    change = log.run(protocol.change(context.unit.segment, context.unit.change))
    if change.how != "run":
        return True
    return all(log.records.execute(Newest(claims(one.unit, 0))) >= 0 for one in change.children)


def follow_inputs(context: UnitContext, born: Birth) -> Takeable:
    """What the unit could take, from the newest batch on that is decided and published."""
    log, name = context.log, context.name
    number, done = log.newest_batch(name), born.epoch
    if number >= 0:
        newest = log.need_range(name, number)
        done = newest.upto if log.slice(name, number) is not None else newest.after
    return Takeable(log, context.streams, batch_epochs=context.segment.batch_epochs, done=done)
