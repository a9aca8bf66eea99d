"""Change the number of an operator's shards while it runs.

A change is a record (`holdfast.streams`): parents run on to a common epoch and hand over, children
go on from there with their state. Here is worked out which blocks of state are split or merged, and
the changes are put; running units carry them out, and who asks may die at any moment. A number that
is taken by somebody else's change means that the shape was another one: it is worked out anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from holdfast.control.client import ControlClient
from holdfast.control.shell.wire import ConnectionLostError
from holdfast.deployment import KEY_GROUPS, Deployment, Segment
from holdfast.deployment.blocks import Block, block_of, groups_between, moves, reshape
from holdfast.errors import BadInputError
from holdfast.rundir.layout import generation_word
from holdfast.runtime.checkpoint.clone import generations
from holdfast.runtime.checkpoint.restate import check_key
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
    "inner": "its rows are not laid out by a key before it; one that may scale declares "
    "max_shards, a power of two, beside its key",
}
Load: TypeAlias = Callable[[Block], float]
"""How much comes to a block."""
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
    able = [segment.name for segment in deployment.segments if segment.scales or segment.key]
    names = ", ".join(able) or "none"
    if not known:
        raise BadInputError("there is no such operator", where=operator, hint=f"scalable: {names}")
    if not known[0].scales and not known[0].key:
        kept = f"the number of its shards is fixed: {_FIXED[known[0].kind]}"
        raise BadInputError(kept, where=operator, hint=f"scalable: {names}")
    return known[0]


def as_it_is(log: SliceLog, segment: Segment) -> Segment:
    """A segment with as many state partitions as it has now, or will once all is carried out."""
    carriers = log.carriers(segment.name)
    of = carriers[0].of if carriers else None
    return segment if of is None else replace(segment, max_shards=of)


def shape_of(log: SliceLog, segment: Segment) -> dict[Block, str]:
    """The blocks of an operator's units once all changes on record are carried out.

    Those of an operator whose state is in one partition a shard are no blocks; one shard is.
    """
    carriers = log.carriers(segment.name)
    return {
        block_of(child.groups, segment.max_shards if child.of is None else child.of): child.unit
        for child in carriers
    }


def needs_restating(log: SliceLog, segment: Segment, shards: int) -> bool:
    """Whether an operator's state must be laid out over other partitions for so many shards."""
    now = as_it_is(log, segment).max_shards
    has = len(log.carriers(segment.name))
    return shards != has if now == 1 else shards > now


def partitions_for(shards: int) -> int:
    """State partitions that so many shards take: the smallest power of two."""
    return 1 << (shards - 1).bit_length()


def check_restating(log: SliceLog, segment: Segment) -> None:
    """Raise if the state of an operator cannot be laid out anew, as far as its checkpoints tell."""
    if not segment.stateful:
        return
    for child in log.run(log.steps().standing(segment.name, turned=False)):
        home = log.layout.checkpoints(child.unit)
        for generation in generations(log.store.below(home))[-1:]:
            place = f"{home}/{generation_word(generation)}"
            check_key(log.store, place, segment.key, segment.name)


def _anew(
    log: SliceLog, segment: Segment, shards: int, load: Load | None
) -> tuple[tuple[str, ...], tuple[Block, ...]]:
    """All units of an operator, and the blocks of those who take over, of other partitions."""
    most = partitions_for(shards)
    whole = Block(first=0, count=most, of=most)
    carriers = log.carriers(segment.name)
    if any(child.of is None for child in carriers):
        raise BadInputError(
            "an earlier version began it, and did not record how its state lies",
            where=segment.name,
            hint=f"1 to {segment.max_shards} shards",
        )
    return tuple(child.unit for child in carriers), reshape([whole], shards, load)


def taken_back(log: SliceLog, stream: str, shards: int) -> tuple[Child, ...]:
    """Those who had so many shards of an operator before what was asked for and has not begun.

    None if nothing was, or if their state lies in as many partitions: then shards are split and
    merged as ever.
    """
    before = log.run(log.steps().standing(stream, turned=False))
    had, get = ({child.of for child in some} for some in (before, log.carriers(stream)))
    if len(before) != shards or None in had | get or had == get:
        return ()
    return tuple(before)


def _moved(
    log: SliceLog, segment: Segment, wanted: int | Sequence[Block], load: Load | None
) -> tuple[tuple[str, ...], tuple[Block, ...]]:
    """The first units that hand over, and the blocks of their heirs; none: the shape is there."""
    units = shape_of(log, segment)
    after = reshape(units, wanted, load) if isinstance(wanted, int) else tuple(wanted)
    if {block.of for block in units} != {block.of for block in after}:
        raise BadInputError("its state is laid out anew meanwhile", where=segment.name)
    pending = moves(tuple(units), after)
    if not pending:
        return (), ()
    return tuple(units[block] for block in pending[0].parents), pending[0].children


