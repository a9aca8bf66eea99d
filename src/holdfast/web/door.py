"""What the web application asks of a run: one interface, so that it can be tried without one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal, Protocol

from holdfast.control.client import ControlClient
from holdfast.control.status import RunView
from holdfast.deployment import Deployment
from holdfast.rundir.promise import warnings
from holdfast.rundir.spec import read_spec


class Door(Protocol):
    """A run, to be looked at and told something.

    Every method raises ConnectionLostError while no coordinator leads, and BadInputError for a
    name that there is not.
    """

    def deployment(self) -> Deployment: ...

    def status(self) -> RunView: ...

    def kill(self, node: str) -> None: ...

    def retry(self, unit: str) -> None: ...

    def ask_path(self, what: Literal["open", "close", "prefer"], split: str, path: str) -> None: ...

    def stop(self) -> None: ...


class RunDoor:
    """The run of a directory: a connection a request, to whichever coordinator leads then."""

    def __init__(self, run_dir: Path, *, timeout_s: float = 5.0) -> None:
        self._run_dir = run_dir
        self._timeout_s = timeout_s

    def deployment(self) -> Deployment:
        return read_spec(self._run_dir).deployment

    def status(self) -> RunView:
        with self._client() as client:
            return replace(client.status(), warnings=warnings(self._run_dir))

    def kill(self, node: str) -> None:
        with self._client() as client:
            client.kill(node)

    def retry(self, unit: str) -> None:
        with self._client() as client:
            client.retry(unit)

    def ask_path(self, what: Literal["open", "close", "prefer"], split: str, path: str) -> None:
        with self._client() as client:
            client.ask_path(what, split, path)

    def stop(self) -> None:
        with self._client() as client:
            client.stop()

    def _client(self) -> ControlClient:
        return ControlClient(self._run_dir, timeout_s=self._timeout_s)
