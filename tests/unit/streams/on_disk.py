"""The model's records as files in a folder."""

from __future__ import annotations

from holdfast.rundir.records import RecordFolder
from holdfast.storage.local import LocalStorage
from holdfast.testing.hands.memory import Memory


class OnDisk(Memory):
    """What is on disk decides; the copy in memory, which the model looks into, must agree."""

    def __init__(self, root) -> None:
        super().__init__()
        self.folder = RecordFolder(LocalStorage(root))

    def execute(self, operation):
        kept = super().execute(operation)
        found = self.folder.execute(operation)
        assert found == kept, operation
        return found
