"""The parts of a run directory that control and launching share.

RUN/run.json           what runs: application, host, deployment, policy
RUN/coordinator.json   where its coordinator listens (0600)
RUN/coordinator/       journal and log
RUN/nodes/NAME.log     what a node did, a line per event, with unit=... where it concerns one
RUN/nodes/NAME.out     standard output and error of a node and its children; NAME.out.1: older
RUN/scratch/NAME/      temporary files of a node; gone when the node is
RUN/processes.jsonl    every process started: pid, start time, name
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.control import codec
from holdfast.control.policy import Policy
from holdfast.deployment import Deployment
from holdfast.errors import BadInputError

FORMAT = "holdfast-run/1"
BAD_INPUT = 2
"""Exit code of a node or coordinator that can never start: what it was given is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """What runs in a run directory."""

    app: str
    """The application as given: a file or module:attribute; empty for a host that needs none."""
    host: str
    """What runs units: `spark`, `fake` or module:function."""
    deployment: Deployment
    policy: Policy
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings for the host, as JSON."""

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "app": self.app,
            "host": self.host,
            "deployment": self.deployment.to_json(),
            "policy": codec.policy_to_json(self.policy),
            "options": dict(self.options),
        }


def spec_path(run_dir: Path) -> Path:
    return run_dir / "run.json"


def journal_path(run_dir: Path) -> Path:
    return run_dir / "coordinator" / "journal"


def node_log_path(run_dir: Path, node: str) -> Path:
    return run_dir / "nodes" / f"{node}.log"


def scratch_path(run_dir: Path, node: str) -> Path:
    return run_dir / "scratch" / node


def up_marker(run_dir: Path, node: str) -> Path:
    """Made by a node once it can run units: what ends before it never started."""
    return scratch_path(run_dir, node) / "up"


def write_spec(run_dir: Path, spec: RunSpec) -> None:
    run_dir.mkdir(parents=True, exist_ok=True)
    temporary = run_dir / f"run.json.{os.getpid()}"
    temporary.write_text(json.dumps(spec.to_json(), indent=1), encoding="utf-8")
    temporary.replace(spec_path(run_dir))


def read_spec(run_dir: Path) -> RunSpec:
    path = spec_path(run_dir)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInputError("is not a run directory", where=str(run_dir)) from None
    except ValueError as error:
        raise BadInputError(f"not JSON: {error}", where=str(path)) from None
    if data.get("format") != FORMAT:
        raise BadInputError(f"unknown format {data.get('format')!r}", where=str(path))
    return RunSpec(
        app=data["app"],
        host=data["host"],
        deployment=Deployment.from_json(data["deployment"]),
        policy=codec.policy_from_json(data["policy"]),
        options=data["options"],
    )
