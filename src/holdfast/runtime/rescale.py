"""Change the number of an operator's shards while it runs.

A change is a record (`holdfast.streams`): parents run on to a common epoch and hand over, children
go on from there with their state. Here is worked out which blocks of state are split or merged, and
the changes are put; running units carry them out, and who asks may die at any moment. A number that
is taken by somebody else's change means that the shape was another one: it is worked out anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.control.client import ControlClient
from holdfast.control.shell.wire import ConnectionLostError
from holdfast.deployment import Deployment, Segment
from holdfast.deployment.blocks import Block, block_of, moves, reshape
from holdfast.errors import BadInputError
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.streams.reading import TrimmedError
from holdfast.streams.records import Change, Child, unit_name
from holdfast.streams.steps import Steps, slices

MOST_ATTEMPTS = 16
"""How often others may come first before one gives up."""
_FIXED = {
    "source": "a source that may scale declares max_shards, a power of two; one that Spark reads "
    "itself has one query, whose position cannot be divided",
    "exporter": "a sink is written to by one",
    "inner": "an operator that may scale declares max_shards, a power of two, beside its key",
}
HEAT_S = 10.0
"""Where the load is, the rows of the last so many seconds tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """A change that was carried out."""

    change: Change
    epoch: int
    """Where the parents ended, and the children began."""
    pause_s: float
    """From the parents' last slice to the children's first, wall-clock seconds; 0: not known any
    more, as these are trimmed."""


def scalable(deployment: Deployment, operator: str) -> Segment:
    """The segment whose shards are those of an operator; raises if their number is fixed."""
    known = [segment for segment in deployment.segments if operator in segment.operators]
    names = ", ".join(segment.name for segment in deployment.segments if segment.scales) or "none"
    if not known:
        raise BadInputError("there is no such operator", where=operator, hint=f"scalable: {names}")
    if known[0].max_shards == 1:
        kept = f"the number of its shards is fixed: {_FIXED[known[0].kind]}"
        raise BadInputError(kept, where=operator, hint=f"scalable: {names}")
    return known[0]


def shape_of(log: SliceLog, segment: Segment) -> dict[Block, str]:
    """The blocks of an operator's units once all changes on record are carried out."""
    carriers = log.run(log.steps().carriers(segment.name))
    return {block_of(child.groups, segment.max_shards): child.unit for child in carriers}


def rescale(
    log: SliceLog,
    segment: Segment,
    wanted: int | Sequence[Block],
    *,
    reason: str,
    load: Callable[[Block], float] | None = None,
) -> list[Change]:
    """Put the changes that give an operator so many shards, or these blocks.

    Gives those that were put, none if it has that shape. The hottest block by `load` is split
    first, the coldest ones are merged.
    """
    if isinstance(wanted, int):
        check_shards(segment, wanted)
    put: list[Change] = []
    for _ in range(MOST_ATTEMPTS):
        # The number first: whoever changes the shape after this look takes it.
        number = len(log.run(log.steps().changes_of(segment.name)))
        units = shape_of(log, segment)
        after = reshape(units, wanted, load) if isinstance(wanted, int) else tuple(wanted)
        pending = moves(tuple(units), after)
        if not pending:
            return put
        change = Change(
            stream=segment.name,
            number=number,
            how="run",
            parents=tuple(units[block] for block in pending[0].parents),
            children=tuple(
                Child(
                    unit=unit_name(segment.name, number, shard),
                    segment=segment.name,
                    groups=block.groups,
                )
                for shard, block in enumerate(pending[0].children)
            ),
            reason=reason,
            writer=log.writer,
        )
        if log.run(log.steps().decide(change)):
            put.append(change)
    raise BadInputError("others change its shards all the time", where=segment.name)


def check_shards(segment: Segment, shards: int) -> int:
    """The same number, if an operator can have so many shards."""
    if not 1 <= shards <= segment.max_shards:
        raise BadInputError(
            f"{shards} shards", where=segment.name, hint=f"1 to {segment.max_shards}"
        )
    return shards


def split_several(
    log: SliceLog,
    segment: Segment,
    asked: Sequence[tuple[str, int]],
    load: Callable[[Block], float],
) -> list[Block]:
    """The blocks of an operator once some of its shards, as they are called now, are so many."""
    before = set(shape_of(log, segment))
    shapes = [set(split(log, segment, unit, shards, load)) for unit, shards in asked]
    after = set.intersection(*shapes) | (set.union(*shapes) - before)
    if sum(block.count for block in after) != segment.max_shards:
        names = ", ".join(unit for unit, _ in asked)
        raise BadInputError("one shard is meant more than once", where=names)
    return sorted(after)


def split(
    log: SliceLog, segment: Segment, unit: str, shards: int, load: Callable[[Block], float]
) -> list[Block]:
    """The blocks of an operator once one of its shards is so many, and the others as they are.

    `unit` is a shard as it is called now, or its number where only one has it.
    """
    units = shape_of(log, segment)
    found = [
        block
        for block, name in units.items()
        if unit in (name, f"{segment.name}#{name.rpartition('#')[2]}")
    ]
    if len(found) != 1:
        names = ", ".join(sorted(units.values()))
        what = "there is no such shard" if not found else "several shards are meant"
        raise BadInputError(what, where=unit, hint=f"one of {names}")
    block = found[0]
    if not 1 <= shards <= block.count:
        raise BadInputError(
            f"{shards} shards", where=unit, hint=f"it has {block.count} state partitions"
        )
    others = [one for one in units if one != block]
    return sorted([*others, *reshape([block], shards, load)])


