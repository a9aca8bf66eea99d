"""How soon another path takes over when one fails, and how soon the first one is back.

See `holdfast.testing.path_trials` for what is run and what is measured. With `--calm` nothing is
broken: the load swings and bursts (`benchmarks/_varying.py`), and no path may be left.

    python -m benchmarks.paths [--quick] [--kinds slp,thr,mem,err] [--runs N] [--json FILE]
    python -m benchmarks.paths --calm SECONDS
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from holdfast.runtime.spark.start.prepare import prepare
from holdfast.testing.adaptations import Adapted
from holdfast.testing.path_trials import AMOUNT, adapt, stay_calm

APP = Path(__file__).parents[1] / "examples" / "locations.py"
VARYING = Path(__file__).parent / "_varying.py"
BARS = {"adapt_s": 2.0, "return_s": 5.0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one of each kind")
    parser.add_argument("--kinds", default=",".join(AMOUNT))
    parser.add_argument("--runs", type=int, default=4, help="faults of each kind")
    parser.add_argument("--calm", type=float, metavar="SECONDS", help="no fault, varying load")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.calm:
        return calm(args.calm)
    kinds = args.kinds.split(",") * (1 if args.quick else args.runs)
    prepare(lambda line: print(line, flush=True))
    with tempfile.TemporaryDirectory(prefix="holdfast-paths-") as folder:
        found, ok = adapt(
            APP,
            kinds,
            Path(folder) / "run",
            tell=lambda item: print(asdict(item), flush=True),
        )
    result = summary(found)
    print(json.dumps(result, indent=1))
    print("rows as expected" if ok else "ROWS LOST OR DOUBLED")
    if args.json:
        runs = [asdict(item) for item in found]
        args.json.write_text(json.dumps({"runs": runs, "summary": result, "exact": ok}))
    return 0 if ok else 1


def calm(span_s: float) -> int:
    """Nothing is broken: whatever opens a breaker is a false alarm."""
    prepare(lambda line: print(line, flush=True))
    with tempfile.TemporaryDirectory(prefix="holdfast-paths-") as folder:
        alarms, ok = stay_calm(VARYING, Path(folder) / "run", span_s)
    print(f"{len(alarms)} false alarms in {span_s:.0f} s of varying load")
    for why in alarms:
        print(f"  {why}")
    print("rows as expected" if ok else "ROWS LOST OR DOUBLED")
    return 0 if ok and not alarms else 1


def summary(found: Sequence[Adapted]) -> dict[str, Any]:
    """Medians by kind, and whether they are within the bars."""
    result: dict[str, Any] = {}
    for kind in dict.fromkeys(item.kind for item in found):
        mine = [item for item in found if item.kind == kind]
        medians = {
            name: round(statistics.median(getattr(item, name) for item in mine), 3)
            for name in ("detect_s", "switch_s", "start_s", "adapt_s", "return_s")
        }
        within = {name: medians[name] <= bar for name, bar in BARS.items()}
        result[kind] = {"runs": len(mine), "median": medians, "within": within}
    return result


if __name__ == "__main__":
    raise SystemExit(main())
