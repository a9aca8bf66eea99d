"""How many task slots a node needs, so that waiting tasks never keep out those they wait for.

Problem: a batch of a unit is planned before its input is there, so one task per input and partition
waits, and holds a slot, until the units upstream have published. If the waiting tasks of a node's
units take all slots, the units upstream get none, and nothing ever happens again. A slot costs
nothing by itself (threads are made when tasks run), so there are simply more than can be taken.

A node may have to host every unit: after enough failures, one spare gets all of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from holdfast.deployment import Deployment
from holdfast.errors import BadInputError

MIN_SLOTS = 64
READS = 4
"""A function may use its input several times, and Spark then reads it as often, in tasks of its
own; a generation that is being stopped and a rehearsal wait too. So much room is left for them."""
OTHERS = 16
"""Tasks that do not wait: copying a native source, reading files, delivering rows."""


def waiting_tasks(deployment: Deployment, partitions: int = 1, *, scaled: bool = False) -> int:
    """Tasks that wait for input if all units run on one node and read each input once.

    `scaled`: if every operator has as many shards as it may ever have.
    """
    return sum(
        (max(segment.shards, segment.max_shards) if scaled else segment.shards)
        * len(segment.inputs)
        * partitions
        for segment in deployment.segments
        if segment.kind == "inner"
    )


def task_slots(deployment: Deployment, partitions: int = 1) -> int:
    """Slots for a session that may have to run all units, also those that `scale` makes later."""
    return max(MIN_SLOTS, READS * waiting_tasks(deployment, partitions, scaled=True) + OTHERS)


def require_room(
    deployment: Deployment, name: str, now: Mapping[str, int], partitions: int = 1
) -> None:
    """Refuse more shards of a segment than the nodes of a run were started for.

    `now` says how many shards segments may have by now, others as many as they were deployed with:
    all of them wait in the same slots.
    """
    bigger, shards = deployment, now[name]
    for other, number in now.items():
        most = max(number, deployment.segment(other).max_shards)
        bigger = bigger.with_partitions(other, most)
    waiting = waiting_tasks(bigger, partitions, scaled=True)
    slots = task_slots(deployment, partitions)
    if waiting + OTHERS > slots:
        raise BadInputError(
            f"{shards} shards could wait for input in {waiting} tasks at once, and the nodes of "
            f"this run have {slots} task slots",
            where=name,
            hint=f"declare max_shards={shards} or more, stop the run and start it again",
        )


def require_slots(master: str | None, deployment: Deployment, partitions: int = 1) -> None:
    """Refuse a session of this process in which the units would wait for each other for ever."""
    found = re.fullmatch(r"local(?:\[(\*|\d+)(?:, *\d+)?\])?", master or "")
    if found is None:
        return  # a cluster has its own limits
    told = found[1] or "1"
    slots = (os.cpu_count() or 1) if told == "*" else int(told)
    waiting = waiting_tasks(deployment, partitions)
    if slots <= waiting:
        raise BadInputError(
            f"its units wait for input in up to {waiting} tasks at once, and the Spark session has "
            f"{slots} task slots",
            where=deployment.pipeline,
            hint=f"start the session with local[{task_slots(deployment, partitions)}]",
        )
