"""RUN/run.json: what runs, written by whoever starts it and read by every process of the run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from holdfast.deployment import Deployment
from holdfast.errors import BadInputError
from holdfast.health.policy import Policy
from holdfast.rundir.paths import spec_path, temporary_path

FORMAT = "holdfast-run/1"
BAD_INPUT = 2
"""Exit code of a node or coordinator that can never start: what it was given is wrong."""

_POLICY: TypeAdapter[Policy] = TypeAdapter(Policy)


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
            "policy": _POLICY.dump_python(self.policy, mode="json"),
            "options": dict(self.options),
        }


def write_spec(run_dir: Path, spec: RunSpec) -> None:
    run_dir.mkdir(parents=True, exist_ok=True)
    path = spec_path(run_dir)
    temporary = temporary_path(path, os.getpid())
    temporary.write_text(json.dumps(spec.to_json(), indent=1), encoding="utf-8")
    temporary.replace(path)


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
        policy=_POLICY.validate_python(data["policy"]),
        options=data["options"],
    )
