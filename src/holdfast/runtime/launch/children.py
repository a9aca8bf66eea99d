"""The processes a launcher started, their output and temporary files, and the list on disk."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from holdfast.rundir.contents import (
    coordinator_output_path,
    node_output_path,
    nodes_folder,
    processes_path,
    scratch_path,
    temporary_path,
    up_marker,
)
from holdfast.runtime.node.processes import (
    LAUNCH_VARIABLE,
    ProcessId,
    kill_session,
    launch_members,
    signal_session,
)

Kind = Literal["node", "coordinator"]

MAX_OUTPUT = 4 * 2**20
"""Bytes of standard output kept, and as many of what came before."""
ERROR_LINES = 30
MAX_LISTED = 256
"""Processes started until those that ended are forgotten."""
_NOISE = ("Picked up JAVA_TOOL_OPTIONS", "WARNING: Using incubator modules")
"""What Java says at every start and nobody needs."""


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
        self._run_dir = run_dir
        output_path = node_output_path if kind == "node" else coordinator_output_path
        self.output = output_path(run_dir, name)
        self.output.parent.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, LAUNCH_VARIABLE: launch, "PYTHONUNBUFFERED": "1"}
        if kind == "node":
            self.clean()
            environment.update(_scratch_variables(scratch_path(run_dir, name)))
        with self.output.open("ab") as file:
            self._output_from = file.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
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

    def strike(self) -> None:
        """Kill the process itself, at once; what it started is swept later."""
        if self.exit_code() is None:
            os.kill(self.pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kill it and everything it started."""
        self.strike()
        self.sweep()

    def sweep(self) -> None:
        """Kill what is left of its session after its own end."""
        kill_session(self.pid, self._launch)

    def came_up(self) -> bool:
        """Whether a node has ever been able to run units."""
        return up_marker(self._run_dir, self.name).exists()

    def clean(self) -> None:
        """Remove a node's temporary files; to be called when nothing of it runs."""
        shutil.rmtree(scratch_path(self._run_dir, self.name), ignore_errors=True)

    def last_words(self) -> list[str]:
        """The last lines this process has written: of one that died, why."""
        try:
            with self.output.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(min(size, max(self._output_from, size - MAX_OUTPUT // 64)))
                text = file.read().decode("utf-8", errors="replace")
        except OSError:
            return []
        lines = [line for line in text.splitlines() if line.strip()]
        return [line for line in lines if not line.startswith(_NOISE)][-ERROR_LINES:]

    def bound_output(self, limit: int = MAX_OUTPUT) -> None:
        """Move what it has written aside once it is long; what it writes meanwhile may be lost.

        The file itself is emptied, not replaced: all processes of the node hold it open, and
        append to wherever its end is.
        """
        try:
            if self.output.stat().st_size > limit:
                shutil.copyfile(self.output, self.output.with_name(f"{self.output.name}.1"))
                os.truncate(self.output, 0)
                self._output_from = 0
        except OSError:
            # A full disk: then it cannot grow either.
            return


def _scratch_variables(folder: Path) -> dict[str, str]:
    """Have Python, Java and Spark put temporary files where they can be removed with the node.

    Java heeds no TMPDIR. The old options come first, so that someone's own wish is overridden:
    what is elsewhere would stay there after a kill.
    """
    folder.mkdir(parents=True, exist_ok=True)
    options = f'{os.environ.get("JAVA_TOOL_OPTIONS", "")} "-Djava.io.tmpdir={folder}"'
    return {
        "TMPDIR": str(folder),
        "SPARK_LOCAL_DIRS": str(folder),
        "JAVA_TOOL_OPTIONS": options.strip(),
    }


class ProcessList:
    """RUN/processes.jsonl: the processes started here, so that a later launch can check.

    Those that ended are forgotten once there are many, so that the list does not grow with the run.
    """

    def __init__(self, run_dir: Path, *, compact_after: int = MAX_LISTED) -> None:
        self._path = processes_path(run_dir)
        self._compact_after = compact_after
        self._added = 0
        """Lines since the list was last made short."""

    def add(self, record: ProcessRecord) -> None:
        if self._added >= self._compact_after:
            self._compact()
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(record)) + "\n")
        self._added += 1

    def clear(self) -> None:
        """A new launch begins and nothing of the old ones is left."""
        self._path.unlink(missing_ok=True)

    def records(self) -> list[ProcessRecord]:
        if not self._path.exists():
            return []
        lines = self._path.read_text(encoding="utf-8").splitlines()
        return [ProcessRecord(**json.loads(line)) for line in lines]

    def _compact(self) -> None:
        """Keep who lives, and one line of each launch: what it started is found by its name."""
        records = self.records()
        newest = {record.launch: record for record in records}
        kept = [
            record
            for record in records
            if record is newest[record.launch]
            or ProcessId(pid=record.pid, started=record.started).alive()
        ]
        temporary = temporary_path(self._path, os.getpid())
        temporary.write_text("".join(json.dumps(asdict(item)) + "\n" for item in kept))
        # Others read it meanwhile; they see the old list or the new one, both whole.
        temporary.replace(self._path)
        self._added = 0

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


def forget_logs(run_dir: Path, *, keep: int) -> None:
    """Remove the logs of all but the nodes that were heard last: earlier launches had others."""
    heard: dict[str, float] = {}
    for path in nodes_folder(run_dir).glob("*.*"):
        name = path.name.partition(".")[0]
        heard[name] = max(heard.get(name, 0.0), path.stat().st_mtime)
    for name in sorted(heard, key=heard.__getitem__)[: max(0, len(heard) - keep)]:
        remove_logs(run_dir, name)


def remove_logs(run_dir: Path, node: str) -> None:
    """Remove the logs and the output of a node."""
    for path in nodes_folder(run_dir).glob(f"{node}.*"):
        path.unlink(missing_ok=True)
