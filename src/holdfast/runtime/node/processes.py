"""Find and end the processes of a node, and nothing else.

A node starts its own session, and its Java virtual machine and Python workers stay in it. Process
groups are not enough: Spark's Python daemon makes a group of its own. Every process of a launch
also inherits HOLDFAST_LAUNCH with the launch's id; a process is touched only if it carries it, so
that a recycled number can never hit a stranger. Names are never looked at.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

LAUNCH_VARIABLE = "HOLDFAST_LAUNCH"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    started: float
    """Creation time in seconds since 1970, as the system reports it."""

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        try:
            return cls(pid=pid, started=psutil.Process(pid).create_time())
        except psutil.Error:
            return None

    def alive(self) -> bool:
        """Whether it runs; one that has ended and waits to be reaped does not."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < 0.05
            return bool(same and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.Error:
            return False


def session_members(session: int, launch: str | None = None) -> list[int]:
    """Numbers of all living processes of a session (of that launch, if given)."""
    found: list[int] = []
    for pid in psutil.pids():
        try:
            if os.getsid(pid) != session:
                continue
        except OSError:
            continue
        if _is_zombie(pid) or (launch is not None and not _belongs(pid, launch)):
            continue
        found.append(pid)
    return found


def name_and_stop(pid: int) -> tuple[str, bool]:
    """The name of a process and whether it is stopped; raises OSError if there is none."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        text = file.read()
    name, _, rest = text.partition("(")[2].rpartition(") ")
    return name, rest[:1] == "T"


def wake_stopped(pids: Iterable[int]) -> list[int]:
    """SIGCONT to those that are stopped; tells which."""
    woken = []
    for pid in pids:
        with contextlib.suppress(OSError):
            if name_and_stop(pid)[1]:
                os.kill(pid, signal.SIGCONT)
                woken.append(pid)
    return woken


def launch_members(launch: str) -> list[int]:
    """All living processes of a launch but this one, wherever they moved."""
    own = os.getpid()
    return [
        pid for pid in psutil.pids() if pid != own and not _is_zombie(pid) and _belongs(pid, launch)
    ]


def signal_session(session: int, launch: str, signum: int) -> list[int]:
    """Send a signal to every process of a session of this launch; tells which."""
    members = session_members(session, launch)
    for pid in members:
        with contextlib.suppress(OSError):
            os.kill(pid, signum)
    return members


def kill_session(session: int, launch: str, *, deadline_s: float = 5.0) -> bool:
    """Kill a session for good; True once nothing of it is left."""
    end = time.monotonic() + deadline_s
    # Again and again, for a process may have forked between being listed and being killed.
    while signal_session(session, launch, signal.SIGKILL):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


# These two look at every process of the machine while a kill waits for them: psutil reads and
# parses more than is asked for, and takes four times as long.


def _belongs(pid: int, launch: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            variables = file.read().split(b"\0")
    except OSError:
        return False
    return f"{LAUNCH_VARIABLE}={launch}".encode() in variables


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            # The name in parentheses may hold anything, so the state is found from the right.
            return file.read().rpartition(b") ")[2][:1] in (b"Z", b"X")
    except OSError:
        return True
