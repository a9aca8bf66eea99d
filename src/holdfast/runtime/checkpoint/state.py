"""The state of a streaming query as a restore would read it: the files of its checkpoint.

RocksDB's memory says little about a restore: what has to be loaded is the newest snapshot, a zip
file with the table files it names, and the changelogs since. Both are counted in bytes on disk.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass

from holdfast.storage import Storage

_CHANGELOG = ".changelog"
_SNAPSHOT = ".zip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One snapshot of all stores of an operator's shard."""

    version: int
    """Batches committed when it was taken."""
    size: int
    """Bytes that loading it reads."""
    keys: int


class StateFiles:
    """Watches the state files of one checkpoint; Spark removes old ones, so look often."""

    def __init__(self, checkpoint: Storage) -> None:
        self._folder = checkpoint.below("state")
        self._changelogs: dict[tuple[str, int], int] = {}
        self._snapshots: dict[tuple[str, int], Snapshot] = {}

    def scan(self) -> None:
        """Take note of what is there now."""
        for name, size in self._folder.sizes("").items():
            folder, _, last = name.rpartition("/")
            version = last.partition("_")[0]
            if not version.isdigit():
                continue
            key = (folder, int(version))
            if name.endswith(_CHANGELOG) and key not in self._changelogs:
                self._changelogs[key] = size
            elif name.endswith(_SNAPSHOT) and key not in self._snapshots:
                found = _snapshot(self._folder.read(name), int(version), size)
                if found is not None:
                    self._snapshots[key] = found

    @property
    def changes(self) -> dict[int, int]:
        """Bytes of changelog by version: batch n of Spark's writes version n + 1."""
        found: dict[int, int] = {}
        for (_, version), size in self._changelogs.items():
            found[version] = found.get(version, 0) + size
        return dict(sorted(found.items()))

    @property
    def stores(self) -> int:
        """How many stores there are: a join of two streams has four."""
        return len({store for store, _ in self._changelogs})

    def snapshots(self) -> list[Snapshot]:
        """Snapshots of the whole state, oldest first; each store counts with its newest."""
        stores = {store for store, _ in self._changelogs} | {store for store, _ in self._snapshots}
        newest: dict[str, Snapshot] = {}
        found = []
        for version in sorted({version for _, version in self._snapshots}):
            for store in stores:
                if (store, version) in self._snapshots:
                    newest[store] = self._snapshots[store, version]
            if len(newest) == len(stores):
                size = sum(one.size for one in newest.values())
                keys = sum(one.keys for one in newest.values())
                found.append(Snapshot(version=version, size=size, keys=keys))
        return found

    @property
    def restore_bytes(self) -> int:
        """What a restore would read now: the newest snapshot and the changelogs since."""
        whole = self.snapshots()
        start = whole[-1].version if whole else 0
        since = sum(size for version, size in self.changes.items() if version > start)
        return since + (whole[-1].size if whole else 0)


def _snapshot(data: bytes | None, version: int, size: int) -> Snapshot | None:
    """What a snapshot says about itself; None while it is not all there."""
    try:
        with zipfile.ZipFile(io.BytesIO(data or b"")) as file:
            text = file.read("metadata").decode()
    except (OSError, zipfile.BadZipFile, KeyError):
        return None
    told = json.loads(text.partition("\n")[2])
    tables = sum(int(item["sizeBytes"]) for item in told.get("sstFiles", ()))
    return Snapshot(version=version, size=size + tables, keys=int(told.get("numKeys", 0)))
