"""One watcher per node: who waits for a record is woken when it appears.

Problem: a unit's next batch waits for slices that other processes publish, on this machine or on
another. Every waiting task looking for itself costs a hundred looks a second for each of them, and
on a shared file system nobody is told of what another machine writes.

So one thread of the node looks for all who wait, at a rate that does not depend on how many they
are, and those who publish on this node say so at once (`told`). Units that are threads of
the node wait on an event; tasks in Spark's Python workers wait on a socket and use no processor
time meanwhile.

The watcher is a hint and nothing rests on it: records alone decide, whoever waits looks for itself
every `LOOK_S`, and every `POLL_S` when there is no watcher to ask.

The protocol is for any language. Connect to host and port of the address; send its token and a
newline; then lines of JSON, `[n, ["/path", ...]]` with a new n each. As soon as one of the paths
exists, the answer is the line `n`. A line replaces the one before it.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from holdfast.storage import is_there

log = logging.getLogger("holdfast.watch")

POLL_S = 0.01
"""How often the watcher looks for what others on the file system have put."""
LOOK_S = 0.25
"""How often a waiting unit looks for itself, should a hint have been lost."""
RETRY_S = 1.0
"""How long a task does without a watcher that it could not reach."""
MAX_LOOKS = 64
"""Most paths it looks for at a time, some hundred microseconds; more take turns."""
MAX_LINE = 1 << 20
"""Bytes after which a line is taken for nonsense."""


class Watch(Protocol):
    """How a unit that is a thread of the node waits."""

    @property
    def address(self) -> str:
        """Where tasks in other processes ask; empty: nowhere."""
        ...

    def wait(self, paths: Sequence[str], timeout_s: float, wake: threading.Event) -> bool:
        """Until one of the paths exists, `wake` is set or the time is up; whether one exists."""
        ...


class NoWatch:
    """Everyone looks for itself."""

    address = ""

    def wait(self, paths: Sequence[str], timeout_s: float, wake: threading.Event) -> bool:  # noqa: ARG002
        wake.wait(min(timeout_s, POLL_S))
        return False


@dataclass(eq=False, slots=True, kw_only=True)
class _Waiter:
    paths: tuple[str, ...]
    ring: Callable[[], None]


@dataclass(eq=False, slots=True, kw_only=True)
class _Connection:
    socket: socket.socket
    known: bool = False
    """Whether it has shown the token."""
    pending: bytes = b""
    waiter: _Waiter | None = None


@dataclass(slots=True)
class _Paths:
    """Who waits for what; every waiter is rung once and then forgotten."""

    by_path: dict[str, set[_Waiter]] = field(default_factory=dict)

    def add(self, waiter: _Waiter) -> None:
        for path in waiter.paths:
            self.by_path.setdefault(path, set()).add(waiter)

    def remove(self, waiter: _Waiter) -> None:
        for path in waiter.paths:
            waiters = self.by_path.get(path)
            if waiters is not None:
                waiters.discard(waiter)
                if not waiters:
                    del self.by_path[path]

    def take(self, path: str) -> list[_Waiter]:
        found = list(self.by_path.get(path, ()))
        for waiter in found:
            self.remove(waiter)
        return found


class NodeWatch:
    """The watcher of one node; a thread of its process."""

    def __init__(self, *, poll_s: float = POLL_S, look: Callable[[str], bool] = is_there) -> None:
        """`look` tells whether the record at an address of the storage is there."""
        self._poll_s = poll_s
        self._is_there = look
        self._lock = threading.Lock()
        self._paths = _Paths()
        self._connections: set[_Connection] = set()
        self._token = secrets.token_hex(16)
        self._server: socket.socket | None = None
        self._closing = False
        self._turn = 0
        """Where among the paths the next look begins."""
        self.looks = 0
        """How many paths were looked for so far."""

    def start(self) -> None:
        """Begin to watch, if that was not done."""
        with self._lock:
            if self._server is not None or self._closing:
                return
            try:
                self._server = socket.create_server(("127.0.0.1", 0))
            except OSError as error:
                # Waiting is dearer then, and nothing else.
                log.warning("no watcher, everyone looks for itself: %s", error)
                self._closing = True
                return
            self._server.setblocking(False)
            self._alarm, self._alarmed = socket.socketpair()
            for end in (self._alarm, self._alarmed):
                end.setblocking(False)
            self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching; who waits looks for itself from now on."""
        with self._lock:
            started = self._server is not None and not self._closing
            self._closing = True
        if started:
            self._raise_alarm()
            self._thread.join(LOOK_S)

    @property
    def address(self) -> str:
        if self._server is None or self._closing:
            return ""
        host, port = self._server.getsockname()
        return f"{host}:{port}:{self._token}"

    def told(self, path: str) -> None:
        """A path exists now: wake who waits for it."""
        with self._lock:
            found = self._paths.take(path)
        for waiter in found:
            waiter.ring()

    def wait(self, paths: Sequence[str], timeout_s: float, wake: threading.Event) -> bool:
        if not self.address:
            return NoWatch().wait(paths, timeout_s, wake)
        rung = threading.Event()

        def ring() -> None:
            rung.set()
            wake.set()

        waiter = _Waiter(paths=tuple(paths), ring=ring)
        self._add(waiter)
        try:
            wake.wait(timeout_s)
        finally:
            with self._lock:
                self._paths.remove(waiter)
        return rung.is_set()

    def _add(self, waiter: _Waiter) -> None:
        """Known first, looked for then: what is put in between is told or seen."""
        with self._lock:
            first = not self._paths.by_path
            self._paths.add(waiter)
        self._look(waiter.paths)
        if first:
            self._raise_alarm()

    def _raise_alarm(self) -> None:
        """Let the thread look around, unless it has ended or will do so anyhow."""
        with contextlib.suppress(OSError):
            self._alarm.send(b"!")

    def _look(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.looks += 1
            if self._is_there(path):
                self.told(path)

    # The thread

    def _run(self) -> None:
        try:
            self._serve()
        finally:
            # Whatever ended it: tasks see the connection close and look for themselves.
            self._closing = True
            for connection in self._connections:
                connection.socket.close()
            for end in (self._server, self._alarm, self._alarmed):
                if end is not None:
                    end.close()

    def _serve(self) -> None:
        if self._server is None:
            raise AssertionError("started with a server")
        with selectors.DefaultSelector() as selector:
            selector.register(self._server, selectors.EVENT_READ)
            selector.register(self._alarmed, selectors.EVENT_READ)
            due = 0.0
            while not self._closing:
                if time.monotonic() >= due:
                    self._look_for_some()
                    due = time.monotonic() + self._poll_s
                left_s = max(0.0, due - time.monotonic()) if self._paths.by_path else None
                for key, _ in selector.select(left_s):
                    self._handle(key.fileobj, key.data, selector)

    def _look_for_some(self) -> None:
        """One look for everyone who waits, or for as many paths as may be looked for at a time."""
        with self._lock:
            paths = list(self._paths.by_path)
        if len(paths) > MAX_LOOKS:
            self._turn %= len(paths)
            paths = (paths[self._turn :] + paths[: self._turn])[:MAX_LOOKS]
            self._turn += MAX_LOOKS
        self._look(paths)

    def _handle(
        self, ready: object, connection: _Connection | None, selector: selectors.BaseSelector
    ) -> None:
        if connection is not None:
            if not self._hear(connection):
                selector.unregister(connection.socket)
                self._forget(connection)
        elif ready is self._alarmed:
            with contextlib.suppress(BlockingIOError):
                self._alarmed.recv(4096)
        elif self._server is not None:
            try:
                caller, _ = self._server.accept()
                caller.setblocking(False)
                caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:  # the caller has hung up, or there are too many open files
                time.sleep(self._poll_s)
                return
            made = _Connection(socket=caller)
            self._connections.add(made)
            selector.register(caller, selectors.EVENT_READ, made)

    def _hear(self, connection: _Connection) -> bool:
        """Take in what a task says; False at its end, or if it makes no sense."""
        try:
            data = connection.socket.recv(65_536)
        except BlockingIOError:
            return True
        except OSError:
            return False
        *lines, connection.pending = (connection.pending + data).split(b"\n")
        most = MAX_LINE if connection.known else len(self._token)
        if not data or len(connection.pending) > most:
            return False
        for line in lines:
            if not connection.known:
                connection.known = hmac.compare_digest(line, self._token.encode())
                if not connection.known:
                    return False
                continue
            try:
                number, paths = json.loads(line)
                self._ask(connection, int(number), tuple(map(str, paths)))
            except (ValueError, TypeError):
                return False
        return True

    def _ask(self, connection: _Connection, number: int, paths: tuple[str, ...]) -> None:
        answer = b"%d\n" % number

        def ring() -> None:
            # A task that does not listen, or has gone, looks for itself.
            with contextlib.suppress(OSError):
                connection.socket.send(answer)

        with self._lock:
            if connection.waiter is not None:
                self._paths.remove(connection.waiter)
            connection.waiter = _Waiter(paths=paths, ring=ring)
        self._add(connection.waiter)

    def _forget(self, connection: _Connection) -> None:
        self._connections.discard(connection)
        with self._lock:
            if connection.waiter is not None:
                self._paths.remove(connection.waiter)
        connection.socket.close()


class RemoteWatch:
    """The watcher as a task in another process of the node asks it."""

    def __init__(self, address: str) -> None:
        self._host, self._port, self._token = (address or "::").rsplit(":", 2)
        self._socket: socket.socket | None = None
        self._pending = b""
        self._number = 0
        self._retry_at = 0.0 if address else float("inf")

    def wait(self, paths: Sequence[str], timeout_s: float) -> bool:
        """Until one of the paths exists or the time is up; whether one exists.

        Returns early, and False, if the watcher cannot be asked.
        """
        try:
            found = self._ask(paths, timeout_s)
        except OSError:
            self._lose()
            found = None
        if found is None:
            time.sleep(min(POLL_S, timeout_s))
        return bool(found)

    def _ask(self, paths: Sequence[str], timeout_s: float) -> bool | None:
        """None: nobody to ask."""
        deadline = time.monotonic() + timeout_s
        if self._socket is None:
            if time.monotonic() < self._retry_at:
                return None
            self._socket = socket.create_connection((self._host, int(self._port)), timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.sendall(self._token.encode() + b"\n")
        self._number += 1
        self._socket.settimeout(timeout_s)
        self._socket.sendall(json.dumps([self._number, list(paths)]).encode() + b"\n")
        while (left_s := deadline - time.monotonic()) > 0:
            self._socket.settimeout(left_s)
            try:
                data = self._socket.recv(4096)
            except TimeoutError:
                break
            if not data:
                raise ConnectionResetError
            *lines, self._pending = (self._pending + data).split(b"\n")
            if b"%d" % self._number in lines:  # else the answer to something given up
                return True
        return False

    def _lose(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._pending = None, b""
        self._retry_at = time.monotonic() + RETRY_S


@lru_cache(maxsize=8)
def remote_watch(address: str) -> RemoteWatch:
    """This process's connection to a watcher."""
    return RemoteWatch(address)
