"""The node program's threads and its end.

- main: carries out commands on the host, one after another;
- poller: asks the host how its units are and puts that on the board;
- beater: sends the board as heartbeats, at once when a unit changes, and watches the launcher;
- link: keeps the connection and receives commands;
- gauges: measures memory and processor use, which takes a while with many processes.

A host that hangs blocks main or poller and no heartbeat. The end is always an `_exit` after killing
the own session, because a Java virtual machine or a stuck thread must not outlive its node.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, assert_never

import psutil

from holdfast.clock import SystemClock
from holdfast.control.commands import (
    Dismiss,
    NodeCommand,
    StartProbe,
    StartUnit,
    StopProbe,
    StopUnit,
)
from holdfast.control.events import Gauges, Heartbeat, NodeHello, ProbeReport, UnitReport
from holdfast.errors import BadInputError
from holdfast.rundir.contents import up_marker
from holdfast.rundir.spec import BAD_INPUT
from holdfast.runtime.host import UnitHost
from holdfast.runtime.node.board import Board
from holdfast.runtime.node.link import Link
from holdfast.runtime.node.processes import name_and_stop, session_members

log = logging.getLogger("holdfast.node")

POLL_S = 0.05
GAUGES_S = 2.0
OFTEN_S = 0.125
"""The same on a node whose processes are judged: it runs a path. Each is told at once; to make one
takes less than a millisecond."""
WORKERS = "hf-"
"""How the names of Python workers begin (`runtime.spark.start.daemon`)."""
FENCED = 4
"""Exit code of a node that was sent away while the run goes on; 0 says that the run ends."""
TOO_SLOW = 3
"""Exit code of a node that did not end in time and had to be killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """How a node program runs."""

    run_dir: Path
    node: str
    incarnation: str
    launch: str
    domain: str
    spare: bool
    beat_s: float = 0.25
    orphan_s: float = 120.0
    """How long to go on without a coordinator."""
    stop_s: float = 15.0
    """How long the host may take to close."""
    parent_pid: int | None = None
    """End when this is no longer the parent."""
    judged: frozenset[str] = frozenset()
    """Segments whose units are judged by what this node's processes use: splits."""


