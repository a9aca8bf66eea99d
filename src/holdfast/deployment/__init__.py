"""What runs: a pipeline cut into segments, segments into units.

A `Deployment` is the meeting point of three parts that know nothing of each other: the pipeline
API derives it from a logical pipeline and a plan, the Spark run time executes its units, and the
coordinator places them on nodes. It is a frozen value with a JSON form; functions stay in the
pipeline's own module and are looked up by operator name.

Every operator with several consumers ends a segment, so a segment is an in-tree of operators with
exactly one output operator, whose name is the segment's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

KEY_GROUPS = 128
"""Rows are sharded by pmod(hash(key), KEY_GROUPS); see DESIGN, 'Key group'."""

PATH_MARK = ":"
"""Between a split and a path in the name of what a unit runs; names of operators have none."""
_FORK = re.compile(r"\+(\d+)")
"""No operator has a plus in its name: what follows it is the number of a fork."""

OutputMode = Literal["append", "upsert"]
SegmentKind = Literal["source", "inner", "exporter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """A durable log of one operator's output, laid out by one key."""

    operator: str
    """The operator whose output is logged."""
    key: tuple[str, ...] = ()
    """Columns whose hash decides the key group; empty: all rows are in group 0."""
    mode: OutputMode = "append"
    """Whether rows are additions or new versions of the row with the same `upsert_key`."""
    upsert_key: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the log's directory: `count`, or `split@user,word` when keyed."""
        return f"{self.operator}@{','.join(self.key)}" if self.key else self.operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Operators fused into one Structured Streaming query."""

    name: str
    """That of its output operator."""
    kind: SegmentKind
    operators: tuple[str, ...]
    """In topological order; an exporter has one, the sink."""
    inputs: tuple[str, ...] = ()
    """Names of the boundaries it reads, in the order its operators name them; a source has none."""
    outputs: tuple[Boundary, ...] = ()
    """One per distinct key its consumers ask for; an exporter has none."""
    change: int = 0
    """The change of its stream that its units begin with: another one after a reset."""
    shards: int = 1
    max_shards: int = 1
    """State partitions over all shards, each of which owns a block of them; a power of two. 1: the
    number of shards is not changed without laying out the state anew. Units may have been made by a
    change that says otherwise (`Child.of`)."""
    key: tuple[str, ...] = ()
    """Columns that all of its input is laid out by and its state is kept by; empty: there are none,
    so it has one shard for ever, or as many as it began with."""
    batch_epochs: int = 1
    """How many epochs one batch spans when the unit keeps up: the batch interval."""
    snapshot_batches: int = 10
    """How many batches lie between two state snapshots: the snapshot interval."""
    stateful: bool = False
    one_epoch_per_batch: bool = False
    """The result depends on the batching (deduplication within a watermark)."""
    paths: tuple[str, ...] = ()
    """Of a split: its paths in their order, one of which is taken at a time."""
    shared_state: bool = False
    """Of a split: a path begins with the state of the one before; else with none."""
    hot: bool = False
    """Of a split: every path is a segment that runs along, and the split takes the rows of one."""
    path: str = ""
    """Of a segment that is a hot path: which one of which split, `score:rules`."""
    followers: tuple[int, ...] = ()
    """Shards that have a hot follower: a second replica in another failure domain."""

    @property
    def alone(self) -> bool:
        """Whether each unit has a node to itself, so that its path can be judged by it."""
        return bool(self.path) or (bool(self.paths) and not self.hot)

    @property
    def scales(self) -> bool:
        """Whether the number of its shards may change while it runs."""
        return self.max_shards > 1

    def is_followed(self, unit: UnitId) -> bool:
        """Whether a unit has a hot follower.

        Shards of another shape have no number that says so; where some had one, all of them do.
        Paths have one shape.
        """
        if unit.change != self.change and not self.alone:
            return bool(self.followers)
        return unit.shard in self.followers


MAX_REPLICAS = 2
"""A unit and its follower."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class UnitId:
    """One shard of one segment, as made by one change of who carries its stream.

    Units are named by the change that made them, so that no name is ever used twice for other
    content: `count.0#1` is shard 1 of `count` since its beginning. A unit may run in several
    replicas, which share its records; `count.0#1~1` is the second of that unit. A fork goes on
    without some input beside a unit that waits for it; `count+3.0#1` is that unit in fork 3.
    """

    segment: str
    shard: int = 0
    change: int = 0
    replica: int = 0

    def __str__(self) -> str:
        return f"{self.name}~{self.replica}" if self.replica else self.name

    @property
    def name(self) -> str:
        """The unit whose records all replicas share."""
        return f"{self.segment}.{self.change}#{self.shard}"

    @property
    def replicas(self) -> list[UnitId]:
        """All that share its records, itself included."""
        return [
            UnitId(segment=self.segment, shard=self.shard, change=self.change, replica=number)
            for number in range(MAX_REPLICAS)
        ]

    @property
    def fork(self) -> int | None:
        """The fork it belongs to; None: it computes exact results."""
        return fork_number(self.segment)

    @property
    def exact(self) -> UnitId:
        """The unit whose fork it is; itself, if it is none."""
        return replace(self, segment=exact_name(self.segment))

    def forked(self, fork: int) -> UnitId:
        """The same unit in a fork."""
        return UnitId(segment=f"{self.segment}+{fork}", shard=self.shard, change=self.change)

    @classmethod
    def parse(cls, text: str) -> UnitId:
        made, _, rest = text.rpartition("#")
        segment, _, change = made.rpartition(".")
        shard, _, replica = rest.partition("~")
        return cls(segment=segment, shard=int(shard), change=int(change), replica=int(replica or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """All segments of one pipeline, upstream before downstream."""

    pipeline: str
    epoch_s: float
    """Length of a tick of the global logical clock, seconds."""
    segments: tuple[Segment, ...]
    fingerprints: Mapping[str, str]
    """Operator name to a hash of its code and options: resuming with another is refused."""

    def segment(self, name: str) -> Segment:
        """The segment of a stream, whichever of its paths (`score:rules`) or forks is named."""
        name = exact_name(name.partition(PATH_MARK)[0])
        return next(segment for segment in self.segments if segment.name == name)

    def units(self) -> tuple[UnitId, ...]:
        """Those that every segment begins with; others may have taken their places since."""
        return tuple(
            UnitId(segment=segment.name, shard=shard, change=segment.change)
            for segment in self.segments
            for shard in range(segment.shards)
        )

    def replicas(self) -> tuple[UnitId, ...]:
        """All that runs: units, upstream first, and then their followers in the same order."""
        followers = [
            UnitId(segment=segment.name, shard=shard, change=segment.change, replica=1)
            for segment in self.segments
            for shard in segment.followers
        ]
        return (*self.units(), *followers)

    def boundary(self, name: str) -> Boundary:
        return next(
            boundary
            for segment in self.segments
            for boundary in segment.outputs
            if boundary.name == name
        )

    def producer(self, boundary: str) -> Segment:
        """The segment that publishes on a boundary."""
        return next(
            segment
            for segment in self.segments
            if any(output.name == boundary for output in segment.outputs)
        )

    @property
    def alone(self) -> dict[str, int]:
        """Segments whose units have a node each to themselves, with how many they are."""
        return {segment.name: segment.shards for segment in self.segments if segment.alone}

    def consumers(self, boundary: str) -> tuple[Segment, ...]:
        return tuple(segment for segment in self.segments if boundary in segment.inputs)

    def on_path(self, split: str, path: str) -> Deployment:
        """The same as a unit of a split sees it: of hot paths, the split reads only its own."""
        return replace(
            self,
            segments=tuple(
                replace(item, inputs=(item.inputs[item.paths.index(path)],))
                if item.name == split and item.hot
                else item
                for item in self.segments
            ),
        )

    def with_partitions(
        self, name: str, partitions: int | None, *, shards: int | None = None
    ) -> Deployment:
        """The same with the state of one segment in so many partitions; None: as it is."""
        known = self.segment(name)
        made = replace(
            known,
            max_shards=known.max_shards if partitions is None else partitions,
            shards=known.shards if shards is None else shards,
        )
        if made == known:
            return self
        return replace(
            self, segments=tuple(made if item.name == name else item for item in self.segments)
        )

    def streams_read(self, segment: Segment) -> tuple[str, ...]:
        """The streams that a segment reads, each once: several boundaries may be of one."""
        return tuple(dict.fromkeys(self.producer(name).name for name in segment.inputs))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Deployment:
        return cls(
            pipeline=data["pipeline"],
            epoch_s=data["epoch_s"],
            fingerprints=dict(data["fingerprints"]),
            segments=tuple(_segment(item) for item in data["segments"]),
        )


def fork_number(name: str) -> int | None:
    """The fork that a stream or unit belongs to, by its name; None: to none."""
    found = _FORK.search(name)
    return int(found[1]) if found else None


def exact_name(name: str) -> str:
    """A stream or unit without the fork it belongs to: `count.0#1` of `count+3.0#1`."""
    return _FORK.sub("", name, count=1)


def key_group_range(shard: int, shards: int) -> range:
    """The key groups that one of `shards` shards owns: contiguous, disjoint, covering all."""
    return range(shard * KEY_GROUPS // shards, (shard + 1) * KEY_GROUPS // shards)


def _segment(data: Mapping[str, Any]) -> Segment:
    outputs = tuple(
        Boundary(
            operator=item["operator"],
            key=tuple(item["key"]),
            mode=item["mode"],
            upsert_key=tuple(item["upsert_key"]),
        )
        for item in data["outputs"]
    )
    rest = {name: value for name, value in data.items() if name != "outputs"}
    rest["operators"], rest["inputs"] = tuple(data["operators"]), tuple(data["inputs"])
    rest["paths"] = tuple(data.get("paths", ()))
    rest["key"] = tuple(data.get("key", ()))
    rest["followers"] = tuple(data.get("followers", ()))
    return Segment(**rest, outputs=outputs)
