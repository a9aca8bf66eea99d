"""Streams that change hands, in many worlds: the model of the record protocol at length.

    python -m benchmarks.hands [--worlds 100000] [--first 0] [--quick] [--jobs N] [--json FILE]

Every world is drawn from its seed: segments and shards, replicas, alternatives, how often what is
crashed or put to sleep, how many changes coordinators ask for. Its processes run the production
decisions of `holdfast.streams`, one operation on the records at a time. Then every rule is switched
off in turn, in worlds in which it matters, until the model has found what that breaks. Exit 1 if a
world fails, or if a broken rule goes unnoticed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import sys
import time
from collections import Counter
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.testing.hands import Violation, World
from holdfast.testing.hands.mutants import MUTANTS, Mutant, violation

CHUNK = 50
MUTANT_WORLDS = 100
"""Worlds, from the one that is known to show it on, in which it is counted how many do."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--quick", action="store_true", help="400 worlds")
    parser.add_argument("--jobs", type=int, help="processes (default: one for each core)")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    worlds = 400 if args.quick else args.worlds
    starts = range(args.first, args.first + worlds, CHUNK)
    total: Counter[str] = Counter()
    failures: list[tuple[int, str]] = []
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        for done, (count, failed) in enumerate(pool.imap_unordered(run_chunk, starts), 1):
            total += count
            failures += failed
            for seed, what in failed:
                print(f"world {seed}: {what[:300]}", flush=True)
            if done % max(1, len(starts) // 20) == 0:
                spent = time.monotonic() - began
                print(
                    f"{done * CHUNK:>8} worlds, {len(failures)} failed, {spent:.0f} s", flush=True
                )
        print(", ".join(f"{name} {number:,}" for name, number in sorted(total.items())))
        missed = []
        print(f"\n{'rule switched off':55} worlds that break")
        shown: dict[str, str] = {}
        for mutant, (broken, tried) in zip(MUTANTS, pool.imap(search, MUTANTS), strict=True):
            shown[mutant.rule] = f"{broken} of {tried}"
            print(f"{mutant.rule:55} {shown[mutant.rule]}", flush=True)
            if not broken:
                missed.append(mutant.rule)
    if args.json:
        result = {
            "worlds": worlds,
            "first": args.first,
            "failures": failures,
            "counts": total,
            "mutants": shown,
            "missed": missed,
        }
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if failures or missed else 0


def run_chunk(first: int) -> tuple[Counter[str], list[tuple[int, str]]]:
    """Some worlds in a row."""
    count: Counter[str] = Counter()
    failed = []
    for seed in range(first, first + CHUNK):
        world = World(seed)
        try:
            world.run()
        except (Violation, HoldfastError) as error:
            failed.append((seed, str(error)))
        count += world.count
        count["operations"] += world.step
    return count, failed


def search(mutant: Mutant) -> tuple[int, int]:
    """In how many worlds it shows that a rule is missing, and how many were looked at."""
    scenarios = itertools.islice(mutant.scenarios(itertools.count(mutant.seed)), MUTANT_WORLDS)
    found = [violation(mutant, seed, scenario) is not None for seed, scenario in scenarios]
    return sum(found), len(found)


if __name__ == "__main__":
    sys.exit(main())
