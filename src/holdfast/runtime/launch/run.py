"""A run on this machine, as an object: what the command line and the chaos tests hold.

```
run = LocalRun(run_dir, spec, LaunchSettings(nodes=2, spares=1))
run.start()
run.wait_for(all_running, deadline_s=60)
run.kill_node("n0")
...
run.stop()
```
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from holdfast.control.client import ControlClient
from holdfast.control.shell.wire import ConnectionLostError
from holdfast.control.status import RunView
from holdfast.errors import BadInputError, HoldfastError
from holdfast.rundir.contents import STARTING, half_written, scratch_folder, warm_folder
from holdfast.rundir.spec import RunSpec, write_spec
from holdfast.runtime.launch.children import Child, ProcessList
from holdfast.runtime.launch.local import LaunchSettings, LocalLauncher
from holdfast.storage import open_storage

WAIT_S = 0.03


class DeadlineError(HoldfastError):
    """Something awaited did not happen in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReport:
    """How a run ended."""

    clean: bool
    """Every process ended by itself."""
    killed: tuple[str, ...]
    """Processes that had to be killed."""
    left: tuple[int, ...]
    """Process numbers still alive: always empty, or something is wrong."""
    given_up: str | None = None
    """Why the run could not go on, one line."""
    last_words: tuple[str, ...] = ()
    """Then, the end of what the last node wrote."""


_logger = logging.getLogger("holdfast.launch")


def all_running(view: RunView) -> bool:
    """A condition for `LocalRun.wait_for`: every unit is heard of and runs, all are recovered, and
    no results are tentative.
    """
    return (
        view.status == "running"
        and all(fork.ended_at is not None for fork in view.forks)
        and all(unit.epoch is not None for unit in view.units)
        and all(recovery.outcome != "open" for recovery in view.recoveries)
    )


def remove_leftovers(run_dir: Path) -> None:
    """Remove what processes that were killed could not; only while nothing runs here."""
    for folder in (scratch_folder(run_dir), warm_folder(run_dir)):
        shutil.rmtree(folder, ignore_errors=True)
    for path in half_written(run_dir):
        path.unlink(missing_ok=True)
    open_storage(run_dir).remove_leftovers("", before=math.inf)


@contextlib.contextmanager
def nothing_running(run_dir: Path) -> Iterator[None]:
    """Keep others from starting a run; raises if one is alive.

    Who decides that units begin anew, or that others take their state over, looks at what there is
    first: it must not move on meanwhile.
    """
    storage = open_storage(run_dir)
    if storage.is_held(STARTING):
        _logger.warning("%s: waiting for another start of this run", run_dir)
    let_go = storage.hold(STARTING)
    try:
        left = ProcessList(run_dir).leftovers()
        if left:
            raise BadInputError(
                f"is in use by processes {', '.join(map(str, left))}",
                where=str(run_dir),
                hint="stop that run first",
            )
        yield
    finally:
        let_go()


