"""Side by side: the same word count, the same input, kill -9 at the same moments.

Plain Structured Streaming (stock and tuned), PyFlink, Pathway, Bytewax and Holdfast. Each peer is
installed in an environment of its own from pinned versions (`--envs`), the Spark ones and Holdfast
run in this one. Files of lines appear at a fixed rate; counts per (second, word) are read back from
what each system has made visible. A system is killed with SIGKILL, all its processes at once, and
started again by a supervisor that polls every 20 ms; of Holdfast the node that runs the pipeline is
killed, and its own spare takes over, and in a second row all its processes are, as of the others.

    start-up    start to the first complete second of results
    first       kill to the first complete result of input that came after the kill
    caught up   kill to results being no later than a second beyond the usual lag
    lost        words that the final counts lack; doubled: words counted too often
    lines/s     a burst of lines, from its release until all are counted
    memory      largest sum of proportional set sizes of all its processes

The kills are spread over rounds; in each, all systems are measured one after the other, so that a
machine that changes meanwhile changes for all of them. Every measurement goes to the file of
`--json`; `--resume` takes what is there and goes on, `--minutes` begins nothing after so long.

Examples: `python -m benchmarks.peers --kills 5`, `python -m benchmarks.peers --only flink`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks._peers_input import POLL_S, Feed, Results, difference
from benchmarks._peers_systems import LABELS, NAMES, ROOT, Row, System, install
from benchmarks._stream_common import end_on_terminate, scratch
from holdfast.runtime.spark.start.archive import ensure_archive

START_S = 600.0
PHASES = (0.5, 0.1, 0.9, 0.3, 0.7)
"""Where in a second of input each kill falls."""
STEADY_S = 5
STEADY_BATCHES = 3


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What every system is given."""

    lines_per_s: int
    burst: int
    """Lines that are released at once, at the end."""


def measure(name: str, phases: list[float], load: Load, envs: Path) -> Row:
    """One system from its start over some kills to the last count."""
    with scratch() as root:
        feed = Feed(root / "input", load.lines_per_s)
        system = System(name=name, root=root / "system", feed=feed, envs=envs)
        watch = Watch(system=system, feed=feed, results=Results(root / "system" / "out"))
        began = time.time()
        feed.start()
        recoveries = []
        try:
            with system:
                ready = watch.until(lambda: watch.complete >= 0, START_S, "first result")
                for phase in phases:
                    recoveries.append(_recovery(watch, phase))
                    print(f"  {name:12} {recoveries[-1]}", flush=True)
                _settle(watch)
                feed.stop()
                second = feed.release(load.burst)
                released = feed.released[second]
                counted = watch.until(lambda: watch.complete >= second, START_S, "burst")
        finally:
            feed.stop()
        lost, doubled = difference(feed.expected, watch.results.counts)
    return {
        "start_s": ready - began,
        "recoveries": recoveries,
        "lost": lost,
        "doubled": doubled,
        "lines_per_s": load.burst / (counted - released),
        "memory_mb": watch.memory / 1e6,
        "load": os.getloadavg()[0],
    }


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


# Rounds


def rounds_of(kills: int, rounds: int) -> list[list[float]]:
    """The phases of each round's kills."""
    phases = [PHASES[kill % len(PHASES)] for kill in range(kills)]
    return [phases[first::rounds] for first in range(min(rounds, kills))]


@dataclass(slots=True, kw_only=True)
class Record:
    """What was measured so far, in a file that a run in pieces goes on with."""

    path: Path | None
    asked: dict[str, int]
    """What makes measurements comparable; pieces of another run are refused."""
    pieces: list[Row] = field(default_factory=list)

    def resume(self) -> None:
        if self.path is None or not self.path.exists():
            return
        found = json.loads(self.path.read_text())
        if found["asked"] != self.asked:
            sys.exit(f"{self.path} holds another run: {found['asked']}, not {self.asked}")
        self.pieces = found["pieces"]

    def has(self, name: str, number: int) -> bool:
        return any(piece["system"] == name and piece["round"] == number for piece in self.pieces)

    def add(self, piece: Row) -> None:
        self.pieces.append(piece)
        if self.path is not None:
            result = {"asked": self.asked, "pieces": self.pieces, "systems": self.systems()}
            self.path.write_text(json.dumps(result, indent=1) + "\n")

    def systems(self) -> list[Row]:
        """A row for each system: medians over all its rounds, the worst of what must not happen."""
        names = [name for name in NAMES if any(p["system"] == name for p in self.pieces)]
        return [_summary(name, [p for p in self.pieces if p["system"] == name]) for name in names]