EndReason = Literal["stop", "fenced", "orphaned", "parent gone", "signal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    reason: EndReason


_Job: TypeAlias = StartUnit | StopUnit | StartProbe | StopProbe | _End


class NodeProgram:
    """One node."""

    def __init__(self, settings: NodeSettings, host: UnitHost) -> None:
        self._settings = settings
        self._host = host
        self._clock = SystemClock()
        self._board = Board()
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._beat_now = threading.Event()
        self._ending = threading.Event()
        self._ready = False
        self._gauges = Gauges()
        self._probes: tuple[ProbeReport, ...] = ()
        self._count = 0
        self._link = Link(
            run_dir=settings.run_dir,
            hello=self._hello,
            on_command=self._command,
            on_orphaned=lambda: self._end("orphaned"),
            orphan_s=settings.orphan_s,
            clock=self._clock,
        )

    def run(self) -> int:
        """Run until told to end; gives the exit code."""
        signal.signal(signal.SIGTERM, lambda *_: self._end("signal"))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        bodies = (self._link.run, self._poll, self._beat, self._measure, self._warm)
        for body in bodies:
            name = getattr(body, "__qualname__", "thread")
            threading.Thread(target=self._guard, args=(body,), name=name, daemon=True).start()
        while True:
            try:
                # Short waits, so that signals are handled by the main thread.
                job = self._jobs.get(timeout=0.2)
            except queue.Empty:
                continue
            match job:
                case StartUnit():
                    self._start(job)
                case StopUnit():
                    self._stop(job)
                case StartProbe():
                    log.info("probe=%d of %s:%s start", job.probe, job.split, job.path)
                    self._host.probe(job.split, job.path, job.probe, job.share)
                case StopProbe():
                    self._host.end_probe(job.split, job.path, job.probe)
                case _End():
                    return self._close(job.reason)
                case _:
                    assert_never(job)

    def _guard(self, body: object) -> None:
        """A thread that dies takes the node with it: half a node is worse than none."""
        try:
            body()  # type: ignore[operator]
        except BaseException:
            log.exception("a thread failed")
            self._kill_everything(1)

    def _start(self, command: StartUnit) -> None:
        if not self._board.want(command.unit, command.generation):
            return
        log.info(
            "unit=%s generation=%d start clone_from=%s cause=%s",
            command.unit,
            command.generation,
            command.clone_from,
            command.cause,
        )
        try:
            # An earlier generation that failed here may still hold on to something.
            self._host.stop(command.unit)
            self._host.start(command.unit, command.generation, command.clone_from)
        except Exception as error:  # noqa: BLE001 - whatever it is, the coordinator must know
            log.info("unit=%s generation=%d cannot start", command.unit, command.generation)
            text = traceback.format_exc()
            operator = str(getattr(error, "operator", None) or command.unit.segment)
            _log_failure(str(command.unit), operator, text)
            self._board.failed(command.unit, command.generation, text, operator)
        self._beat_now.set()

    def _stop(self, command: StopUnit) -> None:
        if self._board.unwant(command.unit, command.generation):
            log.info("unit=%s generation=%d stop", command.unit, command.generation)
            self._host.stop(command.unit)

    def _command(self, command: NodeCommand) -> None:
        if isinstance(command, Dismiss):
            self._end(command.reason)
        else:
            self._jobs.put(command)

    def _end(self, reason: EndReason) -> None:
        """Begin the end; whatever hangs, the process is gone after `stop_s`."""
        if self._ending.is_set():
            return
        self._ending.set()
        log.info("ending: %s", reason)
        if reason in ("fenced", "parent gone"):
            # Its units run elsewhere, or nobody waits for a clean end.
            self._kill_everything(FENCED)
        if not self._board.reports(self._clock.now()):
            # A spare may be in the middle of warming up and has nothing to bring to an end.
            self._kill_everything(FENCED if reason == "orphaned" else 0)
        self._jobs.put(_End(reason=reason))
        timer = threading.Timer(self._settings.stop_s, self._kill_everything, args=(TOO_SLOW,))
        timer.daemon = True
        timer.start()

    def _close(self, reason: EndReason) -> int:
        try:
            self._host.close()
        except Exception:
            log.exception("the host did not close")
        log.info("ended: %s", reason)
        self._link.close()
        self._kill_everything(FENCED if reason == "orphaned" else 0)
        return 0

    def _kill_everything(self, code: int) -> None:
        """Kill the own session's other processes and exit without asking any thread."""
        own = os.getpid()
        if os.getsid(0) == own:
            for pid in session_members(own):
                if pid != own:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except OSError:
                        continue
        logging.shutdown()
        os._exit(code)

    def _hello(self) -> NodeHello:
        settings = self._settings
        return NodeHello(
            cause=self._cause("hello"),
            node=settings.node,
            incarnation=settings.incarnation,
            launch=settings.launch,
            domain=settings.domain,
            spare=settings.spare,
            pid=os.getpid(),
            reports=self._board.reports(self._clock.now()),
        )

    def _warm(self) -> None:
        """Open the host; spares only are warmed, a worker's units would have to share the time.

        A node is up when it is open, for it can run units then: a spare may have to long before
        its rehearsals are over, and whatever ends it afterwards was no failed start.
        """
        try:
            self._ready = not self._settings.spare
            self._host.open()
        except Exception as error:
            # Without a session this node is of no use, and another one may have better luck.
            log.exception("cannot start")
            # Also where the launcher looks for the reason.
            traceback.print_exc()
            self._kill_everything(BAD_INPUT if isinstance(error, BadInputError) else 1)
        self._mark_up()
        if self._settings.spare:
            try:
                self._host.warm()
            except Exception:
                # Its units will start more slowly; it may run some already.
                log.exception("cannot rehearse")
        self._ready = True
        log.info("warm" if self._settings.spare else "open")
        self._beat_now.set()

    def _mark_up(self) -> None:
        """Tell the launcher that this node has started."""
        marker = up_marker(self._settings.run_dir, self._settings.node)
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()

    def _poll(self) -> None:
        while not self._ending.is_set():
            for report in self._board.update(self._host.poll(), self._clock.now()):
                log.info(
                    "unit=%s generation=%d %s batch=%d epoch=%d rows_in=%d ms=%.0f waiting=%d",
                    report.unit,
                    report.generation,
                    report.state,
                    report.batch,
                    report.epoch,
                    report.rows_in,
                    report.batch_ms,
                    report.waiting,
                )
                if report.error:
                    _log_end(report)
                self._beat_now.set()
            probes = tuple(self._host.probes())
            if probes != self._probes:
                self._probes = probes
                self._beat_now.set()
            time.sleep(POLL_S)

    def _beat(self) -> None:
        settings = self._settings
        while True:
            self._beat_now.wait(settings.beat_s)
            self._beat_now.clear()
            if settings.parent_pid is not None and os.getppid() != settings.parent_pid:
                self._end("parent gone")
            self._link.send(
                Heartbeat(
                    cause=self._cause("beat"),
                    node=settings.node,
                    incarnation=settings.incarnation,
                    ready=self._ready,
                    reports=self._board.reports(self._clock.now()),
                    gauges=self._gauges,
                    probes=self._probes,
                )
            )

    def _measure(self) -> None:
        known: dict[int, psutil.Process] = {}
        while not self._ending.wait(self._gauges_s()):
            pids = session_members(os.getsid(0))
            known = {pid: known[pid] for pid in pids if pid in known}
            cpu, memory, workers, suspended = 0.0, 0, 0, 0
            for pid in pids:
                try:
                    process = known.setdefault(pid, psutil.Process(pid))
                    cpu += process.cpu_percent() / 100.0
                    used = process.memory_info().rss
                    memory += used
                    name, stopped = name_and_stop(pid)
                    workers = max(workers, used if name.startswith(WORKERS) else 0)
                    suspended += stopped
                except (psutil.Error, OSError):
                    known.pop(pid, None)
            news = suspended > self._gauges.suspended
            self._gauges = Gauges(
                cpu=round(cpu, 3),
                memory_bytes=memory,
                processes=len(pids),
                worker_bytes=workers,
                suspended=suspended,
            )
            if news or self._is_judged():
                self._beat_now.set()

    def _gauges_s(self) -> float:
        return OFTEN_S if self._is_judged() else GAUGES_S

    def _is_judged(self) -> bool:
        judged = self._settings.judged
        if not judged:
            return False
        reports = self._board.reports(self._clock.now())
        return any(told.unit.segment in judged for told in reports)

    def _cause(self, what: str) -> str:
        self._count += 1
        return f"{what}-{self._settings.node}-{self._count}"


def _log_end(report: UnitReport) -> None:
    if report.state == "failed":
        _log_failure(str(report.unit), report.operator, report.error or "")
    else:
        log.info("unit=%s %s: %s", report.unit, report.state, report.error)


def _log_failure(unit: str, operator: str | None, error: str) -> None:
    """Every line bears the unit's name, so that `holdfast logs UNIT` shows all of it."""
    log.error("unit=%s operator=%s failed", unit, operator or "unknown")
    for text in error.rstrip().splitlines():
        log.error("unit=%s %s", unit, text)
