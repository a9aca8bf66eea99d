"""What follows where a put is whole: it is there, or nothing of it is.

So it is in memory and in an object store. A directory has to be brought to it, see `local`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

from holdfast.storage.interface import Bytes, Span


class WholePuts(ABC):
    """Half of `holdfast.storage.interface.Storage`, made of what objects by name offer."""

    @abstractmethod
    def get(self, name: str) -> bytes | None: ...

    @abstractmethod
    def replace(self, name: str, data: Bytes) -> None: ...

    @abstractmethod
    def delete(self, name: str) -> None: ...

    def exists(self, name: str) -> bool:
        return self.get(name) is not None

    def remove_leftovers(self, folder: str, before: float) -> int:  # noqa: ARG002 - none are left
        return 0

    def put_data(self, name: str, parts: Iterable[Bytes]) -> None:
        self.replace(name, b"".join(parts))

    def read(self, name: str) -> bytes | None:
        return self.get(name)

    def read_ranges(self, name: str, spans: Sequence[Span]) -> list[memoryview] | None:
        data = self.get(name)
        if data is None:
            return None
        whole = memoryview(data)
        return [whole[offset : offset + size] for offset, size in spans]

    def hold(self, name: str) -> Callable[[], None]:
        self.replace(name, b"")
        return lambda: self.delete(name)

    def is_held(self, name: str) -> bool:
        """It cannot see the end of a process: whoever has not let go may live."""
        return self.exists(name)
