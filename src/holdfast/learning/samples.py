"""What a run has shown of late: samples of batches and recoveries, kept bounded.

A unit tells after each batch how far it has come, how many rows it has read, how long the batch
took and how much state it keeps. Rows are counted over epochs, not over the clock: a segment that
makes a batch every 30 s is looked at every 5 s, and would seem to read nothing most of the time. So
there is one sample of a segment whenever each of its units has made a batch since the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

FORMAT = "holdfast-learned/2"
KEPT = 120
"""Samples of each number that are kept, the latest ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What one unit that runs and has made a batch tells."""

    unit: str
    segment: str
    generation: int
    epoch: int
    """End of its last batch."""
    rows_in: int
    """Read since the generation began."""
    batch_s: float
    """Of its last batch, from its input to its slice."""
    state_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One sample of a segment that runs, all its shards together."""

    rate_in: float | None = None
    """Rows per second of epochs."""
    batch_s: float | None = None
    """From its input to its slice, of the slowest shard."""
    state_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """One recovery, as the coordinator saw it."""

    id: int
    segment: str
    detect_s: float
    restore_s: float
    cause: str = ""
    """Units that were lost by the same event have the same one."""


def compare(
    before: Mapping[str, Told], now: Sequence[Told], epoch_s: float
) -> tuple[dict[str, Seen], dict[str, Told]]:
    """Samples of segments that went on since `before`, and what to compare with next time.

    A unit of another generation has begun to count anew: its segment is compared from there on.
    """
    segments: dict[str, list[Told]] = {}
    for one in now:
        segments.setdefault(one.segment, []).append(one)
    samples: dict[str, Seen] = {}
    base: dict[str, Told] = {}
    for name, units in segments.items():
        earlier = [before.get(one.unit) for one in units]
        pairs = [
            (old, one)
            for old, one in zip(earlier, units, strict=True)
            if old is not None and old.generation == one.generation
        ]
        if len(pairs) < len(units):
            base |= {one.unit: one for one in units}
        elif any(one.epoch <= old.epoch for old, one in pairs):
            base |= {old.unit: old for old, _ in pairs}
        else:
            base |= {one.unit: one for one in units}
            kept = [one.state_bytes for one in units if one.state_bytes is not None]
            samples[name] = Seen(
                rate_in=sum(
                    max(0, one.rows_in - old.rows_in) / ((one.epoch - old.epoch) * epoch_s)
                    for old, one in pairs
                ),
                batch_s=max(one.batch_s for one in units),
                state_bytes=sum(kept) if kept else None,
            )
    return samples, base


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """The latest samples of a run."""

    segments: Mapping[str, tuple[Seen, ...]] = field(default_factory=dict)
    recoveries: tuple[Recovery, ...] = ()

    def add(self, seen: Mapping[str, Seen], recoveries: Iterable[Recovery] = ()) -> Learned:
        """With one more sample of some segments, and recoveries that are not known yet."""
        segments = dict(self.segments)
        for name, one in seen.items():
            segments[name] = (*segments.get(name, ())[1 - KEPT :], one)
        known = {one.id for one in self.recoveries}
        new = [one for one in recoveries if one.id not in known]
        return Learned(segments=segments, recoveries=(*self.recoveries, *new)[-KEPT:])

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "segments": {
                name: [[one.rate_in, one.batch_s, one.state_bytes] for one in seen]
                for name, seen in self.segments.items()
            },
            "recoveries": [
                [one.id, one.segment, one.detect_s, one.restore_s, one.cause]
                for one in self.recoveries
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What `to_json` gave; nothing learned if it is of another format."""
        if data.get("format") != FORMAT:
            return cls()
        return cls(
            segments={
                name: tuple(Seen(rate_in=a, batch_s=b, state_bytes=c) for a, b, c in seen)
                for name, seen in data["segments"].items()
            },
            recoveries=tuple(
                Recovery(id=a, segment=b, detect_s=c, restore_s=d, cause=e)
                for a, b, c, d, e in data["recoveries"]
            ),
        )
