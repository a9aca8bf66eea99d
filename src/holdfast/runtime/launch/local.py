"""The processes of one run on this machine.

The shell around `control.launcher`: it starts, watches and kills what that machine decides, and
tells it what became of it. A thread looks at the processes, another one is connected to the
coordinator; both go through one lock, so the machine hears one event at a time.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from pathlib import Path
from typing import assert_never

from holdfast.clock import Clock, SystemClock
from holdfast.control.client import ControlClient
from holdfast.control.launcher import commands as c
from holdfast.control.launcher import events as e
from holdfast.control.launcher.machine import ENDED_LOGS, Launcher
from holdfast.control.launcher.settings import LaunchSettings
from holdfast.control.shell.wire import ConnectionLostError, LineSocket
from holdfast.errors import BadInputError
from holdfast.rundir.endpoint import read_endpoint
from holdfast.runtime.launch.children import Child, ProcessList, forget_logs, remove_logs
from holdfast.streams.term import admits

__all__ = ["LaunchSettings", "LocalLauncher"]

log = logging.getLogger("holdfast.launch")

WATCH_S = 0.02
RECONNECT_S = 0.1
ASK_S = 1.0
"""Between two questions how recoveries stand."""
ANSWER_S = 0.25
"""How long an answer may take: nobody looks after the processes meanwhile."""
LOOK_S = 0.25
"""How often it is looked at who leads: a leader that hangs keeps its connections."""
OUTPUT_S = 5.0
"""How often the length of the processes' output is looked at."""


