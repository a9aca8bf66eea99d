"""Topology files on disk: found, sized up and read, with one clear line when they are unusable."""

from __future__ import annotations

import gc
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import BadInputError
from holdfast.topology.codec import Format, dump_topology, parse_topology
from holdfast.topology.graph import Topology

MAX_BYTES = 256 * 1000 * 1000
"""Larger files are refused before they are read."""


def load_topology(path: str | Path) -> Topology:
    """Read a topology from a YAML or JSON file; `-` reads standard input."""
    origin = str(path)
    if origin == "-":
        raw = sys.stdin.buffer.read(MAX_BYTES + 1)
        _check_size(len(raw), "standard input")
        return _parse(raw, "standard input", "topology")
    raw = read_input(path)
    return _parse(raw, origin, Path(path).stem)


def save_topology(topology: Topology, path: str | Path) -> None:
    """Write a topology, as JSON when the name ends so, else as YAML."""
    Path(path).write_text(dump_topology(topology, _format_by_name(str(path)) or "yaml"))


def read_input(path: str | Path) -> bytes:
    """The bytes of an input file of bearable size."""
    origin, path = str(path), Path(path)
    try:
        info = path.stat()
        if stat.S_ISDIR(info.st_mode):
            raise BadInputError("is a directory", where=origin, hint="name a file in it")
        if not stat.S_ISREG(info.st_mode):
            raise BadInputError("is not a regular file", where=origin, hint="name a file")
        _check_size(info.st_size, origin)
        return path.read_bytes()
    except FileNotFoundError:
        raise BadInputError("there is no such file", where=origin, hint="check the path") from None
    except PermissionError:
        raise BadInputError("may not be read", where=origin, hint="check its permissions") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInputError(f"cannot be read: {reason}", where=origin) from None


def _check_size(size: int, origin: str) -> None:
    if size > MAX_BYTES:
        raise BadInputError(
            f"is larger than {MAX_BYTES // 1_000_000} MB",
            where=origin,
            hint="a topology this large is surely a mistake",
        )


def _parse(raw: bytes, origin: str, name: str) -> Topology:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInputError("is not text", where=origin, hint="save it as UTF-8") from None
    guess: Format = "json" if text.lstrip()[:1] == "{" else "yaml"
    # Flow-style YAML begins like JSON; a file that says what it is is believed.
    with _collector_paused():
        return parse_topology(
            text, format=_format_by_name(origin) or guess, origin=origin, name=name
        )


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Loading only allocates, so the collector would look in vain: a quarter of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _format_by_name(name: str) -> Format | None:
    if name.endswith(".json"):
        return "json"
    return "yaml" if name.endswith((".yaml", ".yml")) else None
