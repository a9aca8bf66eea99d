"""A copy of what the sources of a run publish, made from outside while the run trims its own.

Results can be checked only against the whole input. A run that keeps it (`--keep-input`) never
trims it, so it would never show whether trimming goes wrong under faults. So a thread of the
checker copies every slice as it appears, as a stranger would: from the documented files alone. A
slice counts as copied when the copy reads whole; one that is torn for the moment is tried again,
and one that is gone before it was copied makes the check fail, not pass.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Collection
from pathlib import Path

from holdfast.errors import CheckFailedError, CorruptLogError
from holdfast.verify.slice_log import boundaries, kept_folder, numbered, read_record, slice_rows

POLL_S = 0.2
"""Slices are trimmed ten batches after they were read at the earliest."""


class InputKeeper:
    """Copies the logs of some sources into the place where `verify` looks for kept input."""

    def __init__(self, run_dir: Path, sources: Collection[str]) -> None:
        self._run_dir = run_dir
        self._sources = tuple(sources)
        self._next: dict[Path, int] = {}
        """Log of a shard to the number of the first slice not yet copied."""
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keep-input", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Copy what is there by now and end; to be called when the run has stopped."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()
        self.step()

    def step(self) -> int:
        """Copy what is new; tells how many slices."""
        copied = 0
        for source in self._sources:
            for log in boundaries(self._run_dir, source):
                for shard in log.glob("[0-9]*"):
                    copied += self._copy_shard(shard)
        return copied

    def require_whole(self) -> None:
        """Raise if a slice was gone before it could be copied."""
        for source in self._sources:
            for log in boundaries(self._run_dir, source):
                for shard in log.glob("[0-9]*"):
                    first = self._next.get(shard, 0)
                    if max(numbered(shard / "slices"), default=-1) >= first:
                        raise CheckFailedError(
                            f"slice {first} of {log.name} shard {shard.name} could not be copied "
                            "before it was trimmed or torn"
                        )

    def trimmed(self) -> dict[str, int]:
        """Per log of a source, as BOUNDARY/SHARD, the first slice that is not trimmed."""
        return {
            f"{log.name}/{shard.name}": max(numbered(shard / "floors"), default=0)
            for source in self._sources
            for log in boundaries(self._run_dir, source)
            for shard in log.glob("[0-9]*")
        }

    def _run(self) -> None:
        while not self._closed.wait(POLL_S):
            self.step()

    def _copy_shard(self, shard: Path) -> int:
        start = number = self._next.get(shard, 0)
        target = kept_folder(self._run_dir) / shard.relative_to(self._run_dir)
        records = numbered(shard / "slices")
        while number in records and _copy(records[number], shard / "data", target):
            number += 1
        self._next[shard] = number
        return number - start


def _copy(path: Path, data: Path, target: Path) -> bool:
    """Copy a slice, its record last; whether it is there and whole."""
    for folder in ("slices", "data"):
        (target / folder).mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError, CorruptLogError):
        record = read_record(path, "slice")
        for file in record["files"]:
            shutil.copyfile(data / file["name"], target / "data" / file["name"])
        for _ in slice_rows(record, target / "data"):
            pass
        shutil.copyfile(path, target / "slices" / path.name)
        return True
    return False
