"""Run every benchmark, one after another: `python -m benchmarks [--quick] [NAME ...]`.

Each is a process of its own, so that none inherits another's memory or imports. Their tables go to
the terminal and their numbers to out/bench/NAME.json.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="benchmarks to run (default: all)")
    parser.add_argument("--quick", action="store_true", help="smaller samples")
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    known = sorted(path.stem for path in HERE.glob("[a-z]*.py"))
    unknown = [name for name in args.names if name not in known]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    args.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in args.names or known:
        print(f"\n== {name}", flush=True)
        start = time.monotonic()
        command = [sys.executable, "-m", f"benchmarks.{name}", "--json", f"{args.out}/{name}.json"]
        done = subprocess.run([*command, *(["--quick"] if args.quick else [])], check=False)
        print(f"-- {name}: {time.monotonic() - start:.0f} s, exit {done.returncode}", flush=True)
        if done.returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
