"""The interface of every back end.

Three kinds of things are stored, each under a name: a relative path of plain words with `/` between
them. A word that begins with a dot belongs to the back end or to Spark, and is never listed.

- **Records** are small, created once and never changed: whoever comes second gets what is there.
  Everything that decides anything is a record, and no safety rests on anything else.
- **Data** are large, written once under a name of their own, and count only when a record names
  them. So they need not appear at once, only to be there for good before their record is put.
- **Checkpoints** are folders that another program (Spark) fills with files that it never changes
  afterwards. A checkpoint is cloned whole or not at all, and vanishes whole.

A directory can be a back end if link(2) and rename(2) are atomic in it, as local and shared POSIX
file systems promise. An object store needs a conditional put (If-None-Match: *) for records, plain
puts and ranged gets for data; there, a record in a checkpoint says that it is whole.

Costs: every operation on a name is one or two requests, whatever else is stored. Those on a folder
take time in what it holds: they are for starts, takeovers and trims, and for folders kept small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

LEFTOVER_S = 3600.0
"""What a writer began and has not touched for this long is what it left when it died."""

Bytes: TypeAlias = bytes | memoryview
Span: TypeAlias = tuple[int, int]
"""Offset and size of a part of a file, in bytes."""
Edit: TypeAlias = Callable[[bytes], bytes | None]
"""What a file is in a clone, given what it was; None: it is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloning:
    """How a checkpoint is cloned; of itself, as it is."""

    first: Sequence[str] = ()
    """Entries to begin with, in this order, before all others."""
    edit: Callable[[str], Edit | None] = lambda _: None
    """For the name of a file in it, how that is changed; None: it stays as it is, and may share its
    space with the original."""
    step: Callable[[int], None] = lambda _: None
    """Called with the number of files done so far, before the clone appears."""

    def in_order(self, names: Iterable[str]) -> list[str]:
        """Names of files in a checkpoint, those to begin with first."""
        rank = {word: index for index, word in enumerate(self.first)}
        return sorted(names, key=lambda name: (rank.get(name.partition("/")[0], len(rank)), name))


class Storage(Protocol):
    """One run's shared files, or those of one folder of it."""

    # Records

    def put_if_absent(self, name: str, data: bytes) -> bytes:
        """Create the record unless it exists; returns what is stored afterwards.

        The put succeeded if that equals `data`. As data names its writer, this also holds when
        an earlier attempt got through and only its answer was lost. What is returned will still be
        there after a power cut, whoever put it; the same holds for what `get` returns.
        """
        ...

    def get(self, name: str) -> bytes | None:
        """A record; None if it does not exist."""
        ...

    def exists(self, name: str) -> bool:
        """Whether a record or a file of data is there: a hint, as it need not be durable yet."""
        ...

    def put_time(self, name: str) -> float | None:
        """When a record was put, wall-clock seconds of the back end; None if it is not there.

        For measuring. No decision may rest on it.
        """
        ...

    def delete(self, name: str) -> None:
        """Remove a record or data; what is not there is no error."""
        ...

    def names(self, folder: str) -> list[str]:
        """Last words of the records and data of a folder, sorted; not of folders in it."""
        ...

    def remove_leftovers(self, folder: str, before: float) -> int:
        """Remove what writers that died left in a folder before a time, wall-clock seconds.

        Tells how much. Taking a living one for dead costs it a second attempt and nothing else.
        """
        ...

    # Data

    def put_data(self, name: str, parts: Iterable[Bytes]) -> None:
        """Write a file, part after part; nobody may read it before a record names it.

        Its content is durable afterwards, its name once its folder was synced: a batch of many
        files needs that only once.
        """
        ...

    def replace(self, name: str, data: Bytes) -> None:
        """Write a file; readers see it whole, or what was there before. Durable afterwards."""
        ...

    def read(self, name: str) -> bytes | None:
        """The whole of a file; None if it is not there. For records there is `get`."""
        ...

    def read_ranges(self, name: str, spans: Sequence[Span]) -> list[memoryview] | None:
        """Parts of a file, as many as there are spans; None if it is not there.

        A part that lies beyond the end is shorter than its span, or empty. All spans are given at
        once, so that a back end far away can ask for neighbours together.
        """
        ...

    def sizes(self, folder: str) -> dict[str, int]:
        """Bytes of every file in a folder and in all folders below, by name relative to it."""
        ...

    def sync(self, folder: str, *names: str) -> None:
        """Make durable that the files of a folder are there, and the content of those named.

        For data, and for what Spark has written, which it does not sync itself. Names that are not
        there are no error.
        """
        ...

    def folders(self, folder: str) -> list[str]:
        """Last words of the folders in a folder, sorted: those with records or data in them."""
        ...

    # Checkpoints

    def checkpoints(self, folder: str) -> list[str]:
        """Last words of the checkpoints in a folder, sorted; what is not whole is none."""
        ...

    def make_checkpoint(self, folder: str) -> None:
        """Make a folder that another program will write to, if it is not there: one that is whole
        from now on, whatever is in it.
        """
        ...

    def clone(self, source: str, target: str, how: Cloning) -> None:
        """Make `target` a clone of the checkpoint `source`; it appears whole or not at all.

        The source may be in use: files may be added to it, and those that vanish meanwhile are left
        out. Nothing is done if the target, a name beside it, is there. Whoever has its unfinished
        clone removed under its hands fails with FileNotFoundError.
        """
        ...

    def assemble(
        self, target: str, files: Mapping[str, str | bytes], *, step: Callable[[int], None]
    ) -> None:
        """Make a checkpoint of parts of others; it appears whole or not at all.

        Each of `files`, by its name in `target`, is what is stored under another name, and may
        share its space with that, or what is given. Stored ones that are gone are left out. Nothing
        is done if the target is there.

        Args:
            target: name of the checkpoint.
            files: name in it to name in this storage, or to content.
            step: called with the number of files done so far, before the target appears.
        """
        ...

    def workplace(self, target: str) -> str:
        """Name of a folder for another program to write to while a checkpoint is being made.

        It is none itself. Left behind, it is removed as an unfinished clone of `target` is.
        """
        ...

    def remove_folder(self, folder: str, *, aside: str) -> None:
        """Remove a folder or checkpoint with all in it; at no moment does half pass for the whole.

        `aside` is a name in this storage that nobody reads, where a back end may move it first.
        """
        ...

    def remove_unfinished(self, folder: str, stale: Callable[[str], bool]) -> None:
        """Remove what clones and removals that died left in a folder.

        Of clones those whose target, by its last word, is `stale`.
        """
        ...

    # Signs of life

    def hold(self, name: str) -> Callable[[], None]:
        """Show that the caller lives, under a name of its own; the function given takes it back.

        So does its end, at once, where a back end sees the end of processes.
        """
        ...

    def is_held(self, name: str) -> bool:
        """Whether a holder may be alive; removes what one that has ended left.

        A hint: nothing that counts may rest on it.
        """
        ...

    # Places

    def below(self, folder: str) -> Storage:
        """The same storage as seen from one of its folders."""
        ...

    def address(self, name: str) -> str:
        """Where other programs reach a file or folder: today a path, of an object store a URL.

        This is where the seam is open, for what writes or reads by itself: Spark its checkpoints,
        tasks in the Java virtual machine slice files. Also how a task asks the node's watcher for a
        record, and how a message names a file. Nobody else may make a path of it.
        """
        ...
