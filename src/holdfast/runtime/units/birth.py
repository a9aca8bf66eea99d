"""Where a unit begins, and what waits for it from there on."""

from __future__ import annotations

import threading

from holdfast.runtime.log.slicelog import SupersededError
from holdfast.runtime.log.takeable import Takeable
from holdfast.runtime.units.progress import Progress
from holdfast.runtime.units.threads import UnitContext
from holdfast.streams.handover import Birth
from holdfast.streams.repair import Repairs

BIRTH_LOOK_S = 0.02
"""How often a unit looks whether it is born: nobody reads its stream on before."""


def await_birth(
    context: UnitContext, protocol: Repairs, progress: Progress, stopping: threading.Event
) -> Birth:
    """Where the unit begins; waits until those before it have handed over.

    One that waits is warm, and counts as running: it has nothing to take.
    """
    log, name, waits = context.log, context.name, False
    while True:
        found = log.run(protocol.birth(name))
        if isinstance(found, Birth):
            return found
        if found == "void":
            raise SupersededError(f"{name}: the change that made it was overtaken")
        if not waits:
            waits = True
            # Whoever put the change may have died before it was carried out.
            log.run(protocol.carry_out(context.unit.segment))
            progress.tell(state="running", doing="waiting for its parents to hand over")
        if stopping.wait(BIRTH_LOOK_S):
            raise SupersededError(f"{name} was stopped before it was born")
        log.check_current(name, context.generation, context.replica)


def follow_inputs(context: UnitContext, born: Birth) -> Takeable:
    """What the unit could take, from the newest batch on that is decided and published."""
    log, name = context.log, context.name
    number, done = log.newest_batch(name), born.epoch
    if number >= 0:
        newest = log.need_range(name, number)
        done = newest.upto if log.slice(name, number) is not None else newest.after
    return Takeable(log, context.streams, batch_epochs=context.segment.batch_epochs, done=done)
