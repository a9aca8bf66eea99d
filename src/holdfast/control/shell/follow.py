"""A coordinator that follows: it hears the leader, and takes over when `election` says so."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from pathlib import Path
from typing import Any, Literal, TypeAlias, assert_never

from holdfast.clock import Clock, SystemClock
from holdfast.control import election as el
from holdfast.control.shell.lines import to_line
from holdfast.control.shell.seat import Seat
from holdfast.control.shell.wire import MAX_LINE
from holdfast.control.state import State
from holdfast.rundir.endpoint import Endpoint, read_endpoint

log = logging.getLogger("holdfast.coordinator")

TICK_S = 0.05
CONNECT_S = 0.5
LOOK_S = 0.2
"""How often a follower looks whether there is a newer leader than the one it listens to."""

Outcome: TypeAlias = State | Literal["over", "orphaned"]


class Follower:
    """One process until it leads or the run is over."""

    def __init__(
        self,
        *,
        run_dir: Path,
        launch: str,
        name: str,
        seat: Seat,
        election: el.Election,
        clock: Clock | None = None,
    ) -> None:
        self._run_dir = run_dir
        self._launch = launch
        self._name = name
        self._seat = seat
        self._election = election
        self._clock = clock or SystemClock()
        self._outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    async def run(self, *, parent_pid: int | None = None) -> Outcome:
        """Follow; gives the state to lead with, or why there is nothing to lead any more."""
        listening = asyncio.create_task(self._listen())
        try:
            while not self._outcome.done():
                self._feed(el.Tick())
                if parent_pid is not None and os.getppid() != parent_pid:
                    return "orphaned"
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(self._outcome), TICK_S)
            return self._outcome.result()
        finally:
            listening.cancel()
            # A cancellation may get lost in a timeout that ends at the same moment.
            await asyncio.wait([listening])

    def _feed(self, event: el.Event) -> None:
        """Have the machine decide, and do what it says; what comes of it is the next event."""
        events: list[el.Event] = [event]
        while events and not self._outcome.done():
            for command in self._election.handle(events.pop(0), self._clock.now()):
                match command:
                    case el.Claim():
                        log.info("claiming the next term: %s", command.why)
                        events.append(self._claim())
                    case el.Leave():
                        self._outcome.set_result("over")
                    case _:
                        assert_never(command)

    def _claim(self) -> el.Event:
        state = self._seat.take()
        if state is None:
            log.info("another one came first")
            return el.Outrun()
        self._outcome.set_result(state)
        return el.Claimed(term=self._seat.term)

    async def _listen(self) -> None:
        """Stay connected to the leader; an error of the machine ends everything."""
        try:
            while not self._outcome.done():
                endpoint = read_endpoint(self._run_dir)
                if endpoint is not None and endpoint.launch == self._launch:
                    await self._hear(endpoint)
                self._feed(el.Lost())
                await asyncio.sleep(TICK_S)
        except Exception as error:
            if not self._outcome.done():
                self._outcome.set_exception(error)
            raise

    async def _hear(self, endpoint: Endpoint) -> None:
        """Listen to one leader until the connection breaks or there is a newer one."""
        try:
            reader, writer = await asyncio.wait_for(
                asyncio.open_connection(endpoint.host, endpoint.port, limit=MAX_LINE), CONNECT_S
            )
        except (OSError, TimeoutError):
            return
        try:
            greeting = {"role": "coordinator", "token": endpoint.token, "name": self._name}
            writer.write(to_line(greeting) + b"\n")
            self._feed(el.Reached())
            while not self._outcome.done() and not self._is_outdated(endpoint):
                with contextlib.suppress(TimeoutError):
                    self._understand(await asyncio.wait_for(reader.readuntil(), LOOK_S))
        except (OSError, EOFError, ValueError) as error:
            log.debug("the leader is gone: %s", error)
        finally:
            writer.close()

    def _is_outdated(self, endpoint: Endpoint) -> bool:
        found = read_endpoint(self._run_dir)
        return found is not None and found.term > endpoint.term

    def _understand(self, line: bytes) -> None:
        message: Any = json.loads(line)
        match message:
            case {"term": int(term)}:
                self._feed(el.Heard(term=term))
            case {"over": True}:
                self._feed(el.RunOver())
            case {"ok": False}:
                raise ValueError(f"refused: {message.get('error')}")
