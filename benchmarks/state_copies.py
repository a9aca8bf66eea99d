"""What a spare would save that held copies of state files: fetching them, on one machine.

A restore fetches the files of the newest snapshot into the directory of its own store and opens
them. On one machine both lie on the same disk. Timed is the fetch alone, of files of 2 MB: from the
page cache, where a file is that was written lately; from the disk, after the cache was told to
forget it; and of a copy that is there already, which needs a link. What is saved is set beside what
all of a restore takes by the reference machine's number per byte.

    python -m benchmarks.state_copies [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.predict.statistics import REFERENCE_MACHINE

FILE_BYTES = 2_000_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less state, fewer rounds")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    sizes = (2, 20) if args.quick else (2, 20, 200)
    found = [measure(megabytes, rounds=3 if args.quick else 9) for megabytes in sizes]
    print(f"{'state':>8}{'from cache':>12}{'from disk':>12}{'linked':>12}{'restore':>12}")
    for one in found:
        cells = (one["cached_s"], one["disk_s"], one["linked_s"], one["restore_s"])
        print(f"{one['megabytes']:>5} MB" + "".join(f"{1000 * cell:>9.1f} ms" for cell in cells))
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def measure(megabytes: int, *, rounds: int) -> dict[str, float]:
    """Medians of fetching so much state in three ways, in turn; seconds."""
    took: dict[str, list[float]] = {"cached_s": [], "disk_s": [], "linked_s": []}
    with tempfile.TemporaryDirectory(prefix="holdfast-state-") as name:
        kept, copy = Path(name) / "kept", Path(name) / "copy"
        for folder in (kept, copy):
            folder.mkdir()
            _write(folder, megabytes * 1_000_000)
        for number in range(rounds):
            took["cached_s"].append(_fetch(kept, Path(name) / f"a{number}", shutil.copyfile))
            _forget(kept)
            took["disk_s"].append(_fetch(kept, Path(name) / f"b{number}", shutil.copyfile))
            took["linked_s"].append(_fetch(copy, Path(name) / f"c{number}", os.link))
    per_byte = REFERENCE_MACHINE.state_read.per_byte.value
    medians = {name: statistics.median(values) for name, values in took.items()}
    return {"megabytes": megabytes, "restore_s": per_byte * megabytes * 1e6, **medians}


def _write(folder: Path, size: int) -> None:
    for number in range(max(1, size // FILE_BYTES)):
        path = folder / f"{number}.sst"
        with path.open("wb") as file:
            file.write(os.urandom(FILE_BYTES))
            file.flush()
            os.fsync(file.fileno())


def _files(folder: Path) -> Sequence[Path]:
    return sorted(folder.iterdir())


def _fetch(source: Path, target: Path, bring: Callable[[Path, Path], object]) -> float:
    """Seconds until all files are in a new directory."""
    began = time.perf_counter()
    target.mkdir()
    for path in _files(source):
        bring(path, target / path.name)
    took = time.perf_counter() - began
    shutil.rmtree(target)
    return took


def _forget(folder: Path) -> None:
    """Have the page cache forget files that are on disk."""
    for path in _files(folder):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == "__main__":
    sys.exit(main())