class LocalRun:
    """One launch of a run directory; start it once."""

    def __init__(
        self, run_dir: Path, spec: RunSpec, settings: LaunchSettings | None = None
    ) -> None:
        self.run_dir = run_dir.resolve()
        self.spec = spec
        self._list = ProcessList(self.run_dir)
        self.launcher = LocalLauncher(
            run_dir=self.run_dir,
            launch=secrets.token_hex(8),
            parent_pid=os.getpid(),
            settings=settings or LaunchSettings(),
        )
        self._started = False
        self._report: StopReport | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, check: Callable[[], None] = lambda: None) -> None:
        """Start all processes; returns at once.

        Args:
            check: raises if the specification is not up to date; nobody changes anything meanwhile.
        """
        with nothing_running(self.run_dir):
            check()
            write_spec(self.run_dir, self.spec)
            self._list.clear()
            remove_leftovers(self.run_dir)
            self._started = True
            self.launcher.start()

    def status(self) -> RunView:
        """The coordinator's view; raises ConnectionLostError while there is none."""
        with ControlClient(self.run_dir) as client:
            return client.status()

    def note_scaling(self, text: str) -> None:
        """Put a line of the autoscaler's into the timeline; raises like `status`."""
        with ControlClient(self.run_dir) as client:
            client.note_scaling(text)

    def wait_for(
        self,
        condition: Callable[[RunView], bool],
        deadline_s: float,
        what: str = "the condition",
    ) -> RunView:
        """The first view that satisfies a condition."""
        end = time.monotonic() + deadline_s
        last: RunView | None = None
        while time.monotonic() < end:
            with contextlib.suppress(ConnectionLostError):
                last = self.status()
                if condition(last):
                    return last
            if self.launcher.finished.wait(WAIT_S):
                break
        if self.launcher.given_up:
            raise DeadlineError(f"{what} cannot come: {self.launcher.given_up}")
        if last is None:
            raise DeadlineError(f"{what} did not hold within {deadline_s} s: no coordinator")
        units = [(unit.unit, unit.phase, unit.node) for unit in last.units]
        raise DeadlineError(
            f"{what} did not hold within {deadline_s} s: {last.status}, {units}, "
            f"nodes {[node.node for node in last.nodes]}"
        )

    def kill_node(self, name: str) -> None:
        """SIGKILL to a node and all its children, without telling anyone."""
        self._child(name).kill()

    def kill_nodes(self, names: Iterable[str]) -> None:
        """The same for several in one instant: none outlives another by the time a sweep takes."""
        children = [self._child(name) for name in names]
        for child in children:
            child.strike()
        for child in children:
            child.kill()

    def stop_node(self, name: str) -> None:
        """SIGSTOP: the node hangs."""
        self._child(name).signal(signal.SIGSTOP)

    def cont_node(self, name: str) -> None:
        """SIGCONT: the node wakes up."""
        self._child(name).signal(signal.SIGCONT)

    def kill_domain(self, domain: str) -> list[str]:
        """SIGKILL to all nodes of a failure domain; gives their names."""
        names = [name for name, (_, of) in self.launcher.nodes().items() if of == domain]
        for name in names:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child(name).pid, signal.SIGKILL)
        return names

    def kill_coordinator(self) -> int:
        """SIGKILL to the coordinator that leads; gives the number of the dead process."""
        child = self._leader()
        child.kill()
        return child.pid

    def stop_coordinator(self) -> int:
        """SIGSTOP to the coordinator that leads: it hangs; gives the number of its process."""
        child = self._leader()
        child.signal(signal.SIGSTOP)
        return child.pid

    def cont_coordinator(self, pid: int) -> None:
        """SIGCONT to a coordinator: it wakes up, whoever leads meanwhile."""
        for child in self.launcher.coordinators().values():
            if child.pid == pid:
                child.signal(signal.SIGCONT)

    def add_spare(self, domain: str = "d0") -> str:
        return self.launcher.add_spare(domain)

    @property
    def begun_with(self) -> int:
        """Nodes that it was launched with, spares not counted."""
        return self.launcher.settings.nodes

    def add_worker(self, domain: str = "d0") -> str:
        return self.launcher.add_worker(domain)

    def retire(self, node: str) -> None:
        self.launcher.retire(node)

    def stop(self, deadline_s: float = 30.0) -> StopReport:
        """End the run: cleanly if possible within the deadline, by force after it."""
        if self._report is not None or not self._started:
            return self._report or StopReport(clean=True, killed=(), left=())
        end = time.monotonic() + deadline_s
        asked = False
        while time.monotonic() < end and self.launcher.coordinator_expected():
            if not asked:
                with contextlib.suppress(ConnectionLostError), ControlClient(self.run_dir) as ask:
                    ask.stop()
                    asked = True
            time.sleep(WAIT_S)
        self.launcher.no_more_restarts()
        while time.monotonic() < end and self.launcher.alive():
            time.sleep(WAIT_S)
        killed = self.launcher.kill_all()
        self.launcher.close()
        left = self._list.leftovers()
        self._report = StopReport(
            clean=not killed and self.launcher.given_up is None,
            killed=tuple(killed),
            left=tuple(left),
            given_up=self.launcher.given_up,
            last_words=self.launcher.last_words if self.launcher.given_up else (),
        )
        return self._report

    def leftovers(self) -> list[int]:
        """Living processes of this run directory."""
        return self._list.leftovers()

    def _leader(self) -> Child:
        child = self.launcher.coordinator()
        if child is None:
            raise BadInputError("no coordinator leads", where=str(self.run_dir))
        return child

    def _child(self, name: str) -> Child:
        child = self.launcher.node(name)
        if child is None:
            known = ", ".join(self.launcher.nodes()) or "none"
            raise BadInputError(f"no node {name!r}", hint=f"there are: {known}")
        return child
