"""What the processes of a run share, behind one interface.

`interface` says what a back end must offer; `local` is a directory on this machine or on a shared
file system, `memory` serves tests and simulation. Nothing else in Holdfast touches the paths, links
or times of shared files.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from holdfast.storage.interface import Storage
from holdfast.storage.local import LocalStorage, is_there

__all__ = ["Storage", "is_there", "open_storage"]


def open_storage(
    root: str | os.PathLike[str], *, told: Callable[[str], None] | None = None
) -> Storage:
    """The storage of a run, by what every process of it is given: today a directory.

    `told` hears the address of every record that is put through it.
    """
    return LocalStorage(root, told=told)
