"""Which files of a directory belong to which epoch: the position of a `Files` source.

Every file is taken once, in order of its time and name; what a batch takes is in its range record
before anything is read, so a redo reads the same. That a file was taken must be known for as long
as it is there, long after the range record is trimmed. So the names are kept apart:

- `files/<number>`: the names that batch took;
- `taken/<number>`: all names taken up to that batch that were still in the directory then. It is
  put every `SNAPSHOT_EVERY` batches with files; afterwards the records it covers are removed.

- `inherited`: what the units took that have handed over to this one, as far as it is dealt to it;
  put before it takes anything itself, and removed when a snapshot covers it.

What remains grows with the files that stay in the directory and with nothing else.

Cost: a claim looks at the directory only if it has changed, reads the names then, and asks the file
system for time and size of the new ones alone.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.deployment.blocks import Block
from holdfast.errors import BadInputError
from holdfast.pipeline import Files
from holdfast.rundir.layout import INHERITED, TAKEN, member, unit_folder
from holdfast.storage import Storage
from holdfast.streams.records import Range

MAX_CLAIM_FILES = 1000
"""Most files one batch takes, so that its range record stays small."""
MAX_CLAIM_BYTES = 64 * 2**20
"""Most bytes one batch takes, unless its first file alone is larger: some hundred thousand rows,
which fit a node's memory."""
EXPANSION = {"parquet": 4}
"""How many times larger than on disk, about, the rows of a format are in memory; others: once."""
SNAPSHOT_EVERY = 64
"""Batches with files between two snapshots of the taken names."""
MAX_EPOCHS = 64
"""Most epochs taken in one batch: rows are not known before they are read."""
WHOLE = Block(first=0, count=1, of=1)
"""All files."""
RACY_NS = 2 * 10**9
"""A directory changed this shortly before it was read may have changed again under one time."""


@dataclass(frozen=True, slots=True, order=True)
class Waiting:
    """A file that nobody has taken; ordered as files are taken."""

    mtime_ns: int
    name: str
    size: int = field(compare=False)


