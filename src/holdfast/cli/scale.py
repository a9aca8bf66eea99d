"""`holdfast scale`: more shards or fewer, while the run goes on."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.runs import Json, RunDir, find_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from holdfast.deployment import Segment
    from holdfast.deployment.blocks import Block
    from holdfast.runtime.log.slicelog import SliceLog
    from holdfast.runtime.rescale import Load
    from holdfast.streams.records import Change

LOOK_S = 0.1
HELD_LOOKS = 10
"""After how many looks the coordinator is asked who cannot take over."""


def scale(
    shards: Annotated[
        list[str],
        typer.Argument(help="OPERATOR=SHARDS, or UNIT=SHARDS to split one shard; several at once."),
    ],
    run_dir: RunDir = None,
    timeout: Annotated[str, typer.Option(help="How long to wait until it is done.")] = "120s",
    as_json: Json = False,
) -> None:
    """Give operators another number of shards while they run; nothing upstream stops.

    Shards are split and merged with their state, the others go on: the one that got most rows
    lately is split first, those that got fewest are merged. `count#1=2` or `count.3#1=2` splits
    that shard alone. Beyond its `max_shards`, or without one, all shards of an operator hand over,
    and Spark repartitions their state, which takes the longer the more there is of it.
    """
    from holdfast.errors import CheckFailedError
    from holdfast.quantities import parse_time
    from holdfast.rundir.spec import read_spec
    from holdfast.runtime.log.slicelog import SliceLog
    from holdfast.runtime.rescale import (
        announce,
        as_it_is,
        check_restating,
        heat,
        needs_restating,
        partitions_for,
        rescale,
        scalable,
        under_way,
    )
    from holdfast.runtime.units.slots import require_room

    directory = find_run(None, run_dir)
    spec = read_spec(directory)
    deployment, tasks = spec.deployment, int(spec.options.get("partitions", 1))
    wanted: dict[str, list[tuple[str, int]]] = {}
    for name, number in map(_parse, shards):
        wanted.setdefault(scalable(deployment, _operator(name)).name, []).append((name, number))
    log = SliceLog(directory)
    planned: list[tuple[Segment, int | list[Block], list[tuple[str, int]], Load]] = []
    restated: list[tuple[Segment, int]] = []
    most = {one.name: as_it_is(log, one).max_shards for one in deployment.segments}
    for segment, asked in ((deployment.segment(name), asked) for name, asked in wanted.items()):
        load = heat(log, deployment, segment)
        shape = _shape(log, segment, asked, load)
        planned.append((segment, shape, asked, load))
        if isinstance(shape, int) and needs_restating(log, segment, shape):
            check_restating(log, segment)
            most[segment.name] = partitions_for(shape)
            require_room(deployment, segment.name, most, tasks)
            restated.append((segment, shape))
    for segment, number in restated:
        _warn(as_it_is(log, segment), max(number, len(log.carriers(segment.name))))
    # All of it can be done, or nothing is put.
    put: list[Change] = []
    for segment, shape, asked, load in planned:
        reason = " ".join(["scale", *(f"{name}={number}" for name, number in asked)])
        new = rescale(log, segment, shape, reason=reason, load=load)
        going_on = under_way(log, segment.name)
        announce(log, going_on)
        # Also what others have asked for: the shape is there when that is done.
        put += [*going_on, *(change for change in new if change not in going_on)]
        if new:
            _try_again(directory, put)
    end = time.monotonic() + parse_time(timeout)
    found = _await(log, put, end, lambda: _held(directory, put))
    for change in put:
        _tell(change, found.get((change.stream, change.number)), as_json=as_json)
    if as_json:
        print(json.dumps({"changes": list(found.values()), "asked": len(put)}))  # noqa: T201
    elif not put:
        typer.echo("nothing to do", err=True)
    held = _held(directory, put) if len(found) < len(put) else {}
    if held:
        raise CheckFailedError(_why_not(log, held))
    if len(found) < len(put):
        raise CheckFailedError("not done yet; it goes on by itself, see holdfast status")


def _parse(text: str) -> tuple[str, int]:
    from holdfast.errors import BadInputError

    name, found, number = text.partition("=")
    if not found or not number.isdecimal():
        raise BadInputError(f"{text!r}", hint="OPERATOR=SHARDS, such as count=4, or count#1=2")
    return name, int(number)


def _shape(
    log: SliceLog,
    segment: Segment,
    asked: list[tuple[str, int]],
    load: Load,
) -> int | list[Block]:
    """What is asked for an operator: a number of shards, or the blocks once some are split."""
    from holdfast.errors import BadInputError
    from holdfast.runtime.rescale import check_shards, split_several

    whole = [number for name, number in asked if name == _operator(name)]
    if not whole:
        return split_several(log, segment, asked, load)
    if len(asked) > 1:
        names = ", ".join(f"{name}={number}" for name, number in asked)
        raise BadInputError(
            f"{names} are one operator", hint="one number of shards, or shards of it to split"
        )
    return check_shards(log, segment, whole[0])


def _warn(segment: Segment, shards: int) -> None:
    """Say what takes longer than a split, and how it would not; of what keeps no state nothing.

    `shards` it has now, or is to have: the larger number.
    """
    from holdfast.runtime.rescale import partitions_for

    if not segment.stateful:
        return
    has = f"its state is in {segment.max_shards} partition{'s' * (segment.max_shards > 1)}"
    typer.echo(
        f"{segment.name}: {has}, so Spark repartitions it: all its shards hand over, and it stands "
        f"still for seconds, the longer the more state it has; max_shards={partitions_for(shards)} "
        "or more, declared before it is needed, avoids that",
        err=True,
    )


def _operator(name: str) -> str:
    """The operator of a shard: of `count.3#1` and of `count#1` count."""
    operator, found, _ = name.rpartition("#")
    if not found:
        return name
    stem, dot, change = operator.rpartition(".")
    return stem if dot and change.isdigit() else operator


def _await(
    log: SliceLog, put: list[Change], end: float, held: Callable[[], Mapping[str, str]]
) -> dict[tuple[str, int], dict[str, Any]]:
    """What has become of changes, once all are done, time is up or one who is to take over fails"""
    from holdfast.runtime.rescale import outcome

    found: dict[tuple[str, int], dict[str, Any]] = {}
    looks = 0
    while len(found) < len(put) and time.monotonic() < end:
        for change in put:
            done = outcome(log, change)
            if done is not None:
                found[change.stream, change.number] = {
                    "stream": change.stream,
                    "change": change.number,
                    "parents": list(change.parents),
                    "children": [child.unit for child in change.children],
                    "epoch": done.epoch,
                    "pause_s": round(done.pause_s, 3),
                }
        looks += 1
        if len(found) < len(put) and not looks % HELD_LOOKS and held():
            break
        time.sleep(LOOK_S)
    return found


def _held(directory: Path, put: list[Change]) -> dict[str, str]:
    """Units of changes that have failed too often to be tried again, and of what.

    Also those who are to hand over: somebody else may have asked for them, and their parents ended.
    """
    from holdfast.control.client import ControlClient
    from holdfast.control.shell.wire import ConnectionLostError
    from holdfast.errors import in_short

    wanted = {child.unit for change in put for child in change.children}
    wanted |= {parent for change in put for parent in change.parents}
    try:
        with ControlClient(directory) as client:
            units = client.status().units
    except ConnectionLostError:  # nothing runs, or the coordinator is being started again
        return {}
    return {
        one.unit: in_short(one.error) for one in units if one.phase == "held" and one.unit in wanted
    }


def _try_again(directory: Path, put: list[Change]) -> None:
    """Let those try again who could not take over: what is asked for now may be what helps."""
    from holdfast.control.client import ControlClient

    for unit in _held(directory, put):
        with ControlClient(directory) as client:
            client.retry(unit)


def _why_not(log: SliceLog, held: Mapping[str, str]) -> str:
    """What keeps somebody from taking over, and what can be done."""
    from holdfast.runtime.rescale import taken_back
    from holdfast.streams.records import stream_of

    unit, error = next(iter(held.items()))
    stream = stream_of(unit)
    now = len(log.run(log.steps().standing(stream, turned=False)))
    way = f"holdfast retry {unit} tries again"
    if taken_back(log, stream, now):
        way += f", holdfast scale {stream}={now} takes back what was asked for"
    return f"{unit} cannot take over: {error}; {way}"


def _tell(change: Change, done: dict[str, Any] | None, *, as_json: bool) -> None:
    if as_json:
        return
    children = ", ".join(child.unit for child in change.children)
    text = f"{', '.join(change.parents)} -> {children}"
    if done is None:
        typer.echo(f"{text}: under way", err=True)
    else:
        typer.echo(f"{text} at epoch {done['epoch']}, pause {done['pause_s']:.2f} s", err=True)