def _children(segment: str, number: int, owned: Sequence[Block | Child]) -> tuple[Child, ...]:
    return tuple(
        Child(unit=unit_name(segment, number, shard), segment=segment, groups=one.groups, of=one.of)
        for shard, one in enumerate(owned)
    )


def rescale(
    log: SliceLog,
    segment: Segment,
    wanted: int | Sequence[Block],
    *,
    reason: str,
    load: Load | None = None,
) -> list[Change]:
    """Put the changes that give an operator so many shards, or these blocks.

    Gives those that were put, none if it has that shape. The hottest block by `load` is split
    first, the coldest ones are merged. Where a number of shards takes other state partitions, all
    of them hand over, and the state is laid out anew. As many as there are while other partitions
    are asked for and not begun take that back.
    """
    if isinstance(wanted, int):
        check_shards(log, segment, wanted)
    put: list[Change] = []
    owned: Sequence[Block | Child]
    for _ in range(MOST_ATTEMPTS):
        # The number first: whoever changes the shape after this look takes it.
        number = len(log.run(log.steps().changes_of(segment.name)))
        if isinstance(wanted, int) and (back := taken_back(log, segment.name, wanted)):
            parents, owned = tuple(child.unit for child in log.carriers(segment.name)), back
        elif isinstance(wanted, int) and needs_restating(log, segment, wanted):
            parents, owned = _anew(log, segment, wanted, load)
        elif wanted == 1 or as_it_is(log, segment).scales:
            parents, owned = _moved(log, segment, wanted, load)
        else:
            return put  # so many shards of one partition each, which are no blocks
        if not parents:
            return put
        change = Change(
            stream=segment.name,
            number=number,
            how="run",
            parents=parents,
            children=_children(segment.name, number, owned),
            reason=reason,
            writer=log.writer,
        )
        if log.run(log.steps().decide(change)):
            put.append(change)
    raise BadInputError("others change its shards all the time", where=segment.name)


def check_shards(log: SliceLog, segment: Segment, shards: int) -> int:
    """The same number, if an operator can have so many shards."""
    most = KEY_GROUPS if segment.key else as_it_is(log, segment).max_shards
    if not 1 <= shards <= most:
        raise BadInputError(f"{shards} shards", where=segment.name, hint=f"1 to {most}")
    return shards


def split_several(
    log: SliceLog,
    segment: Segment,
    asked: Sequence[tuple[str, int]],
    load: Load,
) -> list[Block]:
    """The blocks of an operator once some of its shards, as they are called now, are so many."""
    before = set(_blocks(log, segment))
    shapes = [set(split(log, segment, unit, shards, load)) for unit, shards in asked]
    after = set.intersection(*shapes) | (set.union(*shapes) - before)
    if sum(block.count for block in after) != as_it_is(log, segment).max_shards:
        names = ", ".join(unit for unit, _ in asked)
        raise BadInputError("one shard is meant more than once", where=names)
    return sorted(after)


def split(log: SliceLog, segment: Segment, unit: str, shards: int, load: Load) -> list[Block]:
    """The blocks of an operator once one of its shards is so many, and the others as they are.

    `unit` is a shard as it is called now, or its number where only one has it.
    """
    units = _blocks(log, segment)
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
        whole = f"; {segment.name}=N lays out the state of all shards anew" if segment.key else ""
        raise BadInputError(
            f"{shards} shards", where=unit, hint=f"it has {block.count} state partitions{whole}"
        )
    others = [one for one in units if one != block]
    return sorted([*others, *reshape([block], shards, load)])


def _blocks(log: SliceLog, segment: Segment) -> dict[Block, str]:
    """The shape of an operator whose shards can be split one by one."""
    if not as_it_is(log, segment).scales:
        raise BadInputError(
            "its shards cannot be split one by one",
            where=segment.name,
            hint=f"{segment.name}=N, or declare max_shards",
        )
    return shape_of(log, segment)


def heat(log: SliceLog, deployment: Deployment, segment: Segment) -> Load:
    """How many rows came to a block lately; where none did, how many partitions it has."""
    inputs = deployment.streams_read(segment)
    if segment.kind == "source":
        inputs = (segment.name,)
    upto = min((log.run(log.steps().last_end(stream)) for stream in inputs), default=-1)
    after = upto - max(1, round(HEAT_S / deployment.epoch_s))
    # By key group: blocks may be of any number of partitions. Nobody counts those of a source.
    parts = segment.max_shards if segment.kind == "source" else KEY_GROUPS
    rates = arrived(log, deployment, replace(segment, max_shards=parts), after, upto)

    def load(block: Block) -> float:
        groups = groups_between(*block.groups, block.of)
        mine = range(block.first, block.stop) if segment.kind == "source" else groups
        # Partitions decide between blocks that are equally hot, above all equally cold.
        return sum(rates[part] for part in mine) + 1e-6 * block.count

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
