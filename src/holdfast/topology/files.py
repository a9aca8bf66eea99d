"""Topology files on disk."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.inputs import MAX_BYTES, check_size, decode, read_input
from holdfast.topology.codec import Format, dump_topology, parse_topology
from holdfast.topology.graph import Topology


def load_topology(path: str | Path) -> Topology:
    """Read a topology from a YAML or JSON file; `-` reads standard input."""
    origin = str(path)
    if origin == "-":
        raw = sys.stdin.buffer.read(MAX_BYTES + 1)
        check_size(len(raw), "standard input")
        return _parse(raw, "standard input", "topology")
    raw = read_input(path)
    return _parse(raw, origin, Path(path).stem)


def save_topology(topology: Topology, path: str | Path) -> None:
    """Write a topology, as JSON when the name ends so, else as YAML."""
    Path(path).write_text(dump_topology(topology, _format_by_name(str(path)) or "yaml"))


def _parse(raw: bytes, origin: str, name: str) -> Topology:
    text = decode(raw, origin)
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
