"""The leading coordinator as it acts: sockets, the clock, the journal of its term.

Events come from connections and from a timer; each goes through the pure machine, its facts are
made durable in one append, and only then, if no newer term has begun meanwhile, are its commands
sent. If the journal cannot be written, or another coordinator leads, the process ends: whatever was
decided and not written has not happened, and its successor decides again. Nodes keep their units
running meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import secrets
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_never

from pydantic import ValidationError

from holdfast.clock import Clock, SystemClock, WallClock
from holdfast.control import codec
from holdfast.control import commands as c
from holdfast.control import events as e
from holdfast.control.coordinator import Coordinator
from holdfast.control.invariants import validate
from holdfast.control.shell.carriers import Carriers
from holdfast.control.shell.lines import to_line
from holdfast.control.shell.peers import Peer, receive, receive_line
from holdfast.control.shell.requests import handover_asked, path_asked
from holdfast.control.shell.seat import Seat
from holdfast.control.shell.shown import Shown
from holdfast.control.shell.wire import MAX_LINE
from holdfast.deployment import UnitId
from holdfast.errors import HoldfastError
from holdfast.rundir.endpoint import Endpoint, keep_endpoint, remove_endpoint, write_endpoint

log = logging.getLogger("holdfast.coordinator")

TICK_S = 0.05
BEAT_S = 0.1
"""How often the other coordinators are told that this one leads."""
GREETING_S = 5.0
MAX_FENCES = 256
"""Fence orders kept for a launcher that is not connected."""


class ForwardClock:
    """Seconds since 1970 that never run backwards: wall time at the start, then monotonic time."""

    def __init__(
        self, floor: float, steady: Clock | None = None, wall: Clock | None = None
    ) -> None:
        self._steady = steady or SystemClock()
        started = max(floor, (wall or WallClock()).now())
        self._offset = started - self._steady.now()

    def now(self) -> float:
        return self._offset + self._steady.now()


class Shell:
    """Feeds the machine and carries out what it says."""

    def __init__(
        self,
        *,
        coordinator: Coordinator,
        seat: Seat,
        run_dir: Path,
        launch: str,
        name: str,
        carriers: Carriers | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Args:
        coordinator: the machine, with the state that the seat was taken with.
        seat: a term that has begun.
        run_dir: of the run.
        launch: to which this process belongs.
        name: of this coordinator among those of the run.
        carriers: of a run with splits: takes paths.
        clock: seconds since 1970.
        """
        self.coordinator = coordinator
        self._seat = seat
        self._run_dir = run_dir
        self._launch = launch
        self._name = name
        self._carriers = carriers
        self._token = secrets.token_hex(32)
        self._clock = clock or ForwardClock(coordinator.state.last_at)
        self._nodes: dict[str, Peer] = {}
        self._launchers: set[Peer] = set()
        self._followers: dict[Peer, str] = {}
        self._fences: deque[c.Fence] = deque(maxlen=MAX_FENCES)
        self._said: deque[e.Event] = deque()
        """What the records have said: handled after all commands, or it would overtake some."""
        self._count = 0
        self._done = asyncio.Event()
        self._over = False
        """The run has ended, and not only this coordinator's part in it."""
        self._failure: BaseException | None = None
        self._check = bool(os.environ.get("HOLDFAST_VALIDATE"))
        self._shown = Shown()

    async def serve(self, *, host: str = "127.0.0.1", parent_pid: int | None = None) -> bool:
        """Lead until the run is stopped (True) or the launcher is gone (False).

        Raises:
            DeposedError: another coordinator leads.
        """
        self.feed(
            e.LaunchOpened(
                cause=self._cause("launch"),
                launch=self._launch,
                term=self._seat.term,
                coordinator=self._name,
            )
        )
        server = await asyncio.start_server(self._connected, host, 0, limit=MAX_LINE)
        port = server.sockets[0].getsockname()[1]
        endpoint = Endpoint(
            host=host,
            port=port,
            token=self._token,
            pid=os.getpid(),
            launch=self._launch,
            term=self._seat.term,
            name=self._name,
        )
        write_endpoint(self._run_dir, endpoint)
        log.info("leading term %d, listening on %s:%d", self._seat.term, host, port)
        orphaned = False
        try:
            while not self._done.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._done.wait(), TICK_S)
                self._seat.check()
                keep_endpoint(self._run_dir, endpoint)
                self.feed(e.Tick(cause=self._cause("tick")))
                if parent_pid is not None and os.getppid() != parent_pid:
                    orphaned = True
                    break
        finally:
            self._done.set()
            server.close()
            for follower in self._followers:
                self._dismiss(follower)
            for peer in (*self._nodes.values(), *self._launchers, *self._followers):
                peer.close()
            self._seat.leave()
            remove_endpoint(self._run_dir, endpoint)
        if self._failure is not None:
            raise self._failure
        return not orphaned

    def feed(self, event: e.Event) -> None:
        """Handle one event: decide, make durable, act."""
        if self._failure is not None:
            return
        try:
            decided = self.coordinator.handle(event, self._clock.now())
            if self._check:
                validate(self.coordinator)
            if decided:
                self._shown.forget()
                facts = [x.fact for x in decided if isinstance(x, c.Record)]
                if facts:
                    self._seat.decide(facts)
                    self._seat.compact_if_long(self.coordinator.state)
        except BaseException as error:
            # Memory is ahead of the journal now; only a fresh start from the journal is safe.
            self._failure = error
            self._done.set()
            raise
        for command in decided:
            self._act(command)
        while self._said:
            self.feed(self._said.popleft())

    def _act(self, command: c.Command) -> None:
        match command:
            case c.Record():
                log.info("%s", to_line(codec.fact_to_json(command.fact)).decode())
            case c.TakePath():
                self._take_path(command)
            case c.KeepPath():
                self._keep_path(command)
            case c.StartUnit() | c.StopUnit() | c.StartProbe() | c.StopProbe():
                node = self.coordinator.state.nodes.get(command.node)
                peer = self._nodes.get(node.incarnation) if node is not None else None
                if peer is not None:
                    peer.send(codec.order_to_json(self._seat.term, command))
            case c.PutFork() | c.EndFork():
                self._seat.keep(command)
            case c.Dismiss():
                peer = self._nodes.get(command.incarnation)
                if peer is not None:
                    peer.send(codec.order_to_json(self._seat.term, command))
            case c.Fence():
                self._fences.append(command)
                for launcher in self._launchers:
                    launcher.send(self._fence(command))
            case c.Finish():
                self._over = True
                self._done.set()
            case _:
                assert_never(command)

    def _take_path(self, command: c.TakePath) -> None:
        """What cannot be put on record now is asked for again."""
        if self._carriers is None:
            return
        try:
            now = self._carriers.take(command.split, command.path, reason=command.reason)
        except (OSError, HoldfastError) as error:
            log.warning("%s cannot take %s: %s", command.split, command.path, error)
            return
        self._said.append(
            e.PathCarried(
                cause=command.cause,
                split=now.split,
                path=now.path,
                change=now.change,
                units=tuple(UnitId.parse(name) for name in now.units),
                reason=now.reason,
            )
        )

    def _keep_path(self, command: c.KeepPath) -> None:
        """What cannot be put on record now is asked for again."""
        if self._carriers is None:
            return
        try:
            units = self._carriers.keep(command.segment, runs=command.runs, reason=command.reason)
        except (OSError, HoldfastError) as error:
            log.warning("%s cannot be %s: %s", command.segment, _kept(command.runs), error)
            return
        if units is not None:
            self._said.append(
                e.PathKept(
                    cause=command.cause,
                    segment=command.segment,
                    runs=command.runs,
                    units=tuple(UnitId.parse(name) for name in units),
                )
            )

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(writer)
        try:
            greeting = await asyncio.wait_for(receive(reader), GREETING_S)
            token = str(greeting.get("token", ""))
            if not hmac.compare_digest(token.encode(), self._token.encode()):
                peer.send({"ok": False, "error": "wrong token"})
                return
            peer.send({"ok": True})
            match greeting.get("role"):
                case "node":
                    await self._talk_to_node(reader, peer)
                case "launcher":
                    await self._talk_to_launcher(reader, peer)
                case "control":
                    await self._talk_to_control(reader, peer)
                case "coordinator":
                    await self._talk_to_follower(peer, str(greeting.get("name", "")))
                case other:
                    peer.send({"ok": False, "error": f"unknown role {other!r}"})
        except (OSError, EOFError, ValueError, TimeoutError) as error:
            log.debug("connection ended: %s", error)
        finally:
            peer.close()

    async def _talk_to_node(self, reader: asyncio.StreamReader, peer: Peer) -> None:
        hello = codec.message_from_json(await receive(reader))
        if not isinstance(hello, e.NodeHello):
            return
        before = self._nodes.get(hello.incarnation)
        self._nodes[hello.incarnation] = peer
        if before is not None:
            before.close()
        try:
            self.feed(hello)
            while True:
                message = codec.message_from_line(await receive_line(reader))
                # A replaced connection may still have lines in flight.
                if self._nodes.get(hello.incarnation) is peer:
                    self.feed(message)
        except ValidationError as error:
            log.warning("%s speaks another language: %s", hello.node, error)
        finally:
            if self._nodes.get(hello.incarnation) is peer:
                del self._nodes[hello.incarnation]
                if not self._done.is_set():
                    self.feed(
                        e.NodeDisconnected(
                            cause=self._cause(f"gone-{hello.node}"),
                            node=hello.node,
                            incarnation=hello.incarnation,
                        )
                    )

    async def _talk_to_launcher(self, reader: asyncio.StreamReader, peer: Peer) -> None:
        self._launchers.add(peer)
        for fence in self._fences:
            peer.send(self._fence(fence))
        try:
            while True:
                match await receive(reader):
                    case {"exited": {"node": str(node), "pid": int(pid), **more}}:
                        cause = self._cause(f"exit-{node}")
                        retired = more.get("retired") is True
                        self.feed(e.NodeExited(cause=cause, node=node, pid=pid, retired=retired))
                    case {"trouble": str(trouble)}:
                        cause = self._cause("trouble")
                        self.feed(e.LauncherTroubled(cause=cause, trouble=trouble))
                    case other:
                        log.warning("the launcher says %s", other)
        finally:
            self._launchers.discard(peer)

    async def _talk_to_follower(self, peer: Peer, name: str) -> None:
        """Say again and again that this one leads."""
        self._followers[peer] = name
        self._shown.forget()
        try:
            while not self._done.is_set() and not peer.closed:
                peer.send({"term": self._seat.term})
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._done.wait(), BEAT_S)
            self._dismiss(peer)
        finally:
            self._followers.pop(peer, None)
            self._shown.forget()

    def _dismiss(self, follower: Peer) -> None:
        if self._over:
            follower.send({"over": True})

    async def _talk_to_control(self, reader: asyncio.StreamReader, peer: Peer) -> None:
        while True:
            request = await receive(reader)
            if request.get("op") == "status":
                peer.send_line(self._status())
            else:
                peer.send(self._answer(request))

    def _status(self) -> bytes:
        followers = tuple(sorted(self._followers.values()))
        return self._shown.line(self.coordinator, self._clock.now(), followers)

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        state = self.coordinator.state
        match request.get("op"):
            case "kill":
                node = str(request.get("node"))
                if node not in state.nodes:
                    known = ", ".join(sorted(state.nodes)) or "none"
                    return {"ok": False, "error": f"no node {node!r}; there are: {known}"}
                self.feed(e.KillRequested(cause=self._cause("kill"), node=node))
            case "retry":
                unit = str(request.get("unit"))
                if unit not in state.units or state.units[unit].phase != "held":
                    return {"ok": False, "error": f"no held unit {unit!r}"}
                self.feed(e.RetryRequested(cause=self._cause("retry"), unit=UnitId.parse(unit)))
            case "hand over":
                self.feed(handover_asked(request, self._cause("handover")))
            case "note scaling":
                text = str(request.get("text", ""))
                self.feed(e.ScalingSaid(cause=self._cause("scaling"), text=text))
            case "path":
                asked = path_asked(request, self._cause("path"))
                if not self.coordinator.paths.knows(asked):
                    return {"ok": False, "error": f"no path '{asked.split}:{asked.path}'"}
                self.feed(asked)
            case "stop":
                self.feed(e.StopRequested(cause=self._cause("stop")))
            case other:
                return {"ok": False, "error": f"unknown request {other!r}"}
        return {"ok": True, "result": None}

    def _fence(self, fence: c.Fence) -> dict[str, Any]:
        return {"term": self._seat.term, "fence": {"node": fence.node, "pid": fence.pid}}

    def _cause(self, what: str) -> str:
        """Unique within the run: coordinator process, running number."""
        self._count += 1
        return f"{what}-{os.getpid()}-{self._count}"


def _kept(runs: bool) -> str:
    return "begun again" if runs else "shut down"
