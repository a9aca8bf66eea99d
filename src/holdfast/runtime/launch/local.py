"""Keeps the processes of one run on this machine going.

Starts the coordinator and the nodes, restarts a coordinator that died, replaces a node that died by
a new spare, and carries out the coordinator's fence orders. It decides nothing about units: it
tells the coordinator which processes ended, and what keeps it from starting others.

All restarts are bounded. A node that is not up in time is killed, nodes that end before they can
run units are started only so often in a row, and a run that has no node left and may start none is
given up with what its last node said. A coordinator that was killed is started again at once; one
that ends by itself, or cannot be started at all, more and more slowly until the run is given up.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.clock import Clock, SystemClock
from holdfast.control.shell.wire import ConnectionLostError, LineSocket
from holdfast.control.view import summary
from holdfast.health.budget import RestartBudget
from holdfast.rundir.endpoint import read_endpoint
from holdfast.rundir.spec import BAD_INPUT
from holdfast.runtime.launch.children import Child, ProcessList, forget_logs, remove_logs

log = logging.getLogger("holdfast.launch")

WATCH_S = 0.02
RECONNECT_S = 0.1
MAX_EXITS = 256
OUTPUT_S = 5.0
"""How often the length of the processes' output is looked at."""
ENDED_LOGS = 64
"""Ended nodes whose logs are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSettings:
    """How many processes, and how they are watched."""

    nodes: int = 1
    spares: int = 0
    domains: int = 2
    """Nodes and spares are dealt to the failure domains d0, d1, ... in turn."""
    replace: bool = True
    """Start a new spare in the place of a dead node."""
    replace_delay_s: float = 5.0
    """How long to wait with that if there are spares: a starting Java virtual machine would take
    the processor from the recovery, which is over by then but for the slowest operators."""
    beat_s: float = 0.25
    orphan_s: float = 120.0
    stop_s: float = 15.0
    fence: bool = True
    """Kill nodes the coordinator has given up. Chaos turns it off: nothing may depend on it."""
    restarts: RestartBudget = field(default_factory=lambda: RestartBudget(limit=30, window_s=60.0))
    """Bounds the replacements of nodes, and on their own account the restarts of a coordinator that
    was killed."""
    coordinator_retries: RestartBudget = field(
        default_factory=lambda: RestartBudget(limit=20, window_s=300.0, delay_s=0.25)
    )
    """Restarts of a coordinator that ended by itself or could not be started, for want of room or
    memory for example: spread over two and a half minutes."""
    start_s: float = 600.0
    """A node that cannot run units after this long hangs and is killed. The longest a healthy one
    takes is a spare whose rehearsals, one per segment, each use up their time."""
    failed_starts: int = 4
    """Nodes in a row that may end before they can run units; none is replaced after that until
    one has come up."""


class LocalLauncher:
    """The processes of one launch."""

    def __init__(
        self, *, run_dir: Path, launch: str, parent_pid: int, settings: LaunchSettings
    ) -> None:
        self._run_dir = run_dir
        self.launch = launch
        self._parent_pid = parent_pid
        self._settings = settings
        self._clock: Clock = SystemClock()
        self._list = ProcessList(run_dir)
        self._lock = threading.RLock()
        self._nodes: dict[str, Child] = {}
        self._domains: dict[str, str] = {}
        self._coordinator: Child | None = None
        self._exits: deque[tuple[str, int]] = deque(maxlen=MAX_EXITS)
        self._line: LineSocket | None = None
        self._replaced: tuple[float, ...] = ()
        self._restarted: tuple[float, ...] = ()
        self._refused: tuple[float, ...] = ()
        """When the coordinator ended by itself or could not be started."""
        self._coordinator_due: float | None = None
        self._due: list[tuple[float, str]] = []
        """Replacements to start: when, and in which failure domain."""
        self._coming: dict[str, float] = {}
        """Nodes that run and have not come up yet, and since when."""
        self._overdue: set[str] = set()
        """Those of them that are being killed for it."""
        self._failed_starts = 0
        """Nodes that have ended without coming up since one came up."""
        self._hopeless = False
        """The last of them said that none can ever start."""
        self._owed: list[str] = []
        """Failure domains of nodes not replaced because of that."""
        self._ended: deque[str] = deque()
        self._looked_at = 0.0
        self._spare_count = 0
        self._stopping = False
        self._leaving = False
        self.finished = threading.Event()
        """The coordinator ended the run, or the launcher gave up on it."""
        self.given_up: str | None = None
        """Why, if it gave up."""
        self._node_trouble: str | None = None
        self._coordinator_trouble: str | None = None
        self.last_words: tuple[str, ...] = ()
        """The end of the output of the last process that did not come up."""
        self._closed = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, name="launch-watch", daemon=True),
            threading.Thread(target=self._talk, name="launch-link", daemon=True),
        ]

    @property
    def trouble(self) -> str | None:
        """What goes wrong with starting processes while the run goes on; one line."""
        return self._coordinator_trouble or self._node_trouble

    def start(self) -> None:
        """Start everything; returns before anything has joined."""
        with self._lock:
            forget_logs(self._run_dir, keep=ENDED_LOGS)
            self._coordinator = self._start_coordinator()
            for index in range(self._settings.nodes):
                self.add_node(f"n{index}", self._domain(index), spare=False)
            for index in range(self._settings.spares):
                self.add_spare(self._domain(self._settings.nodes + index))
        for thread in self._threads:
            thread.start()

    def add_spare(self, domain: str) -> str:
        """Start one more spare; gives its name."""
        with self._lock:
            name = f"s{self._spare_count}"
            self._spare_count += 1
            self.add_node(name, domain, spare=True)
            return name

    def add_node(self, name: str, domain: str, *, spare: bool) -> None:
        settings = self._settings
        arguments = [
            *("--run-dir", str(self._run_dir), "--name", name, "--domain", domain),
            *("--launch", self.launch, "--parent-pid", str(self._parent_pid)),
            *("--beat-s", str(settings.beat_s), "--orphan-s", str(settings.orphan_s)),
            *("--stop-s", str(settings.stop_s)),
            *(["--spare"] if spare else []),
        ]
        with self._lock:
            child = Child(
                kind="node",
                name=name,
                module="holdfast.runtime.node",
                arguments=arguments,
                run_dir=self._run_dir,
                launch=self.launch,
            )
            self._enlist(child)
            self._nodes[name] = child
            self._domains[name] = domain
            self._coming[name] = self._clock.now()

    def node(self, name: str) -> Child | None:
        with self._lock:
            return self._nodes.get(name)

    def nodes(self) -> dict[str, tuple[Child, str]]:
        """Running nodes by name, with their failure domains."""
        with self._lock:
            return {name: (child, self._domains[name]) for name, child in self._nodes.items()}

    def coordinator(self) -> Child | None:
        with self._lock:
            return self._coordinator

    def coordinator_expected(self) -> bool:
        """Whether a coordinator runs or will be started."""
        with self._lock:
            return self._coordinator is not None or self._coordinator_due is not None

    def no_more_restarts(self) -> None:
        """From now on processes that end stay ended."""
        with self._lock:
            self._stopping = True
            self._coordinator_due = None

    def alive(self) -> bool:
        with self._lock:
            return bool(self._nodes) or self._coordinator is not None

    def kill_all(self) -> list[str]:
        """Kill whatever runs; tells what."""
        with self._lock:
            self._stopping = True
            children = [*self._nodes.values(), *filter(None, [self._coordinator])]
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

    def _domain(self, index: int) -> str:
        return f"d{index % max(1, self._settings.domains)}"

    def _start_coordinator(self) -> Child:
        child = Child(
            kind="coordinator",
            name="coordinator",
            module="holdfast.control",
            arguments=[
                *("--run-dir", str(self._run_dir), "--launch", self.launch),
                *("--parent-pid", str(self._parent_pid)),
            ],
            run_dir=self._run_dir,
            launch=self.launch,
        )
        self._enlist(child)
        return child

    def _enlist(self, child: Child) -> None:
        """Put a new process on the list; without its line there it could be left behind."""
        try:
            self._list.add(child.record)
        except OSError:
            child.kill()
            raise

    def _watch(self) -> None:
        while not self._closed.wait(WATCH_S):
            with self._lock:
                self._look_for_arrivals()
                ended = [child for child in self._nodes.values() if child.exit_code() is not None]
                for child in ended:
                    self._node_ended(child)
                coordinator = self._coordinator
                if coordinator is not None and coordinator.exit_code() is not None:
                    self._coordinator_ended(coordinator)
                self._start_due()
                self._start_due_coordinator()
                self._give_up_if_alone()
                late = self._look_for_overdue()
            for child in late:
                child.kill()
            for child in ended:
                child.sweep()
                child.clean()
            self._bound_outputs()

    def _look_for_arrivals(self) -> None:
        arrived = [name for name in self._coming if self._nodes[name].came_up()]
        if not arrived:
            return
        for name in arrived:
            del self._coming[name]
        self._failed_starts = 0
        self._report(None)
        now = self._clock.now()
        self._due += [(now + self._settings.replace_delay_s, domain) for domain in self._owed]
        self._owed.clear()

    def _look_for_overdue(self) -> list[Child]:
        """Nodes to kill because they hang while they start; their end is then a failed start."""
        limit = self._clock.now() - self._settings.start_s
        late = [name for name, since in self._coming.items() if since < limit]
        new = [name for name in late if name not in self._overdue]
        for name in new:
            log.error("node %s hangs while starting and is killed", name)
        self._overdue.update(new)
        return [self._nodes[name] for name in new]

    def _report(self, trouble: str | None) -> None:
        """Say what goes wrong with starting nodes, here and to the coordinator; None: no more."""
        if trouble == self._node_trouble:
            return
        self._node_trouble = trouble
        if trouble is not None:
            log.error("%s", trouble)
        self._tell({"trouble": trouble or ""})

    def _tell(self, message: dict[str, object]) -> None:
        line = self._line
        if line is None:
            return
        try:
            line.send(message)
        except ConnectionLostError as error:
            # Exits and troubles are told again when the connection is back.
            log.debug("%s", error)

    def _bound_outputs(self) -> None:
        now = self._clock.now()
        if now - self._looked_at < OUTPUT_S:
            return
        self._looked_at = now
        with self._lock:
            children = [*self._nodes.values(), *filter(None, [self._coordinator])]
        for child in children:
            child.bound_output()

    def _start_due(self) -> None:
        now = self._clock.now()
        ready = [domain for at, domain in self._due if at <= now]
        self._due = [(at, domain) for at, domain in self._due if at > now]
        for domain in () if self._stopping else ready:
            try:
                self.add_spare(domain)
            except OSError as error:
                # No memory, no process number, a full disk: this may pass.
                # Not its path: every attempt has another one, and would be another trouble.
                self._report(f"cannot start a node: {error.strerror or error}")
                self._due.append((now + self._settings.replace_delay_s, domain))

    def _node_ended(self, child: Child) -> None:
        del self._nodes[child.name]
        domain = self._domains.pop(child.name)
        self._exits.append((child.name, child.pid))
        self._tell({"exited": {"node": child.name, "pid": child.pid}})
        log.info("node %s ended with %s", child.name, child.exit_code())
        self._forget_logs(child.name)
        # The last look was a moment ago; it may have come up since.
        failed = child.name in self._coming and not child.came_up()
        self._coming.pop(child.name, None)
        overdue = child.name in self._overdue
        self._overdue.discard(child.name)
        # 0 means that it was told to leave: the run ends.
        self._leaving = self._leaving or child.exit_code() == 0
        if self._stopping or not self._settings.replace or child.exit_code() == 0:
            return
        if failed:
            self._start_failed(child, overdue=overdue)
        now = self._clock.now()
        self._replaced = self._settings.restarts.recent((*self._replaced, now), now)
        if failed and (self._hopeless or self._failed_starts >= self._settings.failed_starts):
            self._owed.append(domain)
        elif self._settings.restarts.allows(self._replaced, now):
            delay = self._settings.replace_delay_s if self._settings.spares else 0.0
            self._due.append((now + delay, domain))
        else:
            self._report(f"nodes die too often: {child.name} is not replaced")

    def _start_failed(self, child: Child, *, overdue: bool) -> None:
        self._failed_starts += 1
        self._hopeless = child.exit_code() == BAD_INPUT
        self.last_words = tuple(child.last_words())
        why = summary("\n".join(self.last_words)) or "it said nothing"
        ended = f"{child.name} ended with {child.exit_code()} before it could run anything: {why}"
        if overdue:
            limit_s = self._settings.start_s
            ended = f"{child.name} hung while starting and was killed after {limit_s:g} s: {why}"
        count = self._failed_starts
        self._report(ended if count == 1 else f"{count} nodes in a row could not start; {ended}")

    def _give_up_if_alone(self) -> None:
        """Without a node and without the right to start one, nothing can ever happen again."""
        if self._nodes or self._due or self._stopping or self._leaving:
            return
        if not self._settings.replace:
            return  # someone may add a node
        self._give_up(self.trouble or "no node is left")

    def _give_up(self, why: str) -> None:
        self.given_up = why
        log.info("given up: %s", why)  # whoever runs it tells the user
        self._tell({"trouble": f"the run is given up: {why}"})
        self._stopping = True
        for node in self._nodes.values():
            # Without a coordinator, nobody else would tell them.
            node.terminate()
        self.finished.set()

    def _forget_logs(self, name: str) -> None:
        self._ended.append(name)
        if len(self._ended) > ENDED_LOGS:
            remove_logs(self._run_dir, self._ended.popleft())

    def _coordinator_ended(self, child: Child) -> None:
        code = child.exit_code()
        self._coordinator = None
        if code == 0:
            self._stopping = True
            for node in self._nodes.values():
                # Those that had not joined yet would wait for a coordinator in vain.
                node.terminate()
            self.finished.set()
            return
        if self._stopping:
            return
        if code is not None and code > 0:
            self.last_words = tuple(child.last_words())
            why = summary("\n".join(self.last_words)) or "it said nothing"
            what = f"the coordinator ended with {code}: {why}"
            if code == BAD_INPUT:
                self._give_up(what)
            else:
                self._coordinator_failed(what)
            return
        now = self._clock.now()
        self._restarted = self._settings.restarts.recent((*self._restarted, now), now)
        if self._settings.restarts.allows(self._restarted, now):
            log.info("coordinator ended with %s, starting another", code)
            self._coordinator_due = now
        else:
            self.last_words = ()
            self._give_up(f"the coordinator ended {len(self._restarted)} times, last with {code}")

    def _coordinator_failed(self, what: str) -> None:
        now, budget = self._clock.now(), self._settings.coordinator_retries
        self._refused = budget.recent((*self._refused, now), now)
        if budget.allows(self._refused, now):
            self._coordinator_trouble = f"{what}; trying again"
            log.error("%s", self._coordinator_trouble)
            self._coordinator_due = now + budget.delay(self._refused, now)
        else:
            self._give_up(f"{what}; {len(self._refused)} times in {budget.window_s:g} s")

    def _start_due_coordinator(self) -> None:
        if self._stopping:
            self._coordinator_due = None
        if self._coordinator_due is None or self._coordinator_due > self._clock.now():
            return
        self._coordinator_due = None
        try:
            self._coordinator = self._start_coordinator()
        except OSError as error:
            self.last_words = ()
            self._coordinator_failed(f"the coordinator cannot be started: {error}")

    def _talk(self) -> None:
        """Stay connected to the coordinator and do its fencing."""
        while not self._closed.wait(RECONNECT_S):
            endpoint = read_endpoint(self._run_dir)
            if endpoint is None or endpoint.launch != self.launch:
                continue
            try:
                line = LineSocket(endpoint, "launcher")
                line.set_timeout(None)
                with self._lock:
                    troubles = [self._coordinator_trouble, self._node_trouble or ""]
                    self._coordinator_trouble = None
                    self._line = line
                    # Under the lock, so that news cannot be overtaken by what was before it.
                    for name, pid in self._exits:
                        line.send({"exited": {"node": name, "pid": pid}})
                    for trouble in troubles:
                        if trouble is not None:
                            line.send({"trouble": trouble})
                while True:
                    self._order(line.receive())
            except ConnectionLostError as error:
                log.debug("%s", error)
            finally:
                self._line = None

    def _order(self, message: dict[str, object]) -> None:
        match message.get("fence"):
            case {"node": str(name), "pid": int(pid)}:
                child = self.node(name)
                if child is not None and child.pid == pid and self._settings.fence:
                    log.info("fencing %s", name)
                    child.kill()
            case _:
                log.warning("unknown order %s", message)
