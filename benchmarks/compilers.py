"""Which of Java's compilers a node should use: quick to take over, quick when it has run for long.

The quick compiler (C1) has code ready after a few calls; the full one (C2) makes better code much
later, from counts that slow the first code down. Every variant is a set of Java options and a
process of its own: it rehearses a unit as a spare does, takes over another one, and then runs
large batches as fast as it can. CPU time is that of Java and the driver, so that neighbours on the
machine do not count; wall time is shown beside it.

    session    CPU time until the session is there and a unit has been rehearsed, seconds
    takeover   start of the next unit to its third slice, seconds: wall, and CPU time
    early      CPU time per row of a unit that keeps state, its second to tenth large batch, us
    late       the same in its last third
    copy       the same of a unit that only copies rows, in its last third: what a boundary costs
    memory     resident at the end, Java alone, MB

    python -m benchmarks.compilers [--rounds 3] [--batches 90] [--only NAME] [--with NAME=OPTIONS]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from benchmarks._stream_common import end_on_terminate
from benchmarks.batches import Bench, Mark, application
from holdfast.profile.cpu import CpuMeter
from holdfast.runtime.spark.start.archive import ensure_archive
from holdfast.runtime.spark.start.session import start_session

LATE = (
    "-XX:TieredStopAtLevel=4 -XX:Tier4InvocationThreshold=50000 "
    "-XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 "
    "-XX:Tier4BackEdgeThreshold=400000"
)
VARIANTS: dict[str, str] = {
    "as nodes are": "",
    "C1 only": "-XX:TieredStopAtLevel=1",
    "both": "-XX:TieredStopAtLevel=4",
    "both, C2 late": LATE,
    "both, C2 and counts late": f"{LATE} -XX:Tier3DelayOn=0 -XX:Tier3DelayOff=0",
}
"""Java options that come after those of the session, so they count."""
QUANTITIES = ("session", "takeover", "takeover CPU", "early", "late", "copy", "memory")
OPTIONS = "_JAVA_OPTIONS"
"""Environment variable whose options Java takes last."""
REHEARSED = 3
"""Batches, as on a spare."""
LIMIT_S = 900.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="processes per variant")
    parser.add_argument("--batches", type=int, default=90, help="large batches")
    parser.add_argument("--rows", type=int, default=50_000, help="rows of a large batch")
    parser.add_argument("--only", action="append", choices=VARIANTS, help="these variants")
    parser.add_argument("--with", dest="more", action="append", default=[], help="NAME=OPTIONS")
    parser.add_argument("--quick", action="store_true", help="one round, fewer batches")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    end_on_terminate()
    if args.one:
        print("RESULT " + json.dumps(measure(args.batches, args.rows)))
        return
    if args.quick:
        args.rounds, args.batches = 1, 30
    ensure_archive()
    variants = {name: VARIANTS[name] for name in args.only or VARIANTS}
    variants |= dict(text.split("=", 1) for text in args.more)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in variants}
    print(f"{'':26}" + "".join(f"{name:>14}" for name in QUANTITIES), flush=True)
    for turn in range(args.rounds):
        # Whoever goes first finds other caches: take turns.
        for name in list(variants) if turn % 2 == 0 else list(reversed(variants)):
            with java_options(variants[name]):
                found[name].append(_apart(args.batches, args.rows))
            _print(name, found[name][-1:])
    print(f"\nmedians of {args.rounds} rounds (load average {os.getloadavg()[0]:.1f})")
    for name, rows in found.items():
        _print(name, rows)
    if args.json:
        result = {"options": variants, "measured": found}
        args.json.write_text(json.dumps(result, indent=1) + "\n")


@contextlib.contextmanager
def java_options(options: str) -> Iterator[None]:
    """Sessions started meanwhile get these options too, the way any user may give them."""
    # Not through a folder of settings: that is part of the class path, and the archive of another.
    before = os.environ.get(OPTIONS)
    os.environ[OPTIONS] = options
    try:
        yield
    finally:
        os.environ.pop(OPTIONS)
        if before is not None:
            os.environ[OPTIONS] = before


def _apart(batches: int, rows: int) -> dict[str, float]:
    """One process of one variant."""
    command = [sys.executable, "-m", "benchmarks.compilers", "--one"]
    done = subprocess.run(
        [*command, "--batches", str(batches), "--rows", str(rows)],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            found: dict[str, float] = json.loads(line.removeprefix("RESULT "))
            return found
    raise SystemExit(f"a variant failed:\n{done.stderr[-4000:]}")


def measure(batches: int, rows: int) -> dict[str, float]:
    """A life of a node: rehearse, take over, work."""
    meter = CpuMeter()
    began = meter.with_own()
    spark = start_session("compilers", memory_mb=1024)
    small = Bench(spark, application(stateful=True), rows=20, batches=REHEARSED)
    small.marks([REHEARSED - 1])
    session = meter.with_own() - began
    taken = small.marks([REHEARSED - 1])[0]
    numbers = [1, 10, 2 * batches // 3, batches - 1]
    state = Bench(spark, application(stateful=True), rows=rows, batches=batches).marks(numbers)
    copy = Bench(spark, application(stateful=False), rows=rows, batches=batches).marks(numbers)

    def per_row(marks: list[Mark], before: int, after: int) -> float:
        used = marks[after].cpu_s - marks[before].cpu_s
        return 1e6 * used / (numbers[after] - numbers[before]) / rows

    children = psutil.Process().children(recursive=True)
    java = [child for child in children if child.name() == "java"]
    return {
        "session": session,
        "takeover": taken.wall_s,
        "takeover CPU": taken.cpu_s,
        "early": per_row(state, 0, 1),
        "late": per_row(state, 2, 3),
        "copy": per_row(copy, 2, 3),
        "memory": sum(child.memory_info().rss for child in java) / 1e6,
    }


def _print(name: str, rows: list[dict[str, float]]) -> None:
    middle = [statistics.median(row[quantity] for row in rows) for quantity in QUANTITIES]
    print(f"{name:26}" + "".join(f"{value:14,.2f}" for value in middle), flush=True)


if __name__ == "__main__":
    main()
