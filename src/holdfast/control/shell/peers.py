"""Connections of the coordinator: what is written to one, and lines read from it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from holdfast.control.shell.lines import to_line

MAX_BACKLOG = 16 * 2**20
"""Bytes a peer may leave unread before it is cut off."""


class Peer:
    """One connection, for writing."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def send(self, message: Mapping[str, Any]) -> None:
        self.send_line(to_line(message) + b"\n")

    def send_line(self, line: bytes) -> None:
        """Queue a line; a peer that does not read is cut off rather than waited for."""
        if self.closed:
            return
        self._writer.write(line)
        if self._writer.transport.get_write_buffer_size() > MAX_BACKLOG:
            self._writer.transport.abort()

    @property
    def closed(self) -> bool:
        return self._writer.is_closing()

    def close(self) -> None:
        self._writer.close()


async def receive_line(reader: asyncio.StreamReader) -> bytes:
    """The next line of a peer; EOFError: it is gone."""
    line = await reader.readline()
    if not line.endswith(b"\n"):
        raise EOFError("connection closed")
    return line


async def receive(reader: asyncio.StreamReader) -> dict[str, Any]:
    """The next message of a peer."""
    message = json.loads(await receive_line(reader))
    if not isinstance(message, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004
    return message
