"""The records that all safety rests on: what a unit's n-th batch reads, and what it published.

A record is created once, never changed, and carries a checksum, so that a torn or altered one is
detected when it is read. A *range record* fixes the input of batch n before it runs: whoever runs
batch n, now or after any number of failures, reads exactly that. A *slice record* makes the output
of batch n visible. Together they are the Input and Output Slice Tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, TypeAlias, TypeVar

from holdfast.deployment.framing import frame, unframe
from holdfast.deployment.keygroups import combine_digests
from holdfast.errors import CorruptLogError

MAGIC = b"holdfast-record 1"
"""Format name and version: the start of every record."""

Json: TypeAlias = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeRecord:
    """What one batch of one unit reads."""

    kind: ClassVar[str] = "range"

    unit: str
    number: int
    """The batch, from 0, without gaps."""
    after: int
    """Epochs up to and including this one were read by earlier batches; -1: none."""
    upto: int
    """The batch reads every unread slice, or source row, that counts at an epoch <= this one."""
    inputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Boundary name to, per producing shard, the number of the first slice not yet read."""
    watermark_us: int | None = None
    """Smallest watermark of the inputs after this batch, microseconds since 1970; None: not yet
    known. A source's is known only after reading, and stands in its slice record."""
    source: Json = None
    """A source's own position after the batch, e.g. the files it takes."""
    generation: int = 0
    """The generation that put the record; others adopt it."""
    timeline: int = 0
    writer: str = ""
    """Tells a writer that its own put succeeded though the answer was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPart:
    """The rows of one key group in one file: one Arrow record batch."""

    group: int
    rows: int
    offset: int
    """Where the record batch message starts in the file, bytes."""
    size: int
    """Length of the message, bytes."""
    crc: int
    """CRC-32 of the message."""
    digest: int
    """Sum of the rows' 64-bit hashes modulo 2^64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceFile:
    """One Arrow IPC stream: a schema message, then one record batch per key group."""

    name: str
    """File name in the data directory of its boundary and shard."""
    schema_size: int
    schema_crc: int
    parts: tuple[GroupPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRecord:
    """What one batch of one unit published on one boundary."""

    kind: ClassVar[str] = "slice"

    boundary: str
    shard: int
    number: int
    """That of the batch, so of its range record."""
    after: int
    upto: int
    """The slice counts wholly at this epoch."""
    inputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    files: tuple[SliceFile, ...] = ()
    watermark_us: int | None = None
    """No later slice of this shard holds rows older than this."""
    late_rows: int = 0
    """Rows put aside as late while this slice was made; only sources decide lateness."""
    dead_rows: int = 0
    """Rows quarantined while this slice was made."""
    skip: int = 0
    """Version of the batch's skip record that it was made with; 0: nothing was left out. The one
    that is stored counts: who left out other rows runs the batch again with these."""
    tentative: bool = False
    missing: tuple[str, ...] = ()
    """Failed inputs a tentative slice was computed without."""
    generation: int = 0
    spark_batch: int = -1
    timeline: int = 0
    writer: str = ""

    @property
    def rows(self) -> int:
        return sum(part.rows for file in self.files for part in file.parts)

    @property
    def size(self) -> int:
        return sum(part.size for file in self.files for part in file.parts)

    def digests(self) -> dict[int, int]:
        """Key group to the digest of all its rows, whatever file they are in."""
        groups: dict[int, list[int]] = {}
        for file in self.files:
            for part in file.parts:
                groups.setdefault(part.group, []).append(part.digest)
        return {group: combine_digests(parts) for group, parts in sorted(groups.items())}

    def same_content(self, other: SliceRecord) -> bool:
        """Whether both publish the same rows for the same input; files and writers may differ."""
        return (
            self.same_batch(other) and self.rows == other.rows and self.digests() == other.digests()
        )

    def same_batch(self, other: SliceRecord) -> bool:
        """Whether both publish the same batch of the same input, whatever rows it gave."""
        return (
            (self.boundary, self.shard, self.number, self.timeline)
            == (other.boundary, other.shard, other.number, other.timeline)
            and (self.after, self.upto, self.watermark_us)
            == (other.after, other.upto, other.watermark_us)
            and dict(self.inputs) == dict(other.inputs)
            and self.skip == other.skip
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipRecord:
    """Rows of a batch's input that are quarantined.

    Where the batch fails again, on other rows, a further version leaves out those as well. Someone
    whose run did not fail may publish the batch without any of them: which version counts is in the
    slice record.
    """

    kind: ClassVar[str] = "skip"

    unit: str
    number: int
    version: int = 1
    """From 1, without gaps; each holds the rows of the one before."""
    rows: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Input name to the positions of the rows in reading order."""
    reason: str = ""
    generation: int = 0
    timeline: int = 0
    writer: str = ""


Record: TypeAlias = RangeRecord | SliceRecord | SkipRecord
R = TypeVar("R", RangeRecord, SliceRecord, SkipRecord)


def encode(record: Record) -> bytes:
    """The stored form."""
    return frame(MAGIC, record.kind, asdict(record))


def decode(kind: type[R], data: bytes, *, path: str) -> R:
    """The record in `data`; raises CorruptLogError naming `path` if it is torn or altered."""
    found = unframe(data, path=path)
    if found.magic != MAGIC:
        raise CorruptLogError("is not a Holdfast record", path=path)
    if found.kind != kind.kind:
        raise CorruptLogError(f"is a {found.kind} record, not a {kind.kind} record", path=path)
    return _build(kind, found.content())


def record_name(number: int, timeline: int = 0) -> str:
    """Names sort as numbers do within a timeline."""
    return f"t{timeline}-{number:010d}"


def parse_record_name(name: str) -> tuple[int, int]:
    """Timeline and number of a name made by `record_name`."""
    timeline, _, number = name.partition("-")
    return int(timeline[1:]), int(number)


def _build(kind: type[R], data: dict[str, Any]) -> R:
    for name in ("inputs", "rows"):
        if isinstance(data.get(name), dict):
            data[name] = {key: tuple(values) for key, values in data[name].items()}
    if kind is SliceRecord:
        data["missing"] = tuple(data["missing"])
        data["files"] = tuple(
            SliceFile(**{**item, "parts": tuple(GroupPart(**part) for part in item["parts"])})
            for item in data["files"]
        )
    return kind(**data)
