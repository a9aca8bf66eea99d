"""How long a killed word count takes to be back: Holdfast with a warm spare, a restarted query.

Each round runs every system in turn on the same input (files at a fixed rate, one-second batches),
kills it with SIGKILL after it has run steadily, and waits until it has caught up: until it has
committed progress beyond what it had at the kill. The plain query is restarted by a supervisor that
notices its end within 20 ms and starts it again at once. Its settings are stock, stock but for 2
instead of 200 shuffle partitions (which no one would keep on two cores, so the bar is held against
this one), and the ones Holdfast's nodes start with.

    detect    kill to noticed
    restore   noticed to running again (plain: to the started query)
    catch up  running to committed beyond the point of failure
    total     kill to caught up; the bar: at least 5 times faster than stock, 2 partitions
    fresh     kill to the first visible result of input that came after the kill
    cpu       processor time of whoever took over until it had caught up, seconds: what is left of
              these numbers on a busy machine
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._stream_common import (
    PLAIN_SETTINGS,
    Feed,
    HoldfastCount,
    PlainCount,
    end_on_terminate,
    scratch,
    slices,
)
from holdfast.control.status import RunView
from holdfast.profile.cpu import sessions_cpu
from holdfast.runtime.spark.start.archive import ensure_archive

BAR = 5.0
SIDES_BAR = 0.7
HOLDFAST = "holdfast"
SYSTEMS = {"native": HOLDFAST, "python": "holdfast, Python"}
"""Slices in Java, and through Python."""
REFERENCE = PLAIN_SETTINGS[1]
STEADY_BATCHES = 3
PHASES = ("detect_s", "restore_s", "catch_up_s", "total_s", "fresh_s", "cpu_s")
FRESH_S = 60.0

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="one round, one kill each, no 200 partitions"
    )
    parser.add_argument("--rounds", type=int, help="starts of each system")
    parser.add_argument("--kills", type=int, help="kills per start")
    parser.add_argument("--rate", type=float, default=1000.0, help="rows/s offered")
    parser.add_argument("--cut", action="append", help="operator to cut after, or all")
    parser.add_argument("--sides", action="store_true", help="Java and Python only, no plain query")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    end_on_terminate()
    rounds = args.rounds or (1 if args.quick else 3)
    kills = args.kills or (1 if args.quick else 2)
    cuts: Any = "all" if args.cut == ["all"] else args.cut or "none"
    ensure_archive()
    compared: tuple[str, ...] = PLAIN_SETTINGS[1:] if args.quick else PLAIN_SETTINGS
    compared = () if args.sides else compared
    rows: list[Row] = []
    print(f"{'system':22}" + "".join(f"{name[:-2]:>10}" for name in PHASES), flush=True)
    for _ in range(rounds):
        for side in ("native", "python"):
            with slices(side):
                rows += [*holdfast(args.rate, kills, cuts, SYSTEMS[side])]
        for settings in compared:
            rows += [*plain(args.rate, kills, settings)]
    medians = {
        name: {
            phase: statistics.median(row[phase] for row in rows if row["system"] == name)
            for phase in PHASES
        }
        for name in (*SYSTEMS.values(), *compared)
    }
    load = statistics.median(row["load"] for row in rows)
    print(f"\nmedians (load average {load:.1f} on {os.cpu_count()} processors)")
    for name, median in medians.items():
        _print(name, median)
    ours = medians[HOLDFAST]["total_s"]
    ratios = {name: medians[name]["total_s"] / ours for name in compared}
    print()
    for name, ratio in ratios.items():
        print(f"holdfast is {ratio:.1f} times faster than the plain query, {name}")
    sides = {
        phase: medians[HOLDFAST][phase] / medians[SYSTEMS["python"]][phase]
        for phase in ("total_s", "cpu_s")
    }
    for phase, ratio in sides.items():
        print(
            f"slices in Java: {ratio:.2f} of what they take through Python, {phase}; "
            f"bar {SIDES_BAR}: {'met' if ratio <= SIDES_BAR else 'missed'}"
        )
    met = ratios[REFERENCE] >= BAR if ratios else None
    if met is not None:
        print(f"bar of {BAR:.0f} times against {REFERENCE}: {'met' if met else 'missed'}")
    if args.json:
        result = {
            "runs": rows,
            "medians": medians,
            "ratios": ratios,
            "bar": BAR,
            "met": met,
            "sides": sides,
        }
        args.json.write_text(json.dumps(result, indent=1) + "\n")


def holdfast(rate: float, kills: int, cuts: Any, name: str = HOLDFAST) -> list[Row]:
    """Kill whichever node runs the units; a spare that has warmed up takes over each time."""
    with scratch() as root:
        feed = Feed(root, rows_per_s=rate)
        with HoldfastCount(root, feed, cuts=cuts, spares=1) as system:
            feed.start()
            try:
                rows = []
                for _ in range(kills):
                    rows.append({**kill_steady(system, feed), "system": name})
                    _print(name, rows[-1])
                return rows
            finally:
                feed.close()


def kill_steady(system: HoldfastCount, feed: Feed) -> Row:
    """Kill the node that works once a spare is warm and all has run steadily; what followed."""
    _steady(system, system.wait_ready(spares=1))
    return _kill_node(system, feed)


def _steady(system: HoldfastCount, view: RunView) -> None:
    """Some batches must pass at full speed before a kill means anything."""
    goals = {unit.unit: (unit.epoch or 0) + STEADY_BATCHES for unit in view.units}

    def passed(now: RunView) -> bool:
        return all((unit.epoch or 0) >= goals[unit.unit] for unit in now.units)

    system.run.wait_for(passed, 120.0, "steady progress")


def _kill_node(system: HoldfastCount, feed: Feed) -> Row:
    view = system.run.status()
    node = next(node.node for node in view.nodes if node.units)
    known = {recovery.id for recovery in view.recoveries}
    others = [item.pid for item in view.nodes if item.node != node]
    used = sessions_cpu(others)
    killed_at = time.time()
    system.run.kill_node(node)

    def caught_up(now: RunView) -> bool:
        mine = [item for item in now.recoveries if item.id not in known]
        done = {item.unit for item in mine if item.outcome == "caught up"}
        return done.issuperset(system.units)

    view = system.run.wait_for(caught_up, 120.0, "recovery")
    used = sessions_cpu(others) - used
    mine = [item for item in view.recoveries if item.id not in known]
    detected_at = max(item.detected_at for item in mine)
    restored_at = max(item.restored_at for item in mine if item.restored_at is not None)
    caught_up_at = max(item.caught_up_at for item in mine if item.caught_up_at is not None)
    fresh = _fresh(feed, system.out, killed_at)
    return {
        "detect_s": detected_at - killed_at,
        "restore_s": restored_at - detected_at,
        "catch_up_s": caught_up_at - restored_at,
        "total_s": caught_up_at - killed_at,
        "fresh_s": fresh - killed_at,
        "cpu_s": used,
        "load": os.getloadavg()[0],
        "units": {item.unit: item.to_json() for item in mine},
    }


def plain(rate: float, kills: int, settings: str) -> list[Row]:
    """Kill the query and let the supervisor restart it."""
    with scratch() as root:
        feed = Feed(root, rows_per_s=rate)
        with PlainCount(root, feed, settings) as system:
            feed.start()
            try:
                rows = []
                for _ in range(kills):
                    system.wait_committed(system.committed() + 1 + STEADY_BATCHES)
                    restart = system.kill_and_restart()
                    used = sessions_cpu([system.group])
                    fresh = _fresh(feed, system.out, restart.killed_at)
                    rows.append(
                        {
                            "system": settings,
                            "detect_s": restart.noticed_at - restart.killed_at,
                            "restore_s": restart.started_at - restart.noticed_at,
                            "catch_up_s": restart.committed_at - restart.started_at,
                            "total_s": restart.committed_at - restart.killed_at,
                            "fresh_s": fresh - restart.killed_at,
                            "cpu_s": used,
                            "load": os.getloadavg()[0],
                        }
                    )
                    _print(settings, rows[-1])
                return rows
            finally:
                feed.close()


def _fresh(feed: Feed, out: Path, at: float) -> float:
    return _wait(lambda: feed.first_result_after(out, at), FRESH_S)


def _wait(get: Callable[[], float | None], seconds: float) -> float:
    end = time.monotonic() + seconds
    while (found := get()) is None:
        if time.monotonic() > end:
            raise SystemExit(f"no result within {seconds} s after the recovery")
        time.sleep(0.1)
    return found


def _print(name: str, row: Row) -> None:
    print(f"{name:22}" + "".join(f"{row[phase]:10.2f}" for phase in PHASES), flush=True)


if __name__ == "__main__":
    main()
