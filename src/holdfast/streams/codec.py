"""The stored form of the second edition's records; their frame is that of all records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any, cast, get_args

from holdfast.deployment.framing import frame, unframe
from holdfast.deployment.slicefiles import slice_file
from holdfast.errors import CorruptLogError
from holdfast.streams.records import (
    Branch,
    Change,
    Child,
    Claim,
    Closing,
    Floor,
    Fork,
    ForkEnd,
    How,
    Range,
    Record,
    Repair,
    Restart,
    Seal,
    Skip,
    Slice,
    Term,
    Turn,
)

MAGIC = b"holdfast-record 2"
"""Format and version: the start of every record."""

KINDS: dict[str, Callable[..., Record]] = {
    kind.kind: kind
    for kind in (
        Change,
        Restart,
        Range,
        Turn,
        Slice,
        Repair,
        Seal,
        Closing,
        Skip,
        Claim,
        Term,
        Fork,
        ForkEnd,
        Branch,
        Floor,
    )
}
_HOW = get_args(How)
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "int | None": (int, type(None)),
    "str": (str,),
    "bool": (bool,),
}
_PLAIN = {
    name: [
        (item.name, _TYPES[item.type]) for item in fields(cast("Any", kind)) if item.type in _TYPES
    ]
    for name, kind in KINDS.items()
}
"""Kind to its fields that hold one number or text, with what they may be."""
_LISTS = ("left_out", "missing", "silent", "units")
"""Fields that hold names."""


def encode(record: Record) -> bytes:
    """The bytes to store."""
    return frame(MAGIC, record.kind, asdict(record))


def decode(data: bytes, *, path: str) -> Record:
    """The record in `data`; raises CorruptLogError naming `path` if it is none."""
    found = unframe(data, path=path)
    format_name, edition = found.magic.split(b" ")
    if format_name != MAGIC.split(b" ")[0]:
        raise CorruptLogError("is not a Holdfast record", path=path)
    if found.magic != MAGIC:
        raise CorruptLogError(
            f"is a record of edition {edition.decode(errors='replace')}, this is edition 2: "
            "begin in another run directory",
            path=path,
        )
    content = found.content()
    if found.kind not in KINDS:
        raise CorruptLogError(f"is a record of unknown kind {found.kind!r}", path=path)
    try:
        return _build(found.kind, content)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise CorruptLogError(f"is no {found.kind} record as edition 2 has it", path=path) from None


def _build(kind: str, data: dict[str, Any]) -> Record:
    """JSON knows lists only; records hold tuples, so that they can be compared and kept."""
    if "how" in data and data["how"] not in _HOW:
        raise ValueError(data["how"])
    for name, types in _PLAIN[kind]:
        if name in data and type(data[name]) not in types:
            raise TypeError(name)
    if kind == Change.kind:
        data["children"] = tuple(
            Child(
                unit=item["unit"],
                segment=item["segment"],
                groups=tuple(item["groups"]),
                of=_number(item.get("of")),
            )
            for item in data["children"]
        )
        data["parents"] = tuple(data["parents"])
        data["state"] = tuple(map(tuple, data.get("state", ())))
        data["ends"] = tuple(data.get("ends", ()))
    for name in _LISTS:
        if name in data:
            data[name] = tuple(data[name])
    if kind == Restart.kind:
        data["changes"] = tuple(_build(Change.kind, item) for item in data["changes"])
    if isinstance(data.get("rows"), dict):
        data["rows"] = {key: _tuples(values) for key, values in data["rows"].items()}
    if isinstance(data.get("files"), dict):
        data["files"] = {key: tuple(map(_file, items)) for key, items in data["files"].items()}
    return KINDS[kind](**data)


def _number(value: Any) -> int | None:
    if type(value) not in _TYPES["int | None"]:
        raise TypeError("of")
    return cast("int | None", value)


def _file(item: Any) -> Any:
    return slice_file(item) if isinstance(item, dict) else _tuples(item)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
