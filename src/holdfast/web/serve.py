"""Serves an application until it is told to end."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from holdfast.errors import BadInputError
from holdfast.web.app import make_app
from holdfast.web.door import RunDoor

TOKEN_VARIABLE = "HOLDFAST_TOKEN"  # noqa: S105 - the name of a variable, not a secret


def serve(run_dir: Path, *, host: str, port: int, token: str, said: Callable[[str], None]) -> None:
    """Serve one run until interrupted; `said` hears the address once it is listened on."""
    if not token:
        raise BadInputError("a token must not be empty", where=TOKEN_VARIABLE)
    listening = listen(host, port)
    address, number = listening.getsockname()[:2]
    config = uvicorn.Config(
        make_app(RunDoor(run_dir), token), log_level="warning", lifespan="off", access_log=False
    )
    said(f"http://{address}:{number}/api/v1")
    uvicorn.Server(config).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """A socket to serve on; port 0: any that is free."""
    if not host:  # which would be every address of the machine
        raise BadInputError("an address must not be empty", where="--host", hint="127.0.0.1")
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise BadInputError(
            f"cannot listen there: {error.strerror or error}", where=f"{host}:{port}"
        ) from None
    return made
