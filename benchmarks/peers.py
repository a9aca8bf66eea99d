"""Side by side: the same word count, the same input, kill -9 at the same moments.

Plain Structured Streaming (stock and tuned), PyFlink, Pathway, Bytewax and Holdfast. Each peer is
installed in an environment of its own from pinned versions (`--envs`), the Spark ones and Holdfast
run in this one. Files of lines appear at a fixed rate; counts per (second, word) are read back from
what each system has made visible. A system is killed with SIGKILL, all its processes at once, and
started again by a supervisor that polls every 20 ms; of Holdfast the node that runs the pipeline is
killed, and its own spare takes over.

    start-up    start to the first complete second of results
    first       kill to the first complete result of input that came after the kill
    caught up   kill to results being no later than a second beyond the usual lag
    lost        words that the final counts lack; doubled: words counted too often
    lines/s     a burst of lines, from its release until all are counted
    memory      largest sum of proportional set sizes of all its processes

Examples: `python -m benchmarks.peers --kills 5`, `python -m benchmarks.peers --only flink`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import psutil
import pyarrow.parquet as pq

from benchmarks._stream_common import end_on_terminate, scratch

HERE = Path(__file__).resolve().parent / "_peers"
ROOT = HERE.parents[1]
PINNED = {
    "flink": ("apache-flink==2.3.0",),
    "pathway": ("pathway==0.33.0",),
    "bytewax": ("bytewax==0.21.1",),
}
"""What each environment is made of; the Spark systems use the project's own."""
NAMES = ("holdfast", "spark-tuned", "spark-stock", "flink", "pathway", "bytewax")
LABELS = {
    "holdfast": "Holdfast, one warm spare",
    "spark-tuned": "Structured Streaming, tuned",
    "spark-stock": "Structured Streaming, stock",
    "flink": "PyFlink 2.3.0",
    "pathway": "Pathway 0.33.0",
    "bytewax": "Bytewax 0.21.1",
}
WORDS = 3
VOCABULARY = 500
POLL_S = 0.02
START_S = 600.0
PHASES = (0.5, 0.1, 0.9, 0.3, 0.7)
"""Where in a second of input each kill falls."""
STEADY_S = 5
STEADY_BATCHES = 3
Row = dict[str, Any]


# Input


