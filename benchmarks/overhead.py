"""What cutting a pipeline costs: word count over files, plain and cut, at rising rates.

In every round each variant runs once: it is offered each rate for a while, then kept saturated by a
feed that always has more waiting. Rows are input lines (three words each); files come four times a
second and batches are one second apart in all variants. Ratios are taken within a round; medians
over the rounds count.

    sustained   the backlog at the end is below 3 s of input and was worked off in that time
    latency     last row of a window released to its result visible; a second of allowed lateness
                included, and for everyone the batch in which the watermark passes
    saturation  rows/s over the last two thirds of the time, and as a ratio to the plain query
    cpu         processor time of all processes of the system per input row, at saturation
    boundary    what a boundary adds in processor time, per row that crosses it
    memory      resident, of all processes of the system, after saturation
    workers     Python workers that tasks started
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import psutil

from benchmarks._stream_common import (
    Feed,
    HoldfastCount,
    PlainCount,
    end_on_terminate,
    scratch,
    slices,
)
from holdfast.control.shell.wire import ConnectionLostError
from holdfast.profile.cpu import sessions_cpu
from holdfast.runtime.node.processes import session_members
from holdfast.runtime.spark.start import daemon
from holdfast.runtime.spark.start.archive import ensure_archive

System: TypeAlias = HoldfastCount | PlainCount
BAR_RATE = 50_000
PLAIN = "plain, 2 partitions"
Rows: TypeAlias = dict[str, dict[str, Any]]
BARS: dict[str, tuple[str, float]] = {
    "one unit: throughput against plain": (">=", 0.95),
    "cut after filter: throughput against plain": (">=", 0.80),
    "cut everywhere: throughput against plain": (">=", 0.60),
    "a boundary in Java, us of CPU per row": ("<=", 1.5),
    **{
        f"{name}: {what}": ("<=", most)
        for name in ("one unit", "cut after filter", "cut everywhere")
        for what, most in (("memory, Java against Python", 1.0), ("Python workers", 0.0))
    },
}
VARIANTS: dict[str, Any] = {
    PLAIN: "stock, 2 partitions",
    "plain, our settings": "our settings",
    "one unit": "none",
    "one unit, Python": "none",
    "cut after filter": ["filter"],
    "cut after filter, Python": ["filter"],
    "cut everywhere": "all",
    "cut everywhere, Python": "all",
}
"""A plain query's settings, or the cuts of a deployment: slices in Java, or through Python."""
THROUGH_PYTHON = ", Python"
BEHIND_S = 3.0
BACKLOG_ROWS = 200_000
"""What waits at saturation unless told otherwise: a few batches' worth of one query. A pipeline in
several pieces has as many batches under way, so that with too little waiting it is measured how
long a row takes and not how many get through: compare with more."""
SATURATION_FILE_RATE = 200_000
SATURATION_BATCHES = 4
START_RATE = 1_000
"""Rows per second while a system starts: nothing must wait when measuring begins."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two rates, short")
    parser.add_argument("--only", action="append", choices=VARIANTS, help="these variants")
    parser.add_argument("--rounds", type=int, default=1, help="starts of each variant")
    parser.add_argument("--seconds", type=float, help="how long each rate is offered")
    parser.add_argument("--rates", type=int, nargs="*", help="rows/s; none: only saturate")
    parser.add_argument("--memory-mb", type=int, default=512, help="heap of Holdfast's node")
    parser.add_argument(
        "--waiting", type=int, default=BACKLOG_ROWS, help="rows that wait at saturation"
    )
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    end_on_terminate()
    default = (10_000, BAR_RATE) if args.quick else (1_000, 10_000, BAR_RATE, 100_000, 200_000)
    rates = default if args.rates is None else tuple(args.rates)
    seconds = args.seconds or (10.0 if args.quick else 30.0)
    ensure_archive()
    heads = "".join(f"{f'{rate // 1000}k':>18}" for rate in rates)
    print(
        f"{'':26}{heads}{'saturation':>12}{'cpu us/row':>12}{'memory':>9}{'workers':>9}",
        flush=True,
    )
    rounds: list[Rows] = []
    for turn in range(args.rounds):
        names = list(args.only or VARIANTS)
        rounds.append({})
        # Whoever goes first finds other caches: take turns.
        for name in names if turn % 2 == 0 else reversed(names):
            rounds[-1][name] = measure(name, rates, seconds, args.memory_mb, waiting=args.waiting)
            _print(name, rounds[-1][name])
    found = summary(rounds)
    print(f"\nmedians of {args.rounds} rounds (load average {os.getloadavg()[0]:.1f})")
    for name, value in found.items():
        bar = BARS.get(name)
        says = "" if bar is None else f"bar {bar[0]} {bar[1]:g}: {_met(value, *bar)}"
        print(f"{name:58}{value:10.2f}   {says}")
    sustained = {
        name: step["sustained"]
        for rows in rounds
        for name, row in rows.items()
        for step in row["steps"]
        if step["rate"] == BAR_RATE
    }
    if sustained:
        met = all(sustained.values())
        print(f"bar of {BAR_RATE:,} rows/s sustained by all: {'met' if met else 'missed'}")
    if args.json:
        result = {"rounds": rounds, "medians": found, "sustained": sustained}
        args.json.write_text(json.dumps(result, indent=1) + "\n")


def summary(rounds: Sequence[Rows]) -> dict[str, float]:
    """Medians over the rounds, by the names that bars have."""
    found: dict[str, list[float]] = {}
    for rows in rounds:
        plain = rows.get(PLAIN)
        for name, row in rows.items():
            if plain is not None and name != PLAIN:
                ratio = row["rows_per_s"] / plain["rows_per_s"]
                found.setdefault(f"{name}: throughput against plain", []).append(ratio)
        for side, word in (("", "in Java"), (THROUGH_PYTHON, "through Python")):
            cost = boundary_cost(rows, side)
            if cost is not None:
                found.setdefault(f"a boundary {word}, us of CPU per row", []).append(cost)
        for name in VARIANTS:
            ours, theirs = rows.get(name), rows.get(name + THROUGH_PYTHON)
            if ours is not None and theirs is not None:
                both = {"CPU per row": "cpu_us_per_row", "memory": "memory_mb"}
                for what, key in both.items():
                    said = f"{name}: {what}, Java against Python"
                    found.setdefault(said, []).append(ours[key] / theirs[key])
                found.setdefault(f"{name}: Python workers", []).append(ours["workers"])
    return {name: statistics.median(values) for name, values in found.items()}


def _met(value: float, relation: str, bar: float) -> str:
    return "met" if (value >= bar if relation == ">=" else value <= bar) else "missed"


def measure(
    name: str,
    rates: tuple[int, ...],
    seconds: float,
    memory_mb: int,
    *,
    waiting: int = BACKLOG_ROWS,
) -> dict[str, Any]:
    """One variant from start to end."""
    side = "python" if name.endswith(THROUGH_PYTHON) else "native"
    with slices(side), scratch() as root:
        feed = Feed(root, rows_per_s=START_RATE)
        system: System
        if name.startswith("plain"):
            system = PlainCount(root, feed, VARIANTS[name])
        else:
            system = HoldfastCount(root, feed, cuts=VARIANTS[name], memory_mb=memory_mb)
        with system:
            feed.start()
            if isinstance(system, PlainCount):
                system.wait_committed(3)
            else:
                system.wait_ready()
            feed.close()
            watch = Watch(system.processed)
            try:
                _drain(feed, watch, 30.0)
                steps = []
                for rate in rates:
                    steps.append(offer(feed, watch, system.out, rate, seconds))
                    if steps[-1]["left_rows"]:
                        break
                return {"steps": steps, **saturate(feed, watch, system, seconds, waiting)}
            finally:
                feed.close()
                watch.close()


class Watch:
    """How many rows a system has processed, sampled in a thread."""

    def __init__(self, processed: Callable[[], int]) -> None:
        self.samples: list[tuple[float, int]] = [(time.monotonic(), 0)]
        self._processed = processed
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    @property
    def latest(self) -> int:
        return self.samples[-1][1]

    def changes(self, after: float) -> list[tuple[float, int]]:
        """The samples after a time at which the number had grown."""
        pairs = zip(self.samples, self.samples[1:], strict=False)
        return [now for before, now in pairs if now[1] > before[1] and now[0] >= after]

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(0.1):
            try:
                self.samples.append((time.monotonic(), self._processed()))
            except ConnectionLostError:
                continue


def offer(feed: Feed, watch: Watch, out: Path, rate: int, seconds: float) -> dict[str, Any]:
    """Offer one rate for a while, then see how long the rest takes."""
    feed.set_rate(rate)
    feed.stage(seconds + 2)
    start = time.time()
    feed.start()
    time.sleep(seconds)
    behind_s = (feed.offered - watch.latest) / rate
    feed.close()
    end = time.time()
    drain_s = _drain(feed, watch, max(10.0, seconds))
    found = sorted(feed.latencies(out, after=start + seconds / 3, before=end))
    return {
        "rate": rate,
        "behind_s": behind_s,
        "drain_s": drain_s,
        "left_rows": feed.offered - watch.latest,
        "sustained": behind_s < BEHIND_S and drain_s < BEHIND_S,
        "latency_s": statistics.median(found) if found else None,
        "latency_p95_s": found[int(0.95 * (len(found) - 1))] if found else None,
    }


def saturate(
    feed: Feed, watch: Watch, system: System, seconds: float, waiting: int
) -> dict[str, Any]:
    """Keep rows waiting and see how many get through."""
    feed.set_rate(SATURATION_FILE_RATE)
    feed.stage(seconds)
    feed.start_closed(lambda: watch.latest, waiting)
    time.sleep(seconds / 3)
    warm, cpu, before = time.monotonic(), _cpu_s(system), watch.latest
    crossed = _crossed(system)
    changes = _several_changes(watch, warm, at_least_s=2 * seconds / 3, at_most_s=4 * seconds)
    used, rows = _cpu_s(system) - cpu, watch.latest - before
    feed.close()
    (first, at_first), (last, at_last) = changes[0], changes[-1]
    passed = _crossed(system)
    return {
        "rows_per_s": (at_last - at_first) / (last - first),
        "cpu_us_per_row": 1e6 * used / max(rows, 1),
        "crossed_per_row": {
            unit: (passed[unit] - crossed[unit]) / max(rows, 1) for unit in crossed
        },
        **_processes(system),
    }


def _several_changes(
    watch: Watch, after: float, *, at_least_s: float, at_most_s: float
) -> list[tuple[float, int]]:
    """Wait until enough batches have ended to speak of a rate."""
    while True:
        waited, changes = time.monotonic() - after, watch.changes(after)
        if waited >= at_least_s and len(changes) >= SATURATION_BATCHES:
            return changes
        if waited >= at_most_s and len(changes) >= 2:
            return changes
        if waited >= 2 * at_most_s:
            raise SystemExit(f"{len(changes)} batches in {waited:.0f} s at saturation")
        time.sleep(0.1)


def boundary_cost(rows: Rows, side: str = "") -> float | None:
    """Processor time that the cut after `filter` adds, per row that crosses it."""
    whole, cut_once = f"one unit{side}", f"cut after filter{side}"
    if not {whole, cut_once} <= rows.keys():
        return None
    cut = rows[cut_once]
    added = cut["cpu_us_per_row"] - rows[whole]["cpu_us_per_row"]
    return float(added / cut["crossed_per_row"]["filter.0#0"])


def _drain(feed: Feed, watch: Watch, deadline_s: float) -> float:
    start = time.monotonic()
    while watch.latest < feed.offered and time.monotonic() - start < deadline_s:
        time.sleep(0.05)
    return time.monotonic() - start


def _crossed(system: System) -> dict[str, int]:
    """Rows each unit has put out so far."""
    if isinstance(system, PlainCount):
        return {}
    return {unit.unit: unit.rows_out or 0 for unit in system.run.status().units}


def _cpu_s(system: System) -> float:
    """Processor time of the query, or of all nodes; ended children of living ones included."""
    return sessions_cpu(_sessions(system))


def _processes(system: System) -> dict[str, float]:
    """What the system's processes hold, and how many of them are Python workers."""
    memory, workers = 0.0, 0
    for session in _sessions(system):
        for pid in session_members(session):
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                memory += process.memory_info().rss / 1e6
                # As a word of its own: Java is told the name in a setting.
                workers += daemon.__name__ in process.cmdline()
    return {"memory_mb": memory, "workers": workers}


def _sessions(system: System) -> list[int]:
    if isinstance(system, PlainCount):
        return [system.group]
    return [node.pid for node in system.run.status().nodes]


def _print(name: str, row: dict[str, Any]) -> None:
    cells = ""
    for step in row["steps"]:
        latency = "-" if step["latency_s"] is None else f"{step['latency_s']:.1f} s"
        cells += f"{('yes ' if step['sustained'] else 'NO ') + latency:>18}"
    print(
        f"{name:26}{cells}{row['rows_per_s']:12,.0f}{row['cpu_us_per_row']:12.1f}"
        f"{row['memory_mb']:9,.0f}{row['workers']:9}",
        flush=True,
    )


if __name__ == "__main__":
    main()
