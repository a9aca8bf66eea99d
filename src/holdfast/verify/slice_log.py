"""Reading a run directory as a stranger would: plain Python and pyarrow, nothing of the run time.

A checker that shared code with what it checks would share its mistakes. So records, slice files and
names are read here from their documented format alone (docs/reference/slice-log.md).
"""

from __future__ import annotations

import contextlib
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from holdfast.errors import BadInputError, CorruptLogError
from holdfast.verify.claims import Row

_RECORD_NAME = re.compile(r"\d{10}")
_REPAIRS = 16
"""Numbers that the repairs of a slice have."""
_KEY_GROUPS = 128
_UNIT_NAME = re.compile(r"(?P<stream>.+)\.(?P<change>\d+)#(?P<shard>\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFolder:
    """All that one unit has on record."""

    path: Path
    stream: str
    change: int
    """The change of its stream that made it."""
    shard: int

    @property
    def name(self) -> str:
        return f"{self.stream}.{self.change}#{self.shard}"

    def slices(self) -> dict[int, Path]:
        return numbered(self.path / "slices")

    def data(self, boundary: str) -> Path:
        return self.path / "data" / _word(boundary)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSlice:
    """One slice that a source published, with its rows."""

    source: str
    shard: int
    unit: str
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
    """Epoch up to which that batch reads. A batch ends where all logs of its input have ended a
    slice, so its rows reflect exactly what the sources published up to there."""
    upto_before: int
    """Epoch up to which the batches before it read; -1: none."""
    watermark_us: int | None
    """Smallest watermark of the slices that end there: in every log of the input, what is older is
    there. None: not yet known."""
    watermark_before_us: int | None
    """The same of the batch before."""
    watermark_most_us: int | None
    """Largest watermark of those slices: no shard has gone beyond."""


def read_record(path: Path, kind: str) -> dict[str, Any]:
    """The body of a record that must be of one kind."""
    found, data = read_any(path)
    if found != kind:
        raise CorruptLogError(f"is not a {kind} record", path=str(path))
    return data


def read_any(path: Path) -> tuple[str, dict[str, Any]]:
    """Kind and body of a record, its length and checksum verified."""
    head, _, body = path.read_bytes().partition(b"\n")
    words = head.split()
    if len(words) != 5 or words[:2] != [b"holdfast-record", b"2"]:
        raise CorruptLogError("is not a record of the second edition", path=str(path))
    if len(body) != int(words[3]) or zlib.crc32(body) != int(words[4], 16):
        raise CorruptLogError("is torn or altered", path=str(path))
    data: dict[str, Any] = json.loads(body)
    return words[2].decode(), data


def numbered(folder: Path) -> dict[int, Path]:
    """Records in a folder, by number."""
    found: dict[int, Path] = {}
    if folder.is_dir():
        for path in folder.iterdir():
            if _RECORD_NAME.fullmatch(path.name):
                found[int(path.name)] = path
    return dict(sorted(found.items()))


def published(unit: UnitFolder) -> Iterator[tuple[int, dict[str, Any]]]:
    """The slices of a unit, without the seal that may end them."""
    for number, path in unit.slices().items():
        with contextlib.suppress(FileNotFoundError):  # trimmed meanwhile
            kind, record = read_any(path)
            if kind == "slice":
                yield number, record


def units(run_dir: Path, stream: str = "") -> list[UnitFolder]:
    """The units that have carried one stream, or all of them."""
    folder = run_dir / "units"
    found = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        match = _UNIT_NAME.fullmatch(unquote(path.name))
        if match and stream in ("", match["stream"]):
            found.append(
                UnitFolder(
                    path=path,
                    stream=match["stream"],
                    change=int(match["change"]),
                    shard=int(match["shard"]),
                )
            )
    return sorted(found, key=lambda unit: (unit.stream, unit.change, unit.shard))


def closed_at(run_dir: Path, unit: UnitFolder) -> int | None:
    """The epoch beyond which what a unit published is void; None: all of it counts.

    The closing of the logs it belongs to says so, and so does every later one: a stream that is
    begun anew voids what all older logs hold beyond.
    """
    folder = run_dir / "streams" / _word(unit.stream) / "closings"
    records = [read_record(path, "closing") for path in numbered(folder).values()]
    ends = [int(record["end"]) for record in records if unit.change < record["next"]]
    return min(ends, default=None)


def owned_parts(run_dir: Path, unit: str, parts: int) -> range:
    """Those of so many parts that a unit owns: the change that made it gives it a share of all."""
    name = _UNIT_NAME.fullmatch(unit)
    if name is None:
        raise BadInputError(f"{unit!r} is no unit", where=str(run_dir))
    folder = run_dir / "streams" / _word(name["stream"]) / "changes"
    record = read_record(folder / f"{int(name['change']):010d}", "change")
    first, stop = next(one["groups"] for one in record["children"] if one["unit"] == unit)
    return range(first * parts // _KEY_GROUPS, stop * parts // _KEY_GROUPS)


def kept_folder(run_dir: Path) -> Path:
    """Where a checker keeps a copy of the input of a run that trims its own."""
    return run_dir / "kept"


def is_stream(run_dir: Path, operator: str) -> bool:
    """Whether an operator's output is a stream of its own, and not only part of a segment."""
    return (run_dir / "streams" / _word(operator)).is_dir()


def begun_after(run_dir: Path, stream: str) -> int | None:
    """The epoch after which a stream, or a sink, was last begun anew; None: it never was."""
    found = None
    for path in numbered(run_dir / "streams" / _word(stream) / "changes").values():
        record = read_record(path, "change")
        if record["start"] is not None and record.get("since") is None:
            found = int(record["start"])
    return found


def newest_files(run_dir: Path, operator: str = "", slices: int = 1) -> list[Path]:
    """The files that the newest slices of each unit name, of one operator or of all."""
    found: list[Path] = []
    for unit in units(run_dir, operator):
        known = dict(published(unit))
        for number in sorted(known)[-slices:]:
            for boundary, files in repaired(unit, number, known[number])["files"].items():
                found += [unit.data(boundary) / file["name"] for file in files]
    return found


def kept_slices(run_dir: Path, source: str) -> list[KeptSlice]:
    """All slices of a source, which must all be there; one of its boundaries is read."""
    copied = kept_folder(run_dir)
    logs = units(copied if copied.is_dir() else run_dir, source)
    if not logs:
        raise BadInputError(f"has no log of the source {source!r}", where=str(run_dir))
    found = []
    for unit in logs:
        records = dict(published(unit))
        if list(records) != list(range(len(records))):
            raise BadInputError(
                f"the input of {source!r} was not kept whole",
                where=str(run_dir),
                hint="run with --keep-input, or check with `holdfast chaos --trim`",
            )
        void = closed_at(run_dir, unit)
        found += [
            _kept(unit, number, record)
            for number, record in records.items()
            if void is None or record["upto"] <= void
        ]
    return found


def repairs(unit: UnitFolder, number: int) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The repairs of a slice, oldest first: each says where its rows are, never which."""
    for place in range(number * _REPAIRS, (number + 1) * _REPAIRS):
        path = unit.path / "repairs" / f"{place:010d}"
        if not path.is_file():
            return
        yield path, read_record(path, "repair")


def repaired(unit: UnitFolder, number: int, record: dict[str, Any]) -> dict[str, Any]:
    """A slice with the files of its newest repair, which must hold what it held before."""
    for path, repair in repairs(unit, number):
        if _content(repair["files"]) != _content(record["files"]):
            raise CorruptLogError("holds other rows than the slice it repairs", path=str(path))
        record = {**record, "files": repair["files"]}
    return record


def _content(files: dict[str, Any]) -> dict[tuple[str, int], tuple[int, int]]:
    """Rows and their digest for every boundary and key group, whatever files they are in."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for boundary, items in files.items():
        for part in (part for item in items for part in item["parts"]):
            rows, digest = found.get((boundary, part["group"]), (0, 0))
            total = (rows + part["rows"], (digest + part["digest"]) % 2**64)
            found[boundary, part["group"]] = total
    return found


def slice_rows(record: dict[str, Any], boundary: str, data: Path) -> Iterator[Row]:
    """The rows of a slice on a boundary, read with Arrow's own stream reader and counted."""
    for file in record["files"].get(boundary, ()):
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
    for unit in units(run_dir):
        versions: dict[tuple[Path, int], dict[int, Path]] = {}
        for path in sorted((unit.path / "dead").glob("*/[0-9]*-*.arrow")):
            batch, _, version = path.stem.partition("-")
            versions.setdefault((path.parent, int(batch)), {})[int(version)] = path
        for (folder, number), paths in versions.items():
            used = _skip_version(unit, number)
            counts = paths.get(max(paths) if used is None else used)
            if counts is not None:
                operator = unquote(folder.name).partition("@")[0]
                found.setdefault((unit.stream, operator), []).extend(_read_stream(counts))
    return found


def _skip_version(unit: UnitFolder, number: int) -> int | None:
    """Which version of its skip record a batch was published with; None: there is no slice."""
    path = unit.path / "slices" / f"{number:010d}"
    if not path.is_file():
        return None
    kind, record = read_any(path)
    return int(record["skip"] or 0) if kind == "slice" else None


def epoch_length(run_dir: Path) -> float | None:
    """Length of an epoch in this run, seconds, if its description says."""
    path = run_dir / "run.json"
    if not path.is_file():
        return None
    length = json.loads(path.read_text(encoding="utf-8")).get("deployment", {}).get("epoch_s")
    return float(length) if length else None


def delivered(run_dir: Path, sink: str, reads: str) -> Delivered:
    """How far the exporter of a sink has come, which reads the stream `reads`."""
    exporters = units(run_dir, sink)
    ranges = _ranges(exporters[-1]) if exporters else []
    if not ranges:
        return Delivered(
            batch=-1,
            upto=-1,
            upto_before=-1,
            watermark_us=None,
            watermark_before_us=None,
            watermark_most_us=None,
        )
    batch, newest = ranges[-1]
    now = _watermarks(run_dir, reads, newest["upto"])
    return Delivered(
        batch=batch,
        upto=newest["upto"],
        upto_before=newest["after"],
        watermark_us=_smallest(now),
        watermark_before_us=_smallest(_watermarks(run_dir, reads, newest["after"])),
        watermark_most_us=max((item for item in now if item is not None), default=None),
    )


def _ranges(unit: UnitFolder) -> list[tuple[int, dict[str, Any]]]:
    """Batches and their ranges; a turn takes a number among them, and every range after says so."""
    found = []
    for number, path in numbered(unit.path / "ranges").items():
        kind, record = read_any(path)
        if kind == "range":
            found.append((number - (record["turn"] is not None), record))
    return found


def _read_stream(path: Path) -> list[Row]:
    try:
        with pa.OSFile(str(path), "rb") as handle, pa.ipc.open_stream(handle) as reader:
            rows: list[Row] = reader.read_all().to_pylist()
    except (OSError, pa.ArrowInvalid) as error:
        raise CorruptLogError(f"cannot be read: {error}", path=str(path)) from error
    return rows


def _kept(unit: UnitFolder, number: int, record: dict[str, Any]) -> KeptSlice:
    record = repaired(unit, number, record)
    boundary = min(record["files"], default="")
    return KeptSlice(
        source=unit.stream,
        shard=unit.shard,
        unit=unit.name,
        number=number,
        after=record["after"],
        upto=record["upto"],
        watermark_us=record["watermark_us"],
        rows=tuple(slice_rows(record, boundary, unit.data(boundary))),
    )


def _watermarks(run_dir: Path, stream: str, end: int) -> list[int | None]:
    """The watermarks of all slices of a stream that end at an epoch.

    One who carries the stream on with empty state knows none in its first slice: what those before
    it have promised holds on.
    """
    found: list[int | None] = []
    for unit in units(run_dir, stream):
        void = closed_at(run_dir, unit)
        if void is not None and end > void:
            continue
        # The newest first: what is asked for is near the end.
        for path in reversed(unit.slices().values()):
            kind, record = read_any(path)
            if kind == "slice" and record["upto"] == end:
                promised = record["watermark_us"]
                if promised is None and unit.change > 0 and int(path.name) == 0:
                    promised = _smallest(_watermarks(run_dir, stream, record["after"]))
                found.append(promised)
            if kind == "slice" and record["upto"] <= end:
                break
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