class LocalLauncher:
    """The processes of one launch."""

    def __init__(
        self, *, run_dir: Path, launch: str, parent_pid: int, settings: LaunchSettings
    ) -> None:
        self._run_dir = run_dir
        self.launch = launch
        self._parent_pid = parent_pid
        self.settings = settings
        self._clock: Clock = SystemClock()
        self._list = ProcessList(run_dir)
        self._lock = threading.RLock()
        self._machine = Launcher(settings)
        self._nodes: dict[str, Child] = {}
        self._coordinators: dict[str, Child] = {}
        self._line: LineSocket | None = None
        self._term = -1
        """The newest that a coordinator we were connected to had."""
        self._bounded_at = self._looked_at = 0.0
        self._asked_at = -math.inf
        self.finished = threading.Event()
        """The coordinator ended the run, or the launcher gave up on it."""
        self._closed = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, name="launch-watch", daemon=True),
            threading.Thread(target=self._talk, name="launch-link", daemon=True),
        ]

    @property
    def trouble(self) -> str | None:
        """What goes wrong with starting processes while the run goes on; one line."""
        return self._machine.trouble

    @property
    def given_up(self) -> str | None:
        """Why the run cannot go on, if it was given up."""
        return self._machine.given_up

    @property
    def last_words(self) -> tuple[str, ...]:
        """The end of the output of the last process that did not come up."""
        return self._machine.last_words

    def start(self) -> None:
        """Start everything; returns before anything has joined.

        Raises:
            OSError: a process could not be started; then none runs.
        """
        forget_logs(self._run_dir, keep=ENDED_LOGS)
        try:
            self._handle(e.LaunchBegan(), asked=True)
        except OSError:
            self.kill_all()
            self._nodes, self._coordinators = {}, {}
            raise
        for thread in self._threads:
            thread.start()

    def add_spare(self, domain: str) -> str:
        """Start one more spare; gives its name, or raises OSError."""
        with self._lock:
            self._handle(e.SpareRequested(domain=domain), asked=True)
            return next(reversed(self._nodes))

    def add_worker(self, domain: str) -> str:
        """Start one more node that is no spare; gives its name, or raises OSError."""
        with self._lock:
            self._handle(e.WorkerRequested(domain=domain), asked=True)
            return next(reversed(self._nodes))

    def retire(self, name: str) -> None:
        """Have a node end that is not needed any more."""
        self._handle(e.RetireRequested(node=name))

    def node(self, name: str) -> Child | None:
        with self._lock:
            return self._nodes.get(name)

    def nodes(self) -> dict[str, tuple[Child, str]]:
        """Running nodes by name, with their failure domains."""
        with self._lock:
            known = self._machine.nodes
            return {name: (child, known[name].domain) for name, child in self._nodes.items()}

    def coordinator(self) -> Child | None:
        """The one that leads, as far as is known; None: none does."""
        endpoint = read_endpoint(self._run_dir)
        with self._lock:
            for child in self._coordinators.values():
                if endpoint is not None and child.pid == endpoint.pid:
                    return child
        return None

    def coordinators(self) -> dict[str, Child]:
        """Running coordinators by name, whoever leads."""
        with self._lock:
            return dict(self._coordinators)

    def coordinator_expected(self) -> bool:
        """Whether a coordinator runs or will be started."""
        with self._lock:
            return bool(self._coordinators) or self._machine.coordinator_due

    def no_more_restarts(self) -> None:
        """From now on processes that end stay ended."""
        self._handle(e.RestartsEnded())

    def alive(self) -> bool:
        with self._lock:
            return bool(self._nodes) or bool(self._coordinators)

    def kill_all(self) -> list[str]:
        """Kill whatever runs; tells what."""
        self.no_more_restarts()
        children = self._children()
        running = [child for child in children if child.exit_code() is None]
        for child in running:
            child.kill()
        for child in children:
            child.sweep()
            if child.kind == "node":
                child.clean()
        return [child.name for child in running]

    def close(self) -> None:
        self._closed.set()
        line = self._line
        if line is not None:
            line.close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=5.0)

    def _children(self) -> list[Child]:
        with self._lock:
            return [*self._nodes.values(), *self._coordinators.values()]

    def _handle(self, event: e.LaunchEvent, *, asked: bool = False) -> None:
        """Have the machine decide, and do what it says; what fails is the next event.

        Args:
            event: what happened.
            asked: someone waits for the processes that follow, and gets the error if one cannot be
                started.
        """
        killed: list[Child] = []
        with self._lock:
            events: deque[e.LaunchEvent] = deque([event])
            while events:
                for command in self._machine.handle(events.popleft(), self._clock.now()):
                    match command:
                        case c.StartCoordinator() | c.StartNode():
                            events += self._start(command, asked=asked)
                        case c.KillNode():
                            killed.append(self._nodes[command.node])
                        case _:
                            self._do(command)
        # It takes a while, and others need the lock.
        for child in killed:
            child.kill()

    def _start(
        self, command: c.StartCoordinator | c.StartNode, *, asked: bool
    ) -> list[e.LaunchEvent]:
        try:
            match command:
                case c.StartCoordinator():
                    self._coordinators[command.coordinator] = self._start_coordinator(command)
                    return []
                case c.StartNode():
                    child = self._nodes[command.node] = self._start_node(command)
                    return [e.NodeStarted(node=command.node, pid=child.pid)]
                case _:
                    assert_never(command)
        except OSError as error:
            match command:
                case c.StartCoordinator():
                    failed: e.LaunchEvent = e.CoordinatorNotStarted(
                        coordinator=command.coordinator, error=str(error)
                    )
                case c.StartNode():
                    # Not its path: every attempt has another one, and would be another trouble.
                    why = error.strerror or str(error)
                    failed = e.NodeNotStarted(node=command.node, error=why)
            if asked:
                self._handle(failed)
                raise
            return [failed]

    def _do(
        self,
        command: c.TerminateCoordinator
        | c.TerminateNode
        | c.TellExited
        | c.TellTrouble
        | c.ForgetLogs
        | c.Log
        | c.Finish,
    ) -> None:
        match command:
            case c.TerminateCoordinator():
                self._coordinators[command.coordinator].terminate()
            case c.TerminateNode():
                self._nodes[command.node].terminate()
            case c.TellExited():
                exited = {"node": command.node, "pid": command.pid, "retired": command.retired}
                self._tell({"exited": exited})
            case c.TellTrouble():
                self._tell({"trouble": command.trouble})
            case c.ForgetLogs():
                remove_logs(self._run_dir, command.node)
            case c.Log():
                log.log(logging.ERROR if command.level == "error" else logging.INFO, command.text)
            case c.Finish():
                self.finished.set()
            case _:
                assert_never(command)

    def _start_node(self, command: c.StartNode) -> Child:
        settings = self.settings
        return self._enlist(
            Child(
                kind="node",
                name=command.node,
                module="holdfast.runtime.node",
                arguments=[
                    *("--run-dir", str(self._run_dir), "--name", command.node),
                    *("--domain", command.domain, "--launch", self.launch),
                    *("--parent-pid", str(self._parent_pid)),
                    *("--beat-s", str(settings.beat_s), "--orphan-s", str(settings.orphan_s)),
                    *("--stop-s", str(settings.stop_s)),
                    *(["--spare"] if command.spare else []),
                ],
                run_dir=self._run_dir,
                launch=self.launch,
            )
        )

    def _start_coordinator(self, command: c.StartCoordinator) -> Child:
        return self._enlist(
            Child(
                kind="coordinator",
                name=command.coordinator,
                module="holdfast.control",
                arguments=[
                    *("--run-dir", str(self._run_dir), "--launch", self.launch),
                    *("--name", command.coordinator, "--rank", str(command.rank)),
                    *("--parent-pid", str(self._parent_pid)),
                ],
                run_dir=self._run_dir,
                launch=self.launch,
            )
        )

    def _enlist(self, child: Child) -> Child:
        """Put a new process on the list; without its line there it could be left behind."""
        try:
            self._list.add(child.record)
        except OSError:
            child.kill()
            raise
        return child

    def _watch(self) -> None:
        while not self._closed.wait(WATCH_S):
            with self._lock:
                ended = self._look_at_nodes()
                self._look_at_coordinators()
            self._look_at_recoveries()
            self._handle(e.Tick())
            for child in ended:
                child.sweep()
                child.clean()
            self._bound_outputs()
            self._look_who_leads()

    def _look_at_nodes(self) -> list[Child]:
        """Say who came up and who ended; gives the latter, whose remains are to be removed."""
        ended = {
            name: (child, code)
            for name, child in self._nodes.items()
            if (code := child.exit_code()) is not None
        }
        # After the look at their ends, so that one which came up and ended counts as up.
        for name in self._machine.coming():
            if self._nodes[name].came_up():
                self._handle(e.NodeUp(node=name))
        for name, (child, code) in ended.items():
            del self._nodes[name]
            self._handle(e.NodeEnded(node=name, code=code, words=tuple(child.last_words())))
        return [child for child, _ in ended.values()]

    def _look_at_coordinators(self) -> None:
        for name, child in list(self._coordinators.items()):
            code = child.exit_code()
            if code is not None:
                del self._coordinators[name]
                words = tuple(child.last_words())
                self._handle(e.CoordinatorEnded(coordinator=name, code=code, words=words))

    def _look_at_recoveries(self) -> None:
        """Say whether a recovery is under way when a new spare would take the processor from it."""
        now = self._clock.now()
        if not self._machine.replacement_due(now) or now - self._asked_at < ASK_S:
            return
        self._asked_at = now
        try:
            with ControlClient(self._run_dir, timeout_s=ANSWER_S) as client:
                view = client.status()
        except (ConnectionLostError, BadInputError) as error:
            log.debug("cannot see recoveries: %s", error)
            self._handle(e.RecoveriesSeen(under_way=False))
            return
        open_now = [one for one in view.recoveries if one.outcome == "open"]
        # One without a node to go to may be waiting for the very spare that is to be started.
        under_way = bool(open_now) and all(one.to_node is not None for one in open_now)
        self._handle(e.RecoveriesSeen(under_way=under_way))

    def _look_who_leads(self) -> None:
        """Hang up on a coordinator that leads no longer; `_talk` then finds the one that does."""
        now = self._clock.now()
        line = self._line
        if line is None or now - self._looked_at < LOOK_S:
            return
        self._looked_at = now
        endpoint = read_endpoint(self._run_dir)
        if endpoint is not None and endpoint.term > self._term:
            line.close()

    def _bound_outputs(self) -> None:
        now = self._clock.now()
        if now - self._bounded_at < OUTPUT_S:
            return
        self._bounded_at = now
        for child in self._children():
            child.bound_output()

    def _tell(self, message: dict[str, object]) -> None:
        line = self._line
        if line is None:
            return
        try:
            line.send(message)
        except ConnectionLostError as error:
            # Exits and troubles are told again when the connection is back.
            log.debug("%s", error)

    def _talk(self) -> None:
        """Stay connected to the coordinator and do its fencing."""
        while not self._closed.wait(RECONNECT_S):
            endpoint = read_endpoint(self._run_dir)
            if endpoint is None or endpoint.launch != self.launch:
                continue
            if not admits(self._term, endpoint.term):
                continue
            self._term = endpoint.term
            try:
                line = LineSocket(endpoint, "launcher")
                line.set_timeout(None)
                with self._lock:
                    # Under the lock, so that news cannot be overtaken by what was before it.
                    self._line = line
                    self._handle(e.CoordinatorReached())
                while True:
                    self._order(line.receive())
            except ConnectionLostError as error:
                log.debug("%s", error)
            finally:
                self._line = None

    def _order(self, message: dict[str, object]) -> None:
        match message:
            case {"term": int(term), "fence": {"node": str(name), "pid": int(pid)}}:
                if admits(self._term, term):
                    self._handle(e.FenceOrdered(node=name, pid=pid))
            case _:
                log.warning("unknown order %s", message)
