"""Start-up and size: `--help` against a bare interpreter, and 100,000 operators end to end.

Each figure is taken in a fresh process, as a user would; times are medians of repeats.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from holdfast.testing.generators import chain
from holdfast.topology.codec import dump_topology

BIN = Path(sys.executable).parent / "holdfast"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10,000 operators, fewer repeats")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    size, repeats = (10_000, 3) if args.quick else (100_000, 5)
    bare = _median([sys.executable, "-c", "pass"], 2 * repeats)
    usage = _median([str(BIN), "--help"], 2 * repeats)
    result: dict[str, float] = {"bare_s": bare, "help_s": usage, "help_extra_s": usage - bare}
    print(
        f"bare interpreter {bare:.3f} s, holdfast --help {usage:.3f} s: {usage - bare:.3f} s more"
    )
    with tempfile.TemporaryDirectory() as folder:
        for form in ("json", "yaml"):
            path = Path(folder) / f"chain.{form}"
            path.write_text(dump_topology(chain(size, seed=1), form))
            command = [str(BIN), "plan", str(path), "--max-recovery", "40", "--json"]
            seconds, peak_mb = _measure(command)
            result |= {f"{form}_s": seconds, f"{form}_peak_mb": peak_mb}
            print(
                f"{size:,} operators as {form} ({path.stat().st_size / 1e6:.0f} MB): "
                f"loaded, validated and planned in {seconds:.2f} s, {peak_mb:.0f} MB"
            )
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


def _median(command: list[str], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _measure(command: list[str]) -> tuple[float, float]:
    """Seconds and peak memory (MB) of one command."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} exited with {process.returncode}")
    return time.perf_counter() - start, usage.ru_maxrss / 1000


if __name__ == "__main__":
    main()