class FileRows:
    """The rows of a `Files` source, epoch by epoch."""

    def __init__(
        self,
        source: Files,
        *,
        unit: str,
        store: Storage,
        read: Callable[[list[str]], Any],
        block: Block = WHOLE,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """`block`: which parts of the files, dealt out by their names, are the unit's."""
        self._source = source
        # Made absolute once: nodes work in the application's folder.
        self._path = Path(source.path).absolute()
        self._read = read
        self._listing = Listing(self._path, block=block, clock_ns=clock_ns)
        self._block = block
        self._store, self._folder = store, unit_folder(unit)
        self._known: TakenFiles | None = None

    def begin(self, parents: Sequence[str] = ()) -> None:
        """Learn what is taken: of units that have handed over, all that they took."""
        self._known = TakenFiles(
            self._store,
            self._folder,
            parents=[unit_folder(parent) for parent in parents],
            block=self._block,
        )

    @property
    def _taken(self) -> TakenFiles:
        if self._known is None:
            self.begin()
            return self._taken
        return self._known

    @property
    def max_epochs(self) -> int:
        return MAX_EPOCHS

    def claim(self, after: int, upto: int) -> Any:
        """The files that wait, up to the limits: what a batch that reads so much takes."""
        per_epoch = self._source.files_per_epoch
        most = MAX_CLAIM_FILES
        if per_epoch is not None:
            most = min(most, per_epoch * (upto - after))
        files: list[tuple[int, str]] = []
        weight = EXPANSION.get(self._source.format, 1)
        size = 0
        for index, item in enumerate(self._listing.waiting(self._taken.names, most)):
            size += weight * item.size
            if files and size > MAX_CLAIM_BYTES:
                break
            epoch = upto if per_epoch is None else after + 1 + index // per_epoch
            files.append((epoch, str(self._path / item.name)))
        return {"files": files}

    def tables(self, record: Range, epoch: int) -> tuple[Any, Any]:
        """The rows of one epoch, twice: of other shards' rows nothing is known."""
        rows = self.table(record, epoch)
        return rows, rows

    def table(self, record: Range, epoch: int) -> Any:
        """The rows of one epoch; the batch's files count as taken from now on."""
        files = record.source["files"]
        self._taken.add(record.number, [Path(path).name for _, path in files], self._listing.names)
        return self._rows_of(record, epoch)

    def again(self, record: Range, epoch: int) -> tuple[Any, Any]:
        """The same as `tables` of a batch that was taken long ago: its files must be there."""
        rows = self._rows_of(record, epoch)
        return rows, rows

    def _rows_of(self, record: Range, epoch: int) -> Any:
        paths = [path for at, path in record.source["files"] if at == epoch]
        for path in paths:
            if not Path(path).is_file():
                raise BadInputError(
                    "is gone before it was read", where=path, hint="put it back; then `retry`"
                )
        return self._read(paths)


class Listing:
    """The files of one shard of a directory, read again only when the directory has changed."""

    def __init__(self, folder: Path, *, block: Block, clock_ns: Callable[[], int]) -> None:
        self._folder = folder
        self._block = block
        self._clock_ns = clock_ns
        self._read_at: tuple[int, int] | None = None
        """The directory's time when it was last read, and ours."""
        self._waiting: deque[Waiting] = deque()
        self._known: set[str] = set()
        """Names in `_waiting`."""

    def waiting(self, taken: set[str], most: int) -> list[Waiting]:
        """The first files that are there and not taken; they stay until they are."""
        self._refresh(taken)
        found: list[Waiting] = []
        while self._waiting and len(found) < most:
            item = self._waiting.popleft()
            # One that was removed before anybody could take it was never part of the input.
            if item.name in taken or not (self._folder / item.name).is_file():
                self._known.discard(item.name)
            else:
                found.append(item)
        self._waiting.extendleft(reversed(found))
        return found

    def names(self) -> set[str]:
        """Every name in the directory now."""
        try:
            return set(os.listdir(self._folder))  # noqa: PTH208 - names are all that is needed
        except FileNotFoundError:
            raise self._missing() from None

    def _refresh(self, taken: set[str]) -> None:
        try:
            changed_ns = self._folder.stat().st_mtime_ns
            if self._read_at is not None:
                seen_ns, read_ns = self._read_at
                if seen_ns == changed_ns and read_ns - changed_ns > RACY_NS:
                    return
            read_ns = self._clock_ns()
            found = self._new_files(taken)
        except (FileNotFoundError, NotADirectoryError):
            raise self._missing() from None
        self._read_at = (changed_ns, read_ns)
        if found:
            self._known.update(item.name for item in found)
            # Nearly sorted already, and sorting what is sorted takes linear time.
            self._waiting = deque(sorted([*self._waiting, *found]))

    def _new_files(self, taken: set[str]) -> list[Waiting]:
        found = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                name = entry.name
                if name in taken or name in self._known or not self._mine(name):
                    continue
                if entry.is_file():
                    status = entry.stat()
                    found.append(Waiting(status.st_mtime_ns, name, status.st_size))
        return found

    def _mine(self, name: str) -> bool:
        if name.startswith((".", "_")) or name.endswith(".tmp"):
            return False
        return is_dealt_to(self._block, name)

    def _missing(self) -> BadInputError:
        return BadInputError(
            "no such directory",
            where=str(self._folder),
            hint="a relative path is taken from the folder of the application",
        )


def is_dealt_to(block: Block, name: str) -> bool:
    """Whether a file is in these parts.

    By name, not by position in a list: a file's part must not depend on what came before.
    """
    return block.first <= sum(name.encode()) % block.of < block.stop


class TakenFiles:
    """The names of taken files, in memory and in records."""

    def __init__(
        self,
        store: Storage,
        folder: str,
        *,
        parents: Sequence[str] = (),
        block: Block = WHOLE,
    ) -> None:
        """Args:
        store: where the records are.
        folder: of the unit.
        parents: folders of units that have handed over to it.
        block: the parts of the files that it reads; what it takes over is cut to them.
        """
        self._store = store
        self._deltas, self._snapshots = (f"{folder}/{kind}" for kind in TAKEN)
        self._inherited = f"{folder}/{INHERITED}"
        self.names: set[str] = set()
        self._since = 0
        """Records since the last snapshot."""
        self._load()
        if parents and not self._has_inherited():
            self._inherit(parents, block)
            self._load()

    def _load(self) -> None:
        while not self._loaded():
            pass  # as often as a snapshot was put meanwhile, which is once in many batches

    def _has_inherited(self) -> bool:
        """A snapshot covers what was inherited, so either will do; it is put before that goes."""
        return bool(self._store.exists(self._inherited) or self._store.names(self._snapshots))

    def _inherit(self, parents: Sequence[str], block: Block) -> None:
        """Take over what parents took, in one record before the unit's first range.

        They have sealed their logs, so they take nothing more; and what they have on record stays
        until their heirs have recorded a range. Whoever puts this record first has seen all of it,
        and one that comes when it is gone finds the record there.
        """
        taken: set[str] = set()
        for parent in parents:
            taken |= TakenFiles(self._store, parent).names
        mine = sorted(name for name in taken if is_dealt_to(block, name))
        self._store.put_if_absent(self._inherited, json.dumps(mine).encode())

    def _loaded(self) -> bool:
        """Read the names on record; False if some may have moved into a snapshot meanwhile.

        An older generation may live on for a while and put one. It removes what it covers, so who
        found the one before, and what comes behind it no more, would take files a second time.
        """
        self.names.clear()
        self._since = 0
        snapshots = self._store.names(self._snapshots)
        covered = int(snapshots[-1]) if snapshots else -1
        found = [f"{self._snapshots}/{name}" for name in snapshots[-1:]]
        if not snapshots and self._store.exists(self._inherited):
            found.append(self._inherited)
        for name in self._store.names(self._deltas):
            if int(name) > covered:
                found.append(f"{self._deltas}/{name}")
                self._since += 1
        for name in found:
            data = self._store.get(name)
            if data is None:
                return False
            self.names.update(Path(path).name for path in json.loads(data))
        return self._store.names(self._snapshots)[-1:] == snapshots[-1:]

    def add(self, number: int, names: list[str], present: Callable[[], set[str]]) -> None:
        """A batch takes these; `present` lists the directory, which is asked now and then."""
        if self.names.issuperset(names):
            return
        self._store.put_if_absent(member(self._deltas, number), json.dumps(names).encode())
        self.names.update(names)
        self._since += 1
        if self._since >= SNAPSHOT_EVERY:
            self._compact(number, present())

    def _compact(self, number: int, present: set[str]) -> None:
        """Whoever puts a snapshot first, what it covers is the same but for files long gone."""
        self.names &= present
        data = json.dumps(sorted(self.names)).encode()
        self._store.put_if_absent(member(self._snapshots, number), data)
        for folder, end in ((self._snapshots, number), (self._deltas, number + 1)):
            for name in self._store.names(folder):
                if int(name) < end:
                    self._store.delete(f"{folder}/{name}")
        self._store.delete(self._inherited)
        self._since = 0
