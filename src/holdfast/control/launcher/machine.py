"""Keeps the processes of one run going: one method mutates, and its result is data.

A node that died is replaced by a new spare, a coordinator that died is started again, to follow
whoever leads meanwhile. The machine decides nothing about units: it tells the coordinator which
processes ended, and what keeps it from starting others.

All restarts are bounded. A node that is not up in time is killed, nodes that end before they can
run units are started only so often in a row, and a run that has no node left and may start none is
given up with what its last node said. A coordinator that was killed is started again at once; one
that ends by itself, or cannot be started at all, more and more slowly until the run is given up. As
long as another coordinator runs, the run is not given up for want of one.

```
            StartNode            NodeUp                NodeEnded
   (due) ------------> coming ----------> up ---------------------> (due)
     ^                   |                                            ^
     |  one came up      |  NodeEnded: a failed start                 |  within the budget
   (owed) <--------------+--------------------------------------------+
             too many in a row, or none can ever start
```
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import assert_never

from holdfast.control.election import DEPOSED
from holdfast.control.launcher import commands as c
from holdfast.control.launcher import events as e
from holdfast.control.launcher.settings import LaunchSettings
from holdfast.control.status import summary
from holdfast.errors import HoldfastError
from holdfast.rundir.spec import BAD_INPUT

MAX_EXITS = 256
"""Ends of nodes that a coordinator is told of when it is reached."""
ENDED_LOGS = 64
"""Ended nodes whose logs are kept."""


class UnknownNodeError(HoldfastError):
    """News of a node that was never started or has ended: a fault in the shell."""


@dataclass(slots=True, kw_only=True)
class NodeProcess:
    """A node that was started and has not ended."""

    domain: str
    replaces: bool
    """It stands in for one that ended: nobody waits for it who could be told that it failed."""
    since: float
    pid: int | None = None
    up: bool = False
    retired: bool = False
    """It was told to end because it is not needed, and is not replaced."""
    overdue: bool = False
    """It is being killed because it did not come up in time."""


class Launcher:
    """The processes of one launch, as decisions."""

    def __init__(self, settings: LaunchSettings) -> None:
        self._settings = settings
        self._commands: list[c.LaunchCommand] = []
        self.nodes: dict[str, NodeProcess] = {}
        self._spare_count = 0
        self._worker_count = settings.nodes
        self._due: list[tuple[float, str]] = []
        """Replacements to start: when, and in which failure domain."""
        self._recovering = False
        self._owed: list[str] = []
        """Failure domains of nodes that are not replaced before another one has come up."""
        self._replaced: tuple[float, ...] = ()
        self._failed_starts = 0
        """Nodes that have ended without coming up since one came up."""
        self._hopeless = False
        """The last of them said that none can ever start."""
        self.coordinators: set[str] = set()
        """Those that were started and have not ended."""
        self._coordinators_due: dict[str, float] = {}
        self._restarted: tuple[float, ...] = ()
        self._refused: tuple[float, ...] = ()
        """When the coordinator ended by itself or could not be started."""
        self._exits: deque[c.TellExited] = deque(maxlen=MAX_EXITS)
        self._ended: deque[str] = deque()
        self._node_trouble: str | None = None
        self._coordinator_trouble: str | None = None
        self._leaving = False
        """A node was told to leave: the run ends."""
        self.stopping = False
        self.given_up: str | None = None
        """Why the run cannot go on, if it was given up."""
        self.last_words: tuple[str, ...] = ()
        """The end of the output of the last process that did not come up."""

    @property
    def trouble(self) -> str | None:
        """What goes wrong with starting processes while the run goes on; one line."""
        return self._coordinator_trouble or self._node_trouble

    @property
    def coordinator_due(self) -> bool:
        """Whether a coordinator will be started in place of one that ended."""
        return bool(self._coordinators_due)

    def coming(self) -> list[str]:
        """Nodes that run and have not come up yet."""
        return [name for name, node in self.nodes.items() if not node.up]

    def handle(self, event: e.LaunchEvent, now: float) -> list[c.LaunchCommand]:
        """Decide what follows from one event."""
        self._commands = []
        match event:
            case e.Tick():
                self._tick(now)
            case e.RecoveriesSeen():
                self._recovering = event.under_way
            case e.LaunchBegan():
                self._begin(now)
            case e.SpareRequested():
                self._start_spare(event.domain, now, replaces=False)
            case e.WorkerRequested():
                name = f"n{self._worker_count}"
                self._worker_count += 1
                self._start(name, event.domain, now, spare=False, replaces=False)
            case e.RetireRequested():
                self._retire(event)
            case e.NodeStarted():
                self._known(event.node).pid = event.pid
            case e.NodeNotStarted():
                self._node_not_started(event, now)
            case e.NodeUp():
                self._node_up(event, now)
            case e.NodeEnded():
                self._node_ended(event, now)
            case e.CoordinatorNotStarted():
                self.coordinators.discard(event.coordinator)
                self.last_words = ()
                what = f"the coordinator cannot be started: {event.error}"
                self._retry_coordinator(event.coordinator, what, now)
            case e.CoordinatorEnded():
                self._coordinator_ended(event, now)
            case e.CoordinatorReached():
                self._tell_all()
            case e.FenceOrdered():
                self._fence(event)
            case e.RestartsEnded():
                self.stopping = True
                self._coordinators_due.clear()
            case _:
                assert_never(event)
        return self._commands

    def _do(self, *commands: c.LaunchCommand) -> None:
        self._commands += commands

    def _known(self, name: str) -> NodeProcess:
        found = self.nodes.get(name)
        if found is None:
            raise UnknownNodeError(f"no node {name} runs; there are: {sorted(self.nodes)}")
        return found

    def _begin(self, now: float) -> None:
        settings = self._settings
        for index in range(settings.coordinators):
            self._start_coordinator(f"c{index}")
        for index in range(settings.nodes):
            self._start(f"n{index}", self._domain(index), now, spare=False, replaces=False)
        for index in range(settings.spares):
            self._start_spare(self._domain(settings.nodes + index), now, replaces=False)

    def _domain(self, index: int) -> str:
        return f"d{index % max(1, self._settings.domains)}"

    def _start_coordinator(self, name: str) -> None:
        self._coordinators_due.pop(name, None)
        self.coordinators.add(name)
        self._do(c.StartCoordinator(coordinator=name, rank=int(name[1:])))

    def _start_spare(self, domain: str, now: float, *, replaces: bool) -> None:
        name = f"s{self._spare_count}"
        self._spare_count += 1
        self._start(name, domain, now, spare=True, replaces=replaces)

    def _start(self, name: str, domain: str, now: float, *, spare: bool, replaces: bool) -> None:
        self.nodes[name] = NodeProcess(domain=domain, replaces=replaces, since=now)
        self._do(c.StartNode(node=name, domain=domain, spare=spare))

    def _retire(self, event: e.RetireRequested) -> None:
        node = self.nodes.get(event.node)
        if node is not None and not node.retired:
            node.retired = True
            self._do(
                c.Log(level="info", text=f"node {event.node} is not needed any more"),
                c.TerminateNode(node=event.node),
            )

    def replacement_due(self, now: float) -> bool:
        """Whether a new spare is about to start, so that recoveries under way matter."""
        return any(at <= now for at, _ in self._due)

    def _tick(self, now: float) -> None:
        held_s = self._settings.replace_wait_s if self._recovering else 0.0
        ready = [domain for at, domain in self._due if at + held_s <= now]
        self._due = [(at, domain) for at, domain in self._due if at + held_s > now]
        if not self.stopping:
            for domain in ready:
                self._start_spare(domain, now, replaces=True)
            for name in [name for name, at in self._coordinators_due.items() if at <= now]:
                self._start_coordinator(name)
        self._give_up_if_alone()
        self._kill_overdue(now)

    def _give_up_if_alone(self) -> None:
        """Without a node and without the right to start one, nothing can ever happen again."""
        if self.nodes or self._due or self.stopping or self._leaving:
            return
        if not self._settings.replace:
            return  # someone may add a node
        self._give_up(self.trouble or "no node is left")

    def _kill_overdue(self, now: float) -> None:
        """Kill nodes that hang while they start; their end is then a failed start."""
        for name, node in self.nodes.items():
            if node.up or node.overdue or node.since >= now - self._settings.start_s:
                continue
            node.overdue = True
            self._do(
                c.Log(level="error", text=f"node {name} hangs while starting and is killed"),
                c.KillNode(node=name),
            )

    def _node_not_started(self, event: e.NodeNotStarted, now: float) -> None:
        node = self._known(event.node)
        del self.nodes[event.node]
        if node.replaces:
            # This may pass. Whoever asked for a node is told so instead, and may ask again.
            self._report(f"cannot start a node: {event.error}")
            self._due.append((now + self._settings.replace_delay_s, node.domain))

    def _node_up(self, event: e.NodeUp, now: float) -> None:
        self._known(event.node).up = True
        self._failed_starts = 0
        self._report(None)
        self._due += [(now + self._settings.replace_delay_s, domain) for domain in self._owed]
        self._owed.clear()

    def _node_ended(self, event: e.NodeEnded, now: float) -> None:
        node = self._known(event.node)
        if node.pid is None:
            raise UnknownNodeError(f"node {event.node} ended before it was started")
        del self.nodes[event.node]
        told = c.TellExited(node=event.node, pid=node.pid, retired=node.retired)
        self._exits.append(told)
        self._do(
            told,
            c.Log(level="info", text=f"node {event.node} ended with {event.code}"),
        )
        self._ended.append(event.node)
        if len(self._ended) > ENDED_LOGS:
            self._do(c.ForgetLogs(node=self._ended.popleft()))
        if node.retired:
            return
        # 0 means that it was told to leave: the run ends.
        self._leaving = self._leaving or event.code == 0
        if self.stopping or not self._settings.replace or event.code == 0:
            return
        if not node.up:
            self._start_failed(event, overdue=node.overdue)
        self._replace(event.node, node, now)

    def _start_failed(self, event: e.NodeEnded, *, overdue: bool) -> None:
        self._failed_starts += 1
        self._hopeless = event.code == BAD_INPUT
        self.last_words = event.words
        why = summary("\n".join(event.words)) or "it said nothing"
        ended = f"{event.node} ended with {event.code} before it could run anything: {why}"
        if overdue:
            limit_s = self._settings.start_s
            ended = f"{event.node} hung while starting and was killed after {limit_s:g} s: {why}"
        count = self._failed_starts
        self._report(ended if count == 1 else f"{count} nodes in a row could not start; {ended}")

    def _replace(self, name: str, node: NodeProcess, now: float) -> None:
        settings = self._settings
        self._replaced = settings.restarts.recent((*self._replaced, now), now)
        if not node.up and (self._hopeless or self._failed_starts >= settings.failed_starts):
            self._owed.append(node.domain)
        elif settings.restarts.allows(self._replaced, now):
            delay_s = settings.replace_delay_s if settings.spares else 0.0
            self._due.append((now + delay_s, node.domain))
        else:
            self._report(f"nodes die too often: {name} is not replaced")

    def _coordinator_ended(self, event: e.CoordinatorEnded, now: float) -> None:
        self.coordinators.discard(event.coordinator)
        if event.code == 0 and self.stopping:
            return  # one that followed, told that the run is over
        if event.code == 0:
            # Nodes that had not joined yet would wait for a coordinator in vain, and coordinators
            # that were not connected to it would take over from one whose work is done.
            left = sorted(self.coordinators)
            self._do(*(c.TerminateCoordinator(coordinator=name) for name in left))
            self._end()
        elif self.stopping:
            return
        elif event.code == DEPOSED or event.code < 0:
            self._restart_coordinator(event.coordinator, event.code, now)
        else:
            self.last_words = event.words
            why = summary("\n".join(event.words)) or "it said nothing"
            what = f"the coordinator ended with {event.code}: {why}"
            if event.code == BAD_INPUT:
                self._give_up(what)
            else:
                self._retry_coordinator(event.coordinator, what, now)

    def _restart_coordinator(self, name: str, code: int, now: float) -> None:
        """It was killed or deposed, which says nothing about the next one."""
        budget = self._settings.restarts
        self._restarted = budget.recent((*self._restarted, now), now)
        if budget.allows(self._restarted, now):
            ended = f"coordinator {name} ended with {code}, starting another"
            self._do(c.Log(level="info", text=ended))
            self._coordinators_due[name] = now
        else:
            self.last_words = ()
            ended = f"the coordinator ended {len(self._restarted)} times, last with {code}"
            self._give_up_without(name, ended)

    def _retry_coordinator(self, name: str, what: str, now: float) -> None:
        """It failed, and the next one may fail for the same reason."""
        if self.stopping:
            return
        budget = self._settings.coordinator_retries
        self._refused = budget.recent((*self._refused, now), now)
        if budget.allows(self._refused, now):
            self._coordinator_trouble = f"{what}; trying again"
            self._do(c.Log(level="error", text=self._coordinator_trouble))
            self._coordinators_due[name] = now + budget.delay(self._refused, now)
        else:
            ended = f"{what}; {len(self._refused)} times in {budget.window_s:g} s"
            self._give_up_without(name, ended)

    def _give_up_without(self, name: str, why: str) -> None:
        """A coordinator stays ended, and the run with it if it was the last."""
        if self.coordinators or self._coordinators_due:
            self._do(c.Log(level="error", text=f"{why}; {name} is not started again"))
        else:
            self._give_up(why)

    def _give_up(self, why: str) -> None:
        self.given_up = why
        self._do(
            c.Log(level="info", text=f"given up: {why}"),  # whoever runs it tells the user
            c.TellTrouble(trouble=f"the run is given up: {why}"),
        )
        # Without a coordinator, nobody else would tell the nodes.
        self._end()

    def _end(self) -> None:
        self.stopping = True
        self._coordinators_due.clear()
        self._do(*(c.TerminateNode(node=name) for name in self.nodes), c.Finish())

    def _report(self, trouble: str | None) -> None:
        """Say what goes wrong with starting nodes, here and to the coordinator; None: no more."""
        if trouble == self._node_trouble:
            return
        self._node_trouble = trouble
        if trouble is not None:
            self._do(c.Log(level="error", text=trouble))
        self._do(c.TellTrouble(trouble=trouble or ""))

    def _tell_all(self) -> None:
        """All that a coordinator which has just been reached may not know."""
        self._do(*self._exits)
        if self._coordinator_trouble is not None:
            self._do(c.TellTrouble(trouble=self._coordinator_trouble))
            self._coordinator_trouble = None
        self._do(c.TellTrouble(trouble=self._node_trouble or ""))

    def _fence(self, event: e.FenceOrdered) -> None:
        node = self.nodes.get(event.node)
        if node is not None and node.pid == event.pid and self._settings.fence:
            self._do(c.Log(level="info", text=f"fencing {event.node}"), c.KillNode(node=event.node))
