"""Streams that change hands, in many worlds: the model of the record protocol at length.

    python -m benchmarks.hands [--worlds 100000] [--first 0] [--quick] [--json FILE]

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
MUTANT_WORLDS = 400
"""Worlds in which a broken rule must show at the latest."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--quick", action="store_true", help="400 worlds")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    worlds = 400 if args.quick else args.worlds
    starts = range(args.first, args.first + worlds, CHUNK)
    total: Counter[str] = Counter()
    failures: list[tuple[int, str]] = []
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool() as pool:
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
        print(f"\n{'rule switched off':55} {'worlds until found':>18}")
        for mutant, found in zip(MUTANTS, pool.imap(search, MUTANTS), strict=True):
            print(f"{mutant.rule:55} {found[0] if found else 'NOT FOUND':>18}", flush=True)
            if found is None:
                missed.append(mutant.rule)
    if args.json:
        result = {"worlds": worlds, "failures": failures, "counts": total, "missed": missed}
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


def search(mutant: Mutant) -> tuple[int, str] | None:
    """How many worlds it takes to see that a rule is missing, and what is seen."""
    scenarios = mutant.scenarios(itertools.count())
    for tried, (seed, scenario) in enumerate(itertools.islice(scenarios, MUTANT_WORLDS), 1):
        found = violation(mutant, seed, scenario)
        if found is not None:
            return tried, found
    return None


if __name__ == "__main__":
    sys.exit(main())
