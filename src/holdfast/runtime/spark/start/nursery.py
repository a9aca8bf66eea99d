"""Interpreters that have imported everything, forked for whoever asks.

A child of the worker daemon, made before that one starts anything: it has imported the same and
shares its memory. It ends with the daemon. What asks is the `launcher`, in whose place the forked
process runs: with its arguments, environment and streams, for as long as it lives.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import select
import signal
import socket
import struct
import sys
import threading
import traceback

from holdfast.runtime.spark.start.launcher import NAME, address, same_user

POLL_MS = 1000
"""How often it looks whether the daemon is still there."""
STREAMS = 3


def open_nursery() -> None:
    """Begin to serve, in a process of its own, if a name is known and not taken."""
    name = os.environ.get(NAME)
    if not name or not hasattr(socket, "SO_PEERCRED"):
        return
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(address(name))
    except OSError:  # that of a daemon before this one is about to end
        listening.close()
        return
    listening.listen()
    daemon = os.getpid()
    if os.fork() == 0:
        try:
            _serve(listening, daemon)
        finally:
            os._exit(0)
    listening.close()


def _serve(listening: socket.socket, daemon: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that have ended
    with open(os.devnull, "r+b") as nothing:  # noqa: PTH123 - a device
        # The daemon's streams lead to Spark, which reads from them whether it lives.
        for stream in range(STREAMS - 1):
            os.dup2(nothing.fileno(), stream)
    poller = select.poll()
    poller.register(listening, select.POLLIN)
    while os.getppid() == daemon:
        if not poller.poll(POLL_MS):
            continue
        connection, _ = listening.accept()
        with connection:
            if same_user(connection) and os.fork() == 0:
                listening.close()
                _stand_in(connection)


def _stand_in(connection: socket.socket) -> None:
    """Be the process that the launcher was started to be; does not return."""
    code = 1
    try:
        module = _take_place(connection)
        threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as Python itself would end
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        with contextlib.suppress(OSError):
            connection.sendall(bytes([code & 0xFF]))
        os._exit(code & 0xFF)


def _take_place(connection: socket.socket) -> str:
    """Take over streams, folder and environment; the module to run."""
    size = struct.Struct("!I")
    head, streams, _, _ = socket.recv_fds(connection, size.size, STREAMS)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    left, data = size.unpack(head)[0], b""
    while len(data) < left:
        part = connection.recv(left - len(data))
        if not part:
            raise EOFError("the launcher has ended")
        data += part
    module, folder, *variables = data.split(b"\0")
    os.environb.clear()
    os.environb.update(dict(item.split(b"=", 1) for item in variables))
    os.chdir(folder)
    for entry in reversed(os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        if entry and entry not in sys.path:
            sys.path.insert(1, entry)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return os.fsdecode(module)


def _end_with(connection: socket.socket) -> None:
    """End when the launcher does: Spark ends that one when it has no use for this one."""
    with contextlib.suppress(OSError):
        connection.recv(1)
    os._exit(1)