class Feed:
    """One file of lines per second of input, and the counts that must come out of it."""

    def __init__(self, folder: Path, lines_per_s: int) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.lines_per_s = lines_per_s
        self.expected: Counter[str] = Counter()
        self.totals: dict[int, int] = {}
        """Words of each second."""
        self.released: dict[int, float] = {}
        self._rng = np.random.default_rng(11)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self.began = 0.0

    def release(self, lines: int) -> int:
        """The next second's file becomes visible; its number."""
        second = len(self.released)
        picks = np.minimum(self._rng.zipf(1.3, size=(lines, WORDS)), VOCABULARY) - 1
        found: Counter[str] = Counter(f"{second},w{pick}" for pick in picks.ravel().tolist())
        text = "\n".join(f"{second} " + " ".join(f"w{p}" for p in row) for row in picks.tolist())
        temporary = self.folder.parent / f"stage-{second}"
        temporary.write_text(text + "\n")
        self.expected.update(found)
        self.totals[second] = lines * WORDS
        temporary.replace(self.folder / f"{second:08d}.txt")
        self.released[second] = time.time()
        return second

    def start(self) -> None:
        self._closed.clear()
        self.began = time.time() - len(self.released)
        self._thread = threading.Thread(target=self._loop, name="feed", daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        while not self._closed.is_set():
            if time.time() >= self.began + len(self.released):
                self.release(self.lines_per_s)
            else:
                self._closed.wait(POLL_S)

    def stop(self) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def wait_phase(self, phase: float) -> None:
        """Until the clock of the input stands at that part of a second."""
        now = time.time() - self.began
        time.sleep((phase - now) % 1.0)


# Output


class Results:
    """What a system has made visible so far: the largest count of every key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.counts: dict[str, int] = {}
        self.totals: Counter[int] = Counter()
        self._read: dict[Path, int] = {}

    def poll(self) -> None:
        """Read what is new; a file that has become shorter is read again."""
        for path in sorted(self.folder.rglob("*")):
            hidden = any(part.startswith((".", "_")) for part in path.parts[-2:])
            if not path.is_file() or hidden or ".inprogress" in path.name:
                continue
            with contextlib.suppress(OSError):
                self._file(path)

    def _file(self, path: Path) -> None:
        size, done = path.stat().st_size, self._read.get(path, 0)
        if path.suffix == ".parquet":
            if not done:
                table = pq.read_table(path)
                for row in table.select(["second", "word", "count"]).to_pylist():
                    self._take(f"{row['second']},{row['word']}", int(row["count"]))
                self._read[path] = size
            return
        if size < done:
            done = 0
        if size == done:
            return
        with path.open("rb") as file:
            file.seek(done)
            text = file.read()
        whole = text.rfind(b"\n") + 1
        self._read[path] = done + whole
        for line in text[:whole].decode().splitlines():
            self._line(line)

    def _line(self, line: str) -> None:
        if line.startswith("{"):
            row = json.loads(line)
            if row["diff"] > 0:
                self._take(row["key"], int(row["count"]))
            return
        key, _, count = line.rpartition(",")
        self._take(key, int(count))

    def _take(self, key: str, count: int) -> None:
        before = self.counts.get(key, 0)
        if count > before:
            self.counts[key] = count
            self.totals[int(key.partition(",")[0])] += count - before


# Systems


@dataclass(slots=True, kw_only=True)
class System:
    """A program that is started, killed and started again."""

    name: str
    root: Path
    feed: Feed
    envs: Path
    process: subprocess.Popen[bytes] | None = None
    restarted: threading.Thread | None = None

    def environment(self) -> dict[str, str]:
        paths = os.pathsep.join([str(HERE), str(ROOT / "src"), str(ROOT)])
        return {
            **os.environ,
            "INPUT": str(self.feed.folder),
            "OUTPUT": str(self.root / "out"),
            "STATE": str(self.root / "state"),
            "PYTHONPATH": paths,
            "SETTINGS": self.name.removeprefix("spark-"),
        }

    def command(self) -> list[str]:
        if self.name.startswith("spark"):
            return [sys.executable, str(HERE / "run_spark.py")]
        if self.name == "holdfast":
            run = "from holdfast.cli import main; main()"
            app = str(HERE / "holdfast_app.py")
            return [
                *(sys.executable, "-c", run, "run", app, "--nodes", "1", "--spares", "1"),
                *("--run-dir", str(self.root / "run"), "--json"),
            ]
        python = str(self.envs / self.name / "bin" / "python")
        if self.name == "bytewax":
            state = str(self.root / "state")
            return [
                *(python, "-m", "bytewax.run", "run_bytewax:flow"),
                *("-r", state, "-s", "1", "-b", "0"),
            ]
        return [python, str(HERE / f"run_{self.name}.py")]

    def __enter__(self) -> Self:
        (self.root / "state").mkdir(parents=True)
        if self.name == "bytewax":
            python = str(self.envs / self.name / "bin" / "python")
            subprocess.run(
                [python, "-m", "bytewax.recovery", str(self.root / "state"), "1"], check=True
            )
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is None:
            return
        if self.name == "holdfast" and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(60)
        self._kill_all()

    def start(self) -> None:
        with (self.root / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                env=self.environment(),
                stdout=log,
                stderr=log,
                cwd=self.root,
                start_new_session=True,
            )

    def ready(self) -> bool:
        """Whether a kill would meet it as it is meant to run: the spare of Holdfast is warm."""
        if self.name != "holdfast":
            return True
        return any(node["spare"] and node["ready"] for node in self._nodes())

    def kill(self) -> None:
        """SIGKILL; whoever restarts it does so at once."""
        if self.name == "holdfast":
            busy = [node for node in self._nodes() if node["units"]]
            if not busy:
                raise RuntimeError("no node runs the pipeline")
            _kill_tree(busy[0]["pid"])
            return
        self._kill_all()
        while self.process is not None and self.process.poll() is None:
            time.sleep(POLL_S)
        self.start()

    def _nodes(self) -> list[Row]:
        from holdfast.control.client import ControlClient
        from holdfast.errors import HoldfastError

        try:
            with ControlClient(self.root / "run") as client:
                nodes: list[Row] = client.status().to_json()["nodes"]
                return nodes
        except (HoldfastError, OSError):
            return []

    def _kill_all(self) -> None:
        if self.process is not None and self.process.poll() is None:
            _kill_tree(self.process.pid)
            self.process.wait()

    def memory(self) -> int:
        """Proportional set sizes of all its processes."""
        total = 0
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                total += process.memory_full_info().pss
        return total

    def _processes(self) -> list[Any]:
        with contextlib.suppress(psutil.Error, AttributeError):
            root = psutil.Process(self.process.pid)  # type: ignore[union-attr]
            return [root, *root.children(recursive=True)]
        return []


def _kill_tree(pid: int) -> None:
    """A process and all below it, found before any is killed."""
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                process.kill()


# Measuring


@dataclass(slots=True, kw_only=True)
class Watch:
    """Results, lag and memory of one system while it runs."""

    system: System
    feed: Feed
    results: Results
    memory: int = 0
    complete: int = -1
    """Last second up to which all results are there."""
    completed: dict[int, float] = field(default_factory=dict)
    _next_memory: float = 0.0

    def look(self) -> None:
        self.results.poll()
        now = time.time()
        while (second := self.complete + 1) in self.feed.totals:
            if self.results.totals[second] < self.feed.totals[second]:
                break
            self.complete = second
            self.completed[second] = now
        if now >= self._next_memory:
            self.memory = max(self.memory, self.system.memory())
            self._next_memory = now + 2.0

    def until(self, done: Callable[[], bool], seconds: float, what: str) -> float:
        end = time.monotonic() + seconds
        while True:
            self.look()
            if done():
                return time.time()
            if time.monotonic() > end:
                log = (self.system.root / "log").read_text(errors="replace")[-1500:]
                raise TimeoutError(f"{self.system.name}: no {what} within {seconds:.0f} s\n{log}")
            time.sleep(POLL_S)

    def plateau(self) -> bool:
        """Whether the last three batches were late by about the same."""
        lags: dict[float, list[float]] = {}
        for second, at in self.completed.items():
            lags.setdefault(at, []).append(at - self.feed.released[second])
        last = [statistics.median(found) for _, found in sorted(lags.items())[-STEADY_BATCHES:]]
        return len(last) == STEADY_BATCHES and max(last) < 1.5 * min(last)

    def lag(self) -> float:
        """Median seconds from a file to its results, of late."""
        last = sorted(self.completed)[-STEADY_S:]
        return statistics.median(self.completed[s] - self.feed.released[s] for s in last)


def measure(name: str, kills: int, lines_per_s: int, burst: int, envs: Path) -> Row:
    """One system from its start over all kills to the last count."""
    with scratch() as root:
        feed = Feed(root / "input", lines_per_s)
        system = System(name=name, root=root / "system", feed=feed, envs=envs)
        watch = Watch(system=system, feed=feed, results=Results(root / "system" / "out"))
        began = time.time()
        feed.start()
        recoveries = []
        try:
            with system:
                ready = watch.until(lambda: watch.complete >= 0, START_S, "first result")
                for kill in range(kills):
                    recoveries.append(_recovery(watch, PHASES[kill % len(PHASES)]))
                    print(f"  {name:12} {recoveries[-1]}", flush=True)
                _settle(watch)
                feed.stop()
                second = feed.release(burst)
                released = feed.released[second]
                counted = watch.until(lambda: watch.complete >= second, START_S, "burst")
                usual = watch.memory
        finally:
            feed.stop()
        lost, doubled = difference(feed.expected, watch.results.counts)
    return {
        "system": name,
        "start_s": ready - began,
        "recoveries": recoveries,
        "first_s": statistics.median(row["first_s"] for row in recoveries),
        "caught_up_s": statistics.median(row["caught_up_s"] for row in recoveries),
        "worst_s": max(row["caught_up_s"] for row in recoveries),
        "lost": lost,
        "doubled": doubled,
        "lines_per_s": burst / (counted - released),
        "memory_mb": usual / 1e6,
        "lag_s": statistics.median(row["lag_s"] for row in recoveries),
        "load": os.getloadavg()[0],
    }


def difference(expected: Counter[str], counts: dict[str, int]) -> tuple[int, int]:
    """Words that the counts lack, and words that they have too many of."""
    keys = expected.keys() | counts.keys()
    lost = sum(max(0, expected[key] - counts.get(key, 0)) for key in keys)
    doubled = sum(max(0, counts.get(key, 0) - expected[key]) for key in keys)
    return lost, doubled


def _settle(watch: Watch) -> float:
    """Until some seconds in a row came with a steady lag and a kill would be fair; that lag.

    Steady is what is nearly up to date, or what has been late by the same for a while: a system
    whose batches take ten seconds is never nearer than that.
    """

    def steady() -> bool:
        last = sorted(watch.completed)[-STEADY_S:]
        if len(last) < STEADY_S or not watch.system.ready():
            return False
        lags = [watch.completed[s] - watch.feed.released[s] for s in last]
        if max(watch.feed.released) - watch.complete <= 3:
            return max(lags) < max(3.0, 2 * statistics.median(lags))
        return watch.plateau()

    watch.until(steady, START_S, "steady state")
    return watch.lag()


def _recovery(watch: Watch, phase: float) -> Row:
    lag = _settle(watch)
    watch.feed.wait_phase(phase)
    killed = time.time()
    after = max(watch.feed.released) + 1
    watch.system.kill()
    first = watch.until(lambda: watch.complete >= after, START_S, "result after the kill")

    def caught_up() -> bool:
        due = [s for s, at in watch.feed.released.items() if at <= time.time() - lag - 1.0]
        return watch.complete >= max(due)

    done = watch.until(caught_up, START_S, "catching up")
    return {
        "lag_s": round(lag, 2),
        "phase": phase,
        "first_s": round(first - killed, 2),
        "caught_up_s": round(done - killed, 2),
    }


def install(names: list[str], envs: Path) -> None:
    """Make the environments that are missing."""
    for name in names:
        python = envs / name / "bin" / "python"
        stamp = envs / name / ".installed"
        if name not in PINNED or stamp.exists():
            continue
        print(f"installing {', '.join(PINNED[name])} into {envs / name}", flush=True)
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(envs / name)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PINNED[name]], check=True)
        stamp.touch()


def table(rows: list[Row]) -> str:
    """The table for README and docs."""
    lines = [
        "| | start-up | first result | caught up | worst | lost | doubled | lines/s | memory |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        label = LABELS[row["system"]]
        if "failed" in row:
            lines.append(f"| {label} | {row['failed']} | | | | | | | |")
            continue
        lines.append(
            f"| {label} | {row['start_s']:.1f} s | {row['first_s']:.1f} s "
            f"| {row['caught_up_s']:.1f} s | {row['worst_s']:.1f} s | {row['lost']} "
            f"| {row['doubled']} | {row['lines_per_s'] / 1000:.1f}k | {row['memory_mb']:.0f} MB |"
        )
    return "\n".join(lines)


@contextlib.contextmanager
def _archive() -> Iterator[None]:
    """The class archive that Holdfast and the tuned query start with is made beforehand."""
    from holdfast.runtime.spark.start.archive import ensure_archive

    ensure_archive()
    yield


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, help="kills of each system")
    parser.add_argument("--only", action="append", choices=NAMES, help="only this; repeatable")
    parser.add_argument("--rate", type=int, default=500, help="lines per second")
    parser.add_argument("--burst", type=int, default=50_000, help="lines of the burst")
    parser.add_argument("--envs", type=Path, default=ROOT / "build" / "peers")
    parser.add_argument("--quick", action="store_true", help="one kill each")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    end_on_terminate()
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        print("PyFlink and plain Spark need Java on the path", file=sys.stderr)
        return 2
    kills = args.kills or (1 if args.quick else 5)
    names = args.only or list(NAMES)
    install(names, args.envs.resolve())
    rows: list[Row] = []
    with _archive():
        for name in names:
            print(name, flush=True)
            try:
                rows.append(measure(name, kills, args.rate, args.burst, args.envs.resolve()))
            except (OSError, RuntimeError) as error:
                print(error, file=sys.stderr)
                rows.append({"system": name, "failed": str(error).splitlines()[0]})
            if args.json:
                result = {"arguments": {k: str(v) for k, v in vars(args).items()}, "systems": rows}
                args.json.write_text(json.dumps(result, indent=1) + "\n")
    load = max((row.get("load", 0.0) for row in rows), default=0.0)
    print(f"\n{kills} kills each, {args.rate} lines/s, {os.cpu_count()} cores, load {load:.1f}\n")
    print(table(rows))
    return 1 if any("failed" in row or row["lost"] or row["doubled"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
