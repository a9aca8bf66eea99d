"""Reading a run directory as a stranger would: plain Python and pyarrow, nothing of the run time.

A checker that shared code with what it checks would share its mistakes. So records, slice files and
names are read here from their documented format alone (docs/reference/slice-log.md).
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa

from holdfast.errors import BadInputError, CorruptLogError
from holdfast.verify.claims import Row

Prefix: TypeAlias = dict[tuple[str, int], int]
"""Source and shard to how many of its slices are reflected."""

MAX_PREFIXES = 64
"""Enough for any sharding one would verify; more shards than that are sampled."""

_RECORD_NAME = re.compile(r"t(\d+)-(\d{10})")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSlice:
    """One slice that a source published, with its rows."""

    source: str
    shard: int
    number: int
    after: int
    upto: int
    """The rows count at this epoch."""
    watermark_us: int | None
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """How far an exporter has come.

    A range record is put only when the batch before it is done, so that one has been delivered; of
    the newest this is not certain.
    """

    batch: int
    """Number of the newest range record; -1: none."""
    upto: int
    """Epoch up to which that batch reads."""
    upto_before: int
    """Epoch up to which the batches before it read; -1: none."""
    reflects: tuple[Prefix, ...]
    """The input that its rows reflect. A slice counts wholly at its end, and shards end theirs at
    different epochs, so rows of different shards may reflect different prefixes of the input."""
    reflects_before: tuple[Prefix, ...]
    """The same of the batch before."""
    watermark_us: int | None
    """Smallest watermark of the last slices that the newest batch reads: in every shard of the
    producer, what is older is there. None: not yet known."""
    watermark_before_us: int | None
    """The same of the batch before."""
    watermark_most_us: int | None
    """Largest watermark of those slices: no shard has gone beyond."""


def read_record(path: Path, kind: str) -> dict[str, Any]:
    """The body of one record, its length and checksum verified."""
    head, _, body = path.read_bytes().partition(b"\n")
    words = head.split()
    if len(words) != 5 or words[0] != b"holdfast-record" or words[2] != kind.encode():
        raise CorruptLogError(f"is not a {kind} record", path=str(path))
    if len(body) != int(words[3]) or zlib.crc32(body) != int(words[4], 16):
        raise CorruptLogError("is torn or altered", path=str(path))
    data: dict[str, Any] = json.loads(body)
    return data


def numbered(folder: Path) -> dict[int, Path]:
    """Records of timeline 0 in a folder, by number."""
    found: dict[int, Path] = {}
    if folder.is_dir():
        for path in folder.iterdir():
            match = _RECORD_NAME.fullmatch(path.name)
            if match and match[1] == "0":
                found[int(match[2])] = path
    return dict(sorted(found.items()))


def boundaries(run_dir: Path, operator: str = "") -> list[Path]:
    """The logs of one operator's output, one per key they are laid out by; or of all."""
    log = run_dir / "log"
    if not log.is_dir():
        return []
    return sorted(
        path
        for path in log.iterdir()
        if not operator or unquote(path.name).partition("@")[0] == operator
    )


def kept_folder(run_dir: Path) -> Path:
    """Where a checker keeps a copy of the input of a run that trims its own."""
    return run_dir / "kept"


def newest_files(run_dir: Path, operator: str = "") -> list[Path]:
    """The files that the newest slice of each shard names, of one operator or of all."""
    found: list[Path] = []
    for log in boundaries(run_dir, operator):
        for shard in sorted(log.glob("[0-9]*")):
            records = numbered(shard / "slices")
            if records:
                newest = read_record(records[max(records)], "slice")
                found += [shard / "data" / file["name"] for file in newest["files"]]
    return found


