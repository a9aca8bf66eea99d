"""RUN/run.json: what runs, written by whoever starts it and read by every process of the run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from holdfast.deployment import Deployment
from holdfast.errors import BadInputError
from holdfast.health.policy import Policy
from holdfast.rundir.contents import SPEC
from holdfast.storage import open_storage

FORMAT = "holdfast-run/2"
_FIRST_EDITION = "holdfast-run/1"
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
    text = json.dumps(spec.to_json(), indent=1)
    open_storage(run_dir).replace(SPEC, text.encode())


def read_spec(run_dir: Path) -> RunSpec:
    store = open_storage(run_dir)
    stored = store.read(SPEC)
    if stored is None:
        raise BadInputError("is not a run directory", where=str(run_dir))
    try:
        data = json.loads(stored)
    except ValueError as error:
        raise BadInputError(f"not JSON: {error}", where=store.address(SPEC)) from None
    if not isinstance(data, dict):
        raise BadInputError("is no object", where=store.address(SPEC))
    if data.get("format") == _FIRST_EDITION:
        raise BadInputError(
            "was written by an earlier version, whose records this one does not read",
            where=str(run_dir),
            hint="choose another --run-dir, or finish the run with the version that began it",
        )
    if data.get("format") != FORMAT:
        raise BadInputError(f"unknown format {data.get('format')!r}", where=store.address(SPEC))
    return RunSpec(
        app=data["app"],
        host=data["host"],
        deployment=Deployment.from_json(data["deployment"]),
        policy=_POLICY.validate_python(data["policy"]),
        options=data["options"],
    )
