"""Where the coordinator that leads a run listens, and the secret it asks for.

The file RUN/coordinator.json, readable by its owner only, is written by every coordinator that
begins to lead. Nodes and commands read it whenever they connect, and whoever stays connected looks
at its term now and then: so a restart or a new leader, on another port with another token, needs no
further care. A leader that wakes up may write it once more before it finds out that it leads no
longer; the one of the newest term writes it again.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from holdfast.rundir.contents import endpoint_path, temporary_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Address and token of a running coordinator."""

    host: str
    port: int
    token: str
    pid: int
    launch: str
    term: int = -1
    """Of the leader; nobody follows one of an older term than it has seen."""
    name: str = ""
    """Of the leader among the coordinators of the run."""


def write_endpoint(run_dir: Path, endpoint: Endpoint) -> None:
    """Publish an endpoint; readers see the old one or the new one."""
    path = endpoint_path(run_dir)
    temporary = temporary_path(path, endpoint.pid)
    descriptor = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(endpoint), file)
    temporary.replace(path)


def read_endpoint(run_dir: Path) -> Endpoint | None:
    """The endpoint last published, or None; it may be that of a dead process."""
    try:
        return Endpoint(**json.loads(endpoint_path(run_dir).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def remove_endpoint(run_dir: Path, endpoint: Endpoint) -> None:
    """Take the file away at a clean end, unless another coordinator has replaced it."""
    if read_endpoint(run_dir) == endpoint:
        endpoint_path(run_dir).unlink(missing_ok=True)


def keep_endpoint(run_dir: Path, endpoint: Endpoint) -> None:
    """Write it again if one of an older term took its place, or it is gone."""
    found = read_endpoint(run_dir)
    if found is None or found.term < endpoint.term:
        write_endpoint(run_dir, endpoint)
