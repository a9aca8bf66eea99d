"""What Spark starts as Python: it takes an interpreter that is ready, or becomes a new one.

A query with transformWithState starts an interpreter of its own in its first batch, always a new
one, as does one that reads through Python. Importing Spark, pandas and pyarrow would take it longer
than the rest of a takeover. So this program, which imports next to nothing, hands its arguments,
environment and streams to the `nursery`, which forks a process that has imported all of it; then
it lives as long as that one. Where no nursery answers, it becomes the Python it was asked for.

Run by its path and in isolated mode, so it imports nothing of this package.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

NAME = "HOLDFAST_NURSERY"
"""Environment variable with the name of the nursery's socket."""
ARGUMENTS = 2
"""`-m MODULE`; the daemon of workers has more, and is no child of the nursery."""
ARCHIVES = (os.sep + "pyspark.zip", "-src.zip")
"""How the names of Spark's archives end: itself, and Py4J."""
_CREDENTIALS = struct.Struct("3i")
"""Process, user and group at the other end of a socket."""


def reach(name: str) -> socket.socket | None:
    """The nursery, if it answers and is of the same user."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(address(name))
        if same_user(connection):
            return connection
    except OSError:
        pass
    connection.close()
    return None


def address(name: str) -> str:
    """A name that is no file, so nothing is left behind."""
    return f"\0{name}"


def same_user(connection: socket.socket) -> bool:
    """Whether the other end may be trusted with secrets: such a socket has no permissions."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(found)[1] == os.getuid())


def without_spark(path: str) -> str:
    """A search path without Spark's own archives.

    Spark puts them first, and what comes from an archive is compiled every time; the installed
    package is the same.
    """
    parts = path.split(os.pathsep)
    return os.pathsep.join(part for part in parts if not part.endswith(ARCHIVES))


def main() -> int:
    arguments = sys.argv[1:]
    os.environ["PYTHONPATH"] = without_spark(os.environ.get("PYTHONPATH", ""))
    known = os.environ.get(NAME)
    alone = len(arguments) == ARGUMENTS and arguments[0] == "-m"
    connection = reach(known) if known and alone else None
    if connection is None:
        os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 - no shell
    words = [os.fsencode(arguments[1]), os.fsencode(os.getcwd())]  # noqa: PTH109 - no pathlib here
    words += [name + b"=" + value for name, value in os.environb.items()]
    data = b"\0".join(words)
    socket.send_fds(connection, [struct.pack("!I", len(data))], [0, 1, 2])
    connection.sendall(data)
    code = connection.recv(1)
    return code[0] if code else 1


if __name__ == "__main__":
    sys.exit(main())