def heat(log: SliceLog, deployment: Deployment, segment: Segment) -> Callable[[Block], float]:
    """How many rows came to a block lately; where none did, how many partitions it has."""
    inputs = deployment.streams_read(segment)
    if segment.kind == "source":
        inputs = (segment.name,)
    upto = min((log.run(log.steps().last_end(stream)) for stream in inputs), default=-1)
    after = upto - max(1, round(HEAT_S / deployment.epoch_s))
    rates = arrived(log, deployment, segment, after, upto)

    def load(block: Block) -> float:
        # Partitions decide between blocks that are equally hot, above all equally cold.
        return sum(rates[block.first : block.stop]) + 1e-6 * block.count

    return load


def arrived(
    log: SliceLog, deployment: Deployment, segment: Segment, after: int, upto: int
) -> list[float]:
    """Rows per second for every state partition of an operator in some epochs of its input.

    Of a source, whose partitions nobody counts, those that its shards made, dealt out evenly.
    """
    rates = [0.0] * segment.max_shards
    if segment.kind == "source":
        for child, _, rate in _rates_of(log, deployment, segment.outputs[0].name, after, upto):
            block = block_of(child.groups, segment.max_shards)
            for part in range(block.first, block.stop):
                rates[part] += rate / block.count
        return rates
    for boundary in segment.inputs:
        for _, group, rate in _rates_of(log, deployment, boundary, after, upto):
            rates[group % segment.max_shards] += rate
    return rates


def _rates_of(
    log: SliceLog, deployment: Deployment, boundary: str, after: int, upto: int
) -> list[tuple[Child, int, float]]:
    """Rows per second that logs brought to key groups, of whoever carried the stream then."""
    children = log.run(_carried(log, deployment.producer(boundary).name, after))
    after = max([after, *(log.floor(slices(child.unit)).epoch for child in children)])
    if upto <= after:
        return []
    seconds = (upto - after) * deployment.epoch_s
    try:
        kept = [(child, log.run(log.steps().log(child.unit, after, upto))) for child in children]
    except TrimmedError:  # trimmed since: the next look will do
        return []
    return [
        (child, part.group, part.rows / seconds)
        for child, found in kept
        for item in found.slices
        if item.upto <= upto
        for file in item.files.get(boundary, ())
        for part in file.parts
    ]


def _carried(log: SliceLog, stream: str, after: int) -> Steps[list[Child]]:
    """Who carries a stream, and who has handed it over since an epoch."""
    steps = log.steps()
    found = []
    for change in (yield from steps.changes_of(stream)):
        for child in change.children:
            seal = yield from steps.seal_of(child.unit)
            if seal is None or (seal.end is not None and seal.end > after):
                found.append(child)
    return found


def under_way(log: SliceLog, stream: str) -> list[Change]:
    """Changes on record whose parents go on: those who asked may have died before they told it."""
    steps = log.steps()
    return [
        change
        for change in log.run(steps.changes_of(stream))
        if change.how == "run"
        and any(log.run(steps.seal_of(parent)) is None for parent in change.parents)
    ]


def announce(log: SliceLog, put: Sequence[Change], node: str = "") -> None:
    """Have children started, on a node if one is named: when ready, they have parents hand over.

    A coordinator that is away learns of a change when its parents have ended, so these turn at
    once.
    """
    if not put:
        return
    try:
        with ControlClient(Path(log.root)) as client:
            for change in put:
                client.hand_over(
                    stream=change.stream,
                    change=change.number,
                    parents=list(change.parents),
                    children=[child.unit for child in change.children],
                    reason=change.reason,
                    node=node,
                )
    except ConnectionLostError:
        for stream in {change.stream for change in put}:
            log.run(log.steps().carry_out(stream))


def outcome(log: SliceLog, change: Change) -> Handover | None:
    """What became of a change; None: it is under way, or its children have not published yet."""
    return log.run(_outcome(log, change))


def _outcome(log: SliceLog, change: Change) -> Steps[Handover | None]:
    steps = log.steps()
    last = 0.0
    epoch = -1
    for parent in change.parents:
        seal = yield from steps.seal_of(parent)
        if seal is None or seal.end is None:
            return None
        epoch = seal.end
        before = log.slice(parent, seal.number - 1)
        last = max(last, (log.put_time(before) if before else None) or 0.0)
    first = 0.0
    for child in change.children:
        published = log.slice(child.unit, 0)
        if published is not None:
            first = max(first, log.put_time(published) or 0.0)
        elif (
            not log.floor(slices(child.unit)).number  # else it was published, read and trimmed
            and (yield from steps.seal_of(child.unit)) is None
        ):
            return None
    pause_s = max(0.0, first - last) if first and last else 0.0
    return Handover(change=change, epoch=epoch, pause_s=pause_s)
