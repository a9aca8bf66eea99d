"""The processes a launcher started, and the list of them on disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from holdfast.runtime.node.processes import (
    LAUNCH_VARIABLE,
    ProcessId,
    kill_session,
    launch_members,
    signal_session,
)

Kind = Literal["node", "coordinator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """A line of RUN/processes.jsonl."""

    kind: Kind
    name: str
    pid: int
    started: float
    launch: str


class Child:
    """One process with its own session."""

    def __init__(
        self,
        *,
        kind: Kind,
        name: str,
        module: str,
        arguments: list[str],
        run_dir: Path,
        launch: str,
    ) -> None:
        self.kind = kind
        self.name = name
        self._launch = launch
        output = run_dir / ("nodes" if kind == "node" else "coordinator") / f"{name}.out"
        output.parent.mkdir(parents=True, exist_ok=True)
        with output.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, LAUNCH_VARIABLE: launch, "PYTHONUNBUFFERED": "1"},
            )
        self.pid = self._process.pid
        self._lock = threading.Lock()
        found = ProcessId.of(self.pid)
        self.record = ProcessRecord(
            kind=kind,
            name=name,
            pid=self.pid,
            started=found.started if found is not None else 0.0,
            launch=launch,
        )

    def exit_code(self) -> int | None:
        """Its exit code, or None while it runs; reaps it."""
        with self._lock:
            return self._process.poll()

    def signal(self, signum: int) -> None:
        """Send a signal to the process and everything it started."""
        if self.exit_code() is None:
            signal_session(self.pid, self._launch, signum)

    def terminate(self) -> None:
        """Ask the process itself to end; it takes its children along."""
        with self._lock:
            if self._process.poll() is None:
                self._process.terminate()

    def kill(self) -> None:
        """Kill it and everything it started."""
        if self.exit_code() is None:
            # The leader first and at once; the sweep after it takes longer.
            os.kill(self.pid, signal.SIGKILL)
        self.sweep()

    def sweep(self) -> None:
        """Kill what is left of its session after its own end."""
        kill_session(self.pid, self._launch)


class ProcessList:
    """RUN/processes.jsonl: every process ever started here, so that a later launch can check."""

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / "processes.jsonl"

    def add(self, record: ProcessRecord) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(record)) + "\n")

    def clear(self) -> None:
        """A new launch begins and nothing of the old ones is left."""
        self._path.unlink(missing_ok=True)

    def records(self) -> list[ProcessRecord]:
        if not self._path.exists():
            return []
        lines = self._path.read_text(encoding="utf-8").splitlines()
        return [ProcessRecord(**json.loads(line)) for line in lines]

    def leftovers(self) -> list[int]:
        """Living processes of all launches recorded here, children of theirs included."""
        records = self.records()
        found = {
            record.pid
            for record in records
            if ProcessId(pid=record.pid, started=record.started).alive()
        }
        for launch in {record.launch for record in records}:
            found.update(launch_members(launch))
        found.discard(os.getpid())
        return sorted(found)
