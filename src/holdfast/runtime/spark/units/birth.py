"""Waiting for a unit's birth: until those before it have handed over."""

from __future__ import annotations

import threading

from holdfast.runtime.log.slicelog import SupersededError
from holdfast.runtime.units.progress import Progress
from holdfast.runtime.units.threads import UnitContext
from holdfast.streams.handover import Birth, Handover

LOOK_S = 0.02
"""How often it looks: nobody reads on before it is born."""


def await_birth(
    context: UnitContext, protocol: Handover, progress: Progress, stopping: threading.Event
) -> Birth:
    """Where a unit begins. One that waits is warm, and counts as running: it has nothing to do."""
    told = False
    while True:
        found = context.log.run(protocol.birth(context.name))
        if isinstance(found, Birth):
            return found
        if found == "void":
            raise SupersededError(f"{context.name}: the change that made it was overtaken")
        if not told:
            # Whoever put the change may have died before it was carried out.
            context.log.run(protocol.carry_out(context.unit.segment))
            progress.tell(state="running", doing="waiting for its parents to hand over")
            told = True
        if stopping.wait(LOOK_S):
            raise SupersededError(f"{context.name} was stopped before it was born")
        context.log.check_current(context.name, context.generation, context.replica)
