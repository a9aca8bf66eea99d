"""Watermarks of a world: what logs promise, and who is told something that does not hold.

A row's time is its epoch. A source promises the time of the oldest row that it has yet to give; a
unit behind it promises, one batch later, what it was promised. So a row that is older than its
reader was promised shows that somebody promised too much, and a promise that is taken back that
somebody has forgotten it.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.streams.records import Child, Slice
from holdfast.streams.steps import Get, GetFloor, slices
from holdfast.streams.unit import RunBatch
from holdfast.testing.hands.memory import Process
from holdfast.testing.hands.scenario import Row, Scenario, Violation


def check_promise(unit: str, step: RunBatch, inputs: list[list[Row]]) -> None:
    """Raise if a batch holds what was ruled out before, or rules out less."""
    before, now = step.position.watermark_us, step.range.watermark_us
    if before is None:
        return
    times = [row[2] for part in inputs for row in part]
    if times and min(times) < before:
        raise Violation(f"{unit}: a row of {min(times)} came after the watermark {before}")
    if now is None or now < before:
        raise Violation(f"{unit}: its watermark went back from {before} to {now}")


def promise(
    scenario: Scenario, given: Mapping[str, list[list[Row]]], child: Child, step: RunBatch
) -> Process:
    """What a batch's slice says of those that follow it; sources have given these rows."""
    seg, unit, number = scenario.segments[child.segment], child.unit, step.position.batch
    if seg.operation != "source":
        return step.position.watermark_us
    # A source tells what is late by what its log has promised: of that its newest slice knows.
    if number > 0 and (yield Get(slices(unit), number)) is None:
        before = yield Get(slices(unit), number - 1)
        if not isinstance(before, Slice) and (yield Get(slices(unit), number)) is None:
            floor = yield GetFloor(slices(unit))
            if floor.number == number:
                raise Violation(f"{unit}: nobody knows what it has promised before batch {number}")
    groups = range(*child.groups)
    later = given[seg.output][step.range.upto + 1 :]
    times = [row[2] for part in later for row in part if row[1] in groups]
    return min(times, default=scenario.epochs)