def kept_slices(run_dir: Path, source: str) -> list[KeptSlice]:
    """All slices of a source, which must all be there; the smallest of its logs is read."""
    copied = kept_folder(run_dir)
    logs = boundaries(copied if copied.is_dir() else run_dir, source)
    if not logs:
        raise BadInputError(f"has no log of the source {source!r}", where=str(run_dir))
    found = []
    for shard in sorted(logs[0].iterdir(), key=lambda path: int(path.name)):
        records = numbered(shard / "slices")
        if list(records) != list(range(len(records))):
            raise BadInputError(
                f"the input of {source!r} was not kept whole",
                where=str(run_dir),
                hint="run with --keep-input, or check with `holdfast chaos --trim`",
            )
        for number, path in records.items():
            found.append(_kept(source, int(shard.name), number, path, shard / "data"))
    return found


def slice_rows(record: dict[str, Any], data: Path) -> Iterator[Row]:
    """The rows of a slice, read with Arrow's own stream reader and counted."""
    for file in record["files"]:
        path = data / file["name"]
        rows = _read_stream(path)
        promised = sum(part["rows"] for part in file["parts"])
        if len(rows) != promised:
            raise CorruptLogError(
                f"has {len(rows)} rows, its record says {promised}", path=str(path)
            )
        yield from rows


def late_rows(run_dir: Path, unit: str, batches: int) -> list[Row]:
    """Rows a source put aside as late in its first `batches` batches."""
    folder = run_dir / "units" / _word(unit) / "late"
    return [
        row
        for path in (sorted(folder.glob("[0-9]*.arrow")) if folder.is_dir() else ())
        if int(path.name[:10]) < batches
        for row in _read_stream(path)
    ]


def dead_rows(run_dir: Path) -> dict[tuple[str, str], list[Row]]:
    """Quarantined rows by (segment that failed on them, operator whose output they were).

    Of several versions of a batch's skip record the one counts that its slice names. Where the
    slice is trimmed only that one is left; where it is not there yet, the newest.
    """
    found: dict[tuple[str, str], list[Row]] = {}
    units = run_dir / "units"
    versions: dict[tuple[Path, int], dict[int, Path]] = {}
    for path in sorted(units.glob("*/dead/*/[0-9]*-*.arrow")) if units.is_dir() else ():
        batch, _, version = path.stem.partition("-")
        versions.setdefault((path.parent, int(batch)), {})[int(version)] = path
    for (folder, number), paths in versions.items():
        segment, _, shard = unquote(folder.parents[1].name).rpartition("#")
        used = _skip_version(run_dir, segment, shard, number)
        counts = paths.get(max(paths) if used is None else used)
        if counts is not None:
            operator = unquote(folder.name).partition("@")[0]
            found.setdefault((segment, operator), []).extend(_read_stream(counts))
    return found


def _skip_version(run_dir: Path, segment: str, shard: str, number: int) -> int | None:
    """Which version of its skip record a batch was published with; None: there is no slice."""
    for log in boundaries(run_dir, segment):
        path = log / shard / "slices" / f"t0-{number:010d}"
        if path.is_file():
            return int(read_record(path, "slice").get("skip", 0))
    return None


def epoch_length(run_dir: Path) -> float | None:
    """Length of an epoch in this run, seconds, if its description says."""
    path = run_dir / "run.json"
    if not path.is_file():
        return None
    length = json.loads(path.read_text(encoding="utf-8")).get("deployment", {}).get("epoch_s")
    return float(length) if length else None


