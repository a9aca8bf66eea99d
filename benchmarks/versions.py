"""This version of Holdfast against an earlier one, side by side in one run.

    python -m benchmarks.versions --base REVISION [--kills 4] [--rounds 2]

Shared machines are noisy, so numbers of two runs on two days say little. Here both versions run the
same scenarios of `recovery` and `overhead` in turn, round by round, each from its own sources: the
earlier ones come from `git archive` into a temporary folder. Each is run in one segment, with one
cut and cut everywhere. Medians and their ratio are printed; a ratio above 1 means that this version
needs more. A start that fails is said and left out, and the exit code is 1.

    detected   kill until it is known, seconds, of a word count with one warm spare
    restored   from then until the last unit runs, seconds
    total      kill to caught up, seconds
    fresh      kill to the first result of input that came after it, seconds
    cpu        processor time per input row at saturation, microseconds
    saturated  time per input row at saturation, microseconds
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
RECOVERY = """
import json, random, sys, time
from benchmarks import recovery
from benchmarks._stream_common import Feed, HoldfastCount, scratch
recovery.ensure_archive()
moments = random.Random(0)
names = {"detect_s": "detected", "restore_s": "restored", "total_s": "total", "fresh_s": "fresh"}
found = []
with scratch() as root:
    feed = Feed(root, rows_per_s=1000.0)
    with HoldfastCount(root, feed, cuts=json.loads(sys.argv[2]), spares=1) as system:
        feed.start()
        try:
            for _ in range(int(float(sys.argv[1]))):
                recovery._steady(system, system.wait_ready(spares=1))
                # Steadiness is seen when a batch has passed: one moment of it would be all.
                time.sleep(moments.random())
                row = recovery._kill_node(system, feed)
                found.append({f"{name} s": row[phase] for phase, name in names.items()})
        finally:
            feed.close()
print("RESULT " + json.dumps(found))
"""
OVERHEAD = """
import json, sys
from benchmarks import overhead
overhead.ensure_archive()
row = overhead.measure(sys.argv[2], (), float(sys.argv[1]), 512)
found = [{"cpu us/row": row["cpu_us_per_row"], "saturated us/row": 1e6 / row["rows_per_s"]}]
print("RESULT " + json.dumps(found))
"""
SCENARIOS = {
    "recovery": (RECOVERY, '"none"'),
    "recovery, one cut": (RECOVERY, '["filter"]'),
    "recovery, all cuts": (RECOVERY, '"all"'),
    "one unit": (OVERHEAD, "one unit"),
    "cut after filter": (OVERHEAD, "cut after filter"),
    "cut everywhere": (OVERHEAD, "cut everywhere"),
}
"""Program and its second argument: the cuts as JSON, or the name of a variant of `overhead`."""
Measured = dict[tuple[str, str, str], list[float]]
"""Scenario, quantity and version to what was measured."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", default="HEAD~1", help="revision to compare with")
    parser.add_argument("--rounds", type=int, default=2, help="starts of each scenario and version")
    parser.add_argument("--kills", type=int, default=4, help="kills per start")
    parser.add_argument("--seconds", type=float, default=12.0, help="how long saturation is held")
    parser.add_argument("--only", action="append", choices=SCENARIOS, help="these scenarios")
    parser.add_argument("--quick", action="store_true", help="one round, two kills")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.kills = 1, 2
    measured: Measured = defaultdict(list)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="holdfast-base-") as base:
        unpack(args.base, base)
        trees = {"base": Path(base), "this": HERE}
        for turn in range(args.rounds):
            for name in args.only or SCENARIOS:
                # Whoever goes first finds other caches: take turns.
                for version in ("base", "this") if turn % 2 == 0 else ("this", "base"):
                    code, _ = SCENARIOS[name]
                    amount = args.kills if code is RECOVERY else args.seconds
                    found = _measure(trees[version], name, amount)
                    failed += not found
                    for row in found:
                        for quantity, value in row.items():
                            measured[name, quantity, version].append(value)
                    print(f"round {turn + 1}: {name}, {version}: {found}", flush=True)
    table = _table(measured)
    print(
        f"\nload average {os.getloadavg()[1]:.1f} on {os.cpu_count()} processors; failed: {failed}"
    )
    if args.json:
        result = {"base": args.base, "table": table, "measured": _plain(measured)}
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if failed else 0


def unpack(revision: str, folder: str) -> None:
    archive = subprocess.run(
        ["git", "archive", revision, "src", "benchmarks"],
        cwd=HERE,
        check=True,
        capture_output=True,
    )
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)


def run_in(tree: Path, code: str, *words: str) -> tuple[Any, str]:
    """The result that a program says, in a process that sees only that version's sources.

    None: it failed; then also the end of what it said of that.
    """
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"},
        check=False,
        capture_output=True,
        text=True,
    )
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line.removeprefix("RESULT ")), ""
    return None, f"failed in {tree}:\n{done.stderr[-4000:]}"


def _measure(tree: Path, name: str, amount: float) -> list[dict[str, float]]:
    """One start of one scenario; no rows mean that it failed."""
    code, variant = SCENARIOS[name]
    found, why = run_in(tree, code, str(amount), variant)
    if found is None:
        print(f"{name} {why}", file=sys.stderr)
    return found or []


def _table(measured: Measured) -> list[dict[str, Any]]:
    print(f"\n{'scenario':20}{'':18}{'base':>10}{'this':>10}{'ratio':>8}   samples")
    rows = []
    for scenario, quantity, version in list(measured):  # looking one up may add it
        if version != "base" or not measured[scenario, quantity, "this"]:
            continue
        before, after = (measured[scenario, quantity, key] for key in ("base", "this"))
        was, now = statistics.median(before), statistics.median(after)
        print(
            f"{scenario:20}{quantity:18}{was:10.2f}{now:10.2f}{now / was:8.2f}"
            f"   {len(before)} and {len(after)}"
        )
        rows.append({"scenario": scenario, "quantity": quantity, "base": was, "this": now})
    return rows


def _plain(measured: Measured) -> list[dict[str, Any]]:
    return [
        {"scenario": scenario, "quantity": quantity, "version": version, "values": values}
        for (scenario, quantity, version), values in measured.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