def _summary(name: str, pieces: list[Row]) -> Row:
    failed = [piece["failed"] for piece in pieces if "failed" in piece]
    good = [piece for piece in pieces if "failed" not in piece]
    if not good:
        return {"system": name, "failed": failed}
    recoveries = [row for piece in good for row in piece["recoveries"]]
    return {
        "system": name,
        "failed": failed,
        "kills": len(recoveries),
        "start_s": statistics.median(piece["start_s"] for piece in good),
        "first_s": statistics.median(row["first_s"] for row in recoveries),
        "caught_up_s": statistics.median(row["caught_up_s"] for row in recoveries),
        "worst_s": max(row["caught_up_s"] for row in recoveries),
        "lag_s": statistics.median(row["lag_s"] for row in recoveries),
        "lost": sum(piece["lost"] for piece in good),
        "doubled": sum(piece["doubled"] for piece in good),
        "lines_per_s": statistics.median(piece["lines_per_s"] for piece in good),
        "memory_mb": max(piece["memory_mb"] for piece in good),
        "load": max(piece["load"] for piece in good),
    }


def table(rows: list[Row]) -> str:
    """The table for README and docs."""
    lines = [
        "| | kills | start-up | lag | first result | caught up | worst | lost | doubled "
        "| lines/s | memory |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        label = LABELS[row["system"]]
        lines += [f"| {label} | failed: {reason} {'| ' * 9}|" for reason in row["failed"]]
        if "kills" in row:
            lines.append(
                f"| {label} | {row['kills']} | {row['start_s']:.1f} s | {row['lag_s']:.1f} s "
                f"| {row['first_s']:.1f} s | {row['caught_up_s']:.1f} s | {row['worst_s']:.1f} s "
                f"| {row['lost']} | {row['doubled']} | {row['lines_per_s'] / 1000:.1f}k "
                f"| {row['memory_mb']:.0f} MB |"
            )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, help="kills of each system")
    parser.add_argument("--rounds", type=int, default=3, help="rounds to spread them over")
    parser.add_argument("--only", action="append", choices=NAMES, help="only this; repeatable")
    parser.add_argument("--rate", type=int, default=500, help="lines per second")
    parser.add_argument("--burst", type=int, default=50_000, help="lines of the burst")
    parser.add_argument("--envs", type=Path, default=ROOT / "build" / "peers")
    parser.add_argument("--quick", action="store_true", help="one kill each")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--resume", action="store_true", help="go on with what --json holds")
    parser.add_argument("--minutes", type=float, default=600.0, help="begin nothing after so long")
    args = parser.parse_args()
    end_on_terminate()
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        print("PyFlink and plain Spark need Java on the path", file=sys.stderr)
        return 2
    if args.resume and args.json is None:
        parser.error("--resume needs --json")
    kills = args.kills or (1 if args.quick else 5)
    names, envs = args.only or list(NAMES), args.envs.resolve()
    asked = {"kills": kills, "rounds": args.rounds, "rate": args.rate, "burst": args.burst}
    record = Record(path=args.json, asked=asked)
    if args.resume:
        record.resume()
    install(names, envs)
    ensure_archive()  # what Holdfast and the tuned query start with
    load = Load(lines_per_s=args.rate, burst=args.burst)
    todo = [
        (number, name, phases)
        for number, phases in enumerate(rounds_of(kills, args.rounds))
        for name in names
        if not record.has(name, number)
    ]
    ended = time.monotonic() + 60 * args.minutes
    while todo and time.monotonic() < ended:
        number, name, phases = todo.pop(0)
        print(f"round {number + 1}: {name}", flush=True)
        piece: Row = {"system": name, "round": number}
        try:
            record.add(piece | measure(name, phases, load, envs))
        except (OSError, RuntimeError) as error:
            print(error, file=sys.stderr)
            record.add(piece | {"failed": str(error).splitlines()[0]})
    rows = record.systems()
    load_average = max((row.get("load", 0.0) for row in rows), default=0.0)
    print(f"\n{args.rate} lines/s, {os.cpu_count()} cores, load at most {load_average:.1f}\n")
    print(table(rows))
    if todo:
        print(f"\n{len(todo)} measurements are missing: go on with --resume", file=sys.stderr)
    wrong = any(row["failed"] or row["lost"] or row["doubled"] for row in rows)
    return 1 if wrong or todo else 0


if __name__ == "__main__":
    sys.exit(main())