def delivered(run_dir: Path, sink: str, sources: Collection[str]) -> Delivered:
    """How far the exporter of a sink has come."""
    ranges = numbered(run_dir / "units" / _word(f"{sink}#0") / "ranges")
    if not ranges:
        return Delivered(
            batch=-1,
            upto=-1,
            upto_before=-1,
            reflects=({},),
            reflects_before=({},),
            watermark_us=None,
            watermark_before_us=None,
            watermark_most_us=None,
        )
    newest = read_record(ranges[max(ranges)], "range")
    before = read_record(ranges[max(ranges) - 1], "range") if max(ranges) - 1 in ranges else None
    now = _watermarks(run_dir, newest)
    earlier: list[int | None] = _watermarks(run_dir, before) if before else [None]
    return Delivered(
        batch=max(ranges),
        upto=newest["upto"],
        upto_before=newest["after"],
        reflects=tuple(_reflected(run_dir, newest["inputs"], sources)),
        reflects_before=tuple(_reflected(run_dir, before["inputs"], sources) if before else [{}]),
        watermark_us=_smallest(now),
        watermark_before_us=_smallest(earlier),
        watermark_most_us=max((item for item in now if item is not None), default=None),
    )


def _read_stream(path: Path) -> list[Row]:
    try:
        with pa.OSFile(str(path), "rb") as handle, pa.ipc.open_stream(handle) as reader:
            rows: list[Row] = reader.read_all().to_pylist()
    except (OSError, pa.ArrowInvalid) as error:
        raise CorruptLogError(f"cannot be read: {error}", path=str(path)) from error
    return rows


def _kept(source: str, shard: int, number: int, path: Path, data: Path) -> KeptSlice:
    record = read_record(path, "slice")
    return KeptSlice(
        source=source,
        shard=shard,
        number=number,
        after=record["after"],
        upto=record["upto"],
        watermark_us=record["watermark_us"],
        rows=tuple(slice_rows(record, data)),
    )


def _reflected(
    run_dir: Path, inputs: Mapping[str, Sequence[int]], sources: Collection[str]
) -> list[Prefix]:
    """The prefixes of the input that a batch's rows may reflect, one per combination of shards."""
    options = []
    for boundary, ends in inputs.items():
        operator = boundary.partition("@")[0]
        if operator in sources:
            options.append([{(operator, shard): end for shard, end in enumerate(ends)}])
            continue
        found: list[Prefix] = []
        for shard, end in enumerate(ends):
            if end == 0:
                found.append({})
                continue
            path = _slice_path(run_dir, boundary, shard, end - 1)
            if path is None:
                raise BadInputError(
                    f"slice {end - 1} of {boundary} is not there any more", where=str(run_dir)
                )
            found += _reflected(run_dir, read_record(path, "slice")["inputs"], sources)
        options.append([item for index, item in enumerate(found) if item not in found[:index]])
    combined = [_merged(parts) for parts in islice(product(*options), MAX_PREFIXES)]
    return [item for index, item in enumerate(combined) if item not in combined[:index]]


def _merged(parts: Sequence[Prefix]) -> Prefix:
    """What several inputs together reflect; of one source no more than the one that has less."""
    merged: Prefix = {}
    for part in parts:
        for key, count in part.items():
            merged[key] = min(count, merged.get(key, count))
    return merged


def _slice_path(run_dir: Path, boundary: str, shard: int, number: int) -> Path | None:
    return numbered(run_dir / "log" / _word(boundary) / str(shard) / "slices").get(number)


def _watermarks(run_dir: Path, record: dict[str, Any]) -> list[int | None]:
    """The watermark of the newest slice that a batch has read of each shard."""
    found: list[int | None] = []
    for boundary, ends in record["inputs"].items():
        for shard, end in enumerate(ends):
            path = _slice_path(run_dir, boundary, shard, end - 1)
            found.append(read_record(path, "slice")["watermark_us"] if path else None)
    return found


def _smallest(watermarks: list[int | None]) -> int | None:
    known = [item for item in watermarks if item is not None]
    return min(known) if known and len(known) == len(watermarks) else None


def _word(name: str) -> str:
    """A name as the run directory spells it: percent-encoded but for these characters."""
    safe = re.compile(r"[A-Za-z0-9_.\-~@,#+= ]")
    return "".join(
        letter if safe.fullmatch(letter) else "".join(f"%{byte:02X}" for byte in letter.encode())
        for letter in name
    )
