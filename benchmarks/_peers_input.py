"""What goes into every system of `peers`, and what has come out of it.

One file of lines appears per second of input; counts per (second, word) are read back from whatever
a system writes: Parquet, CSV or lines of JSON, whole files or growing ones.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

WORDS = 3
VOCABULARY = 500
POLL_S = 0.02


class Feed:
    """One file of lines per second of input, and the counts that must come out of it."""

    def __init__(self, folder: Path, lines_per_s: int) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.lines_per_s = lines_per_s
        self.expected: Counter[str] = Counter()
        self.totals: dict[int, int] = {}
        """Words of each second."""
        self.released: dict[int, float] = {}
        self._rng = np.random.default_rng(11)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self.began = 0.0

    def release(self, lines: int) -> int:
        """The next second's file becomes visible; its number."""
        second = len(self.released)
        picks = np.minimum(self._rng.zipf(1.3, size=(lines, WORDS)), VOCABULARY) - 1
        found: Counter[str] = Counter(f"{second},w{pick}" for pick in picks.ravel().tolist())
        text = "\n".join(f"{second} " + " ".join(f"w{p}" for p in row) for row in picks.tolist())
        temporary = self.folder.parent / f"stage-{second}"
        temporary.write_text(text + "\n")
        self.expected.update(found)
        self.totals[second] = lines * WORDS
        temporary.replace(self.folder / f"{second:08d}.txt")
        self.released[second] = time.time()
        return second

    def start(self) -> None:
        self._closed.clear()
        self.began = time.time() - len(self.released)
        self._thread = threading.Thread(target=self._loop, name="feed", daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        while not self._closed.is_set():
            if time.time() >= self.began + len(self.released):
                self.release(self.lines_per_s)
            else:
                self._closed.wait(POLL_S)

    def stop(self) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def wait_phase(self, phase: float) -> None:
        """Until the clock of the input stands at that part of a second."""
        now = time.time() - self.began
        time.sleep((phase - now) % 1.0)


class Results:
    """What a system has made visible so far: the largest count of every key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.counts: dict[str, int] = {}
        self.totals: Counter[int] = Counter()
        self._read: dict[Path, int] = {}

    def poll(self) -> None:
        """Read what is new; a file that has become shorter is read again."""
        for path in sorted(self.folder.rglob("*")):
            hidden = any(part.startswith((".", "_")) for part in path.parts[-2:])
            if not path.is_file() or hidden or ".inprogress" in path.name:
                continue
            with contextlib.suppress(OSError):
                self._file(path)

    def _file(self, path: Path) -> None:
        size, done = path.stat().st_size, self._read.get(path, 0)
        if path.suffix == ".parquet":
            if not done:
                table = pq.read_table(path)
                for row in table.select(["second", "word", "count"]).to_pylist():
                    self._take(f"{row['second']},{row['word']}", int(row["count"]))
                self._read[path] = size
            return
        if size < done:
            done = 0
        if size == done:
            return
        with path.open("rb") as file:
            file.seek(done)
            text = file.read()
        whole = text.rfind(b"\n") + 1
        self._read[path] = done + whole
        for line in text[:whole].decode().splitlines():
            self._line(line)

    def _line(self, line: str) -> None:
        if line.startswith("{"):
            row = json.loads(line)
            if row["diff"] > 0:
                self._take(row["key"], int(row["count"]))
            return
        key, _, count = line.rpartition(",")
        self._take(key, int(count))

    def _take(self, key: str, count: int) -> None:
        before = self.counts.get(key, 0)
        if count > before:
            self.counts[key] = count
            self.totals[int(key.partition(",")[0])] += count - before


def difference(expected: Counter[str], counts: dict[str, int]) -> tuple[int, int]:
    """Words that the counts lack, and words that they have too many of."""
    keys = expected.keys() | counts.keys()
    lost = sum(max(0, expected[key] - counts.get(key, 0)) for key in keys)
    doubled = sum(max(0, counts.get(key, 0) - expected[key]) for key in keys)
    return lost, doubled
