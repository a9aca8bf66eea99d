"""Lines of JSON over a socket, for everything that talks to the coordinator.

A connection begins with a greeting {"role": ..., "token": ...}, answered by {"ok": true} or by
{"ok": false, "error": ...}. Then
- a `node` sends hello and heartbeats and gets {"term", "command"};
- a `launcher` sends {"exited": {"node", "pid", "retired"}} and {"trouble": LINE}, empty when it is
  over, and gets {"term", "fence": {"node", "pid"}};
- another `coordinator` gets {"term"} ten times a second, and {"over": true} when the run ends;
- a `control` connection sends {"op": ..., ...} and gets {"ok": true, "result": ...} or
  {"ok": false, "error": ...}.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Mapping
from typing import Any, Literal

from holdfast.control.shell.lines import to_line
from holdfast.errors import HoldfastError
from holdfast.rundir.endpoint import Endpoint

MAX_LINE = 8 * 2**20
"""Bytes; a longer line ends the connection."""
Role = Literal["node", "launcher", "control"]


class ConnectionLostError(HoldfastError):
    """The coordinator cannot be reached, or no longer."""


class LineSocket:
    """A blocking connection to the coordinator; sending is safe from several threads."""

    def __init__(self, endpoint: Endpoint, role: Role, *, timeout_s: float = 5.0) -> None:
        self._sending = threading.Lock()
        try:
            self._socket = socket.create_connection(
                (endpoint.host, endpoint.port), timeout=timeout_s
            )
        except OSError as error:
            raise ConnectionLostError(f"no coordinator: {error}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        try:
            self.send({"role": role, "token": endpoint.token})
            answer = self.receive()
        except BaseException:
            self.close()
            raise
        if not answer.get("ok"):
            self.close()
            raise ConnectionLostError(f"refused: {answer.get('error', 'no reason given')}")

    def set_timeout(self, timeout_s: float | None) -> None:
        self._socket.settimeout(timeout_s)

    def send(self, message: Mapping[str, Any]) -> None:
        try:
            with self._sending:
                self._socket.sendall(to_line(message) + b"\n")
        except OSError as error:
            raise ConnectionLostError(f"connection lost: {error}") from None

    def receive(self) -> dict[str, Any]:
        """The next message."""
        try:
            line = self._file.readline(MAX_LINE)
        except (OSError, ValueError) as error:
            raise ConnectionLostError(f"connection lost: {error}") from None
        if not line.endswith(b"\n"):
            raise ConnectionLostError("connection closed")
        try:
            message = json.loads(line)
        except ValueError:
            raise ConnectionLostError("not a line of JSON") from None
        if not isinstance(message, dict):
            raise ConnectionLostError("not a JSON object")
        return message

    def close(self) -> None:
        """Close; a thread that waits in `receive` gets an error."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._socket.close()
