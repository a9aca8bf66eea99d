"""A node's connection to the coordinator: found through a file, kept up, never waited for.

Losing it stops nothing: units run on, and the link tries again with growing pauses. Only after
`orphan_s` without a coordinator is the node told to end.

Every command names the term of the coordinator that gave it, and a node takes none of an older term
than it has seen. When another coordinator leads, the file names it: the link looks at it with every
heartbeat, since a leader that hangs keeps its connections.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from holdfast.clock import Clock
from holdfast.control import codec
from holdfast.control.commands import NodeCommand
from holdfast.control.events import Heartbeat, NodeHello
from holdfast.control.shell.seat import newest_term
from holdfast.control.shell.wire import ConnectionLostError, LineSocket
from holdfast.rundir.endpoint import read_endpoint
from holdfast.streams.term import admits

log = logging.getLogger("holdfast.node")

FIRST_PAUSE_S = 0.05
MAX_PAUSE_S = 1.0


class Link:
    """Keeps a node connected; `run` is the body of its own thread."""

    def __init__(
        self,
        *,
        run_dir: Path,
        hello: Callable[[], NodeHello],
        on_command: Callable[[NodeCommand], None],
        on_orphaned: Callable[[], None],
        orphan_s: float,
        clock: Clock,
    ) -> None:
        self._run_dir = run_dir
        self._hello = hello
        self._on_command = on_command
        self._on_orphaned = on_orphaned
        self._orphan_s = orphan_s
        self._clock = clock
        self._line: LineSocket | None = None
        self._term = newest_term(run_dir)
        """The newest that this node has seen."""
        self._closed = threading.Event()

    def send(self, beat: Heartbeat) -> None:
        """Send a heartbeat if connected; otherwise it is not needed, the hello will tell."""
        line = self._line
        if line is None:
            return
        endpoint = read_endpoint(self._run_dir)
        if endpoint is not None and endpoint.term > self._term:
            log.info("the coordinator of term %d leads now", endpoint.term)
            line.close()
            return
        try:
            line.send(codec.message_to_json(beat))
        except ConnectionLostError:
            line.close()

    def close(self) -> None:
        self._closed.set()
        line = self._line
        if line is not None:
            line.close()

    def run(self) -> None:
        pause = FIRST_PAUSE_S
        alone_since = self._clock.now()
        while not self._closed.is_set():
            line = self._connect()
            if line is not None:
                pause = FIRST_PAUSE_S
                self._listen(line)
                alone_since = self._clock.now()
                log.info("lost the coordinator")
            if self._clock.now() - alone_since >= self._orphan_s:
                self._on_orphaned()
                return
            self._closed.wait(pause)
            pause = min(MAX_PAUSE_S, pause * 2)

    def _connect(self) -> LineSocket | None:
        endpoint = read_endpoint(self._run_dir)
        if endpoint is None or not admits(self._term, endpoint.term):
            return None
        self._term = endpoint.term
        try:
            line = LineSocket(endpoint, "node", timeout_s=2.0)
            # Commands may be hours apart; a dead coordinator shows as the end of the stream.
            line.set_timeout(None)
            line.send(codec.message_to_json(self._hello()))
        except ConnectionLostError as error:
            log.debug("cannot connect: %s", error)
            return None
        log.info("connected to the coordinator at %s:%d", endpoint.host, endpoint.port)
        return line

    def _listen(self, line: LineSocket) -> None:
        self._line = line
        try:
            while not self._closed.is_set():
                term, command = codec.order_from_json(line.receive())
                if admits(self._term, term):
                    self._on_command(command)
                else:
                    log.info("not taken, from term %d of %d: %s", term, self._term, command)
        except (ConnectionLostError, ValidationError) as error:
            log.info("connection ended: %s", error)
        finally:
            self._line = None
            line.close()
