"""RUN/promise.json: whether what a run's plan promises holds for what runs now.

`holdfast run` writes it from what the run has taught; whoever shows the status of a run reads it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from holdfast.rundir.contents import PROMISE
from holdfast.rundir.spec import read_spec
from holdfast.storage import open_storage

FORMAT = "holdfast-promise/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """How the promise of a run stands."""

    warning: str | None = None
    """That it no longer holds, and why, in one line; None: it holds."""
    unknown: str | None = None
    """Why nobody can tell; None: it is known."""
    broken: tuple[str, ...] = ()
    """Segments that would break it, or all results."""
    drifts: tuple[str, ...] = ()
    """Numbers that are not as they were profiled, in words."""

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "warning": self.warning,
            "unknown": self.unknown,
            "broken": list(self.broken),
            "drifts": list(self.drifts),
        }

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """What `to_json` gave; nothing is known of another format."""
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            return cls()
        return cls(
            warning=data["warning"],
            unknown=data["unknown"],
            broken=tuple(data["broken"]),
            drifts=tuple(data["drifts"]),
        )


def write_promise(run_dir: Path, promise: Promise) -> None:
    """Write it down, in the place of what was said before."""
    open_storage(run_dir).replace(PROMISE, json.dumps(promise.to_json()).encode())


def read_promise(run_dir: Path) -> Promise:
    """What was written last; that nothing is wrong if nothing was."""
    stored = open_storage(run_dir).read(PROMISE)
    return Promise() if stored is None else Promise.from_json(json.loads(stored))


def warnings(run_dir: Path) -> tuple[str, ...]:
    """What to say beside the status of a run: one line, or nothing while the promise holds."""
    found = read_promise(run_dir)
    if found.unknown:
        return (f"whether the promise holds is not known: {found.unknown}",)
    if not found.warning:
        return ()
    app = read_spec(run_dir).app or "APP"
    return (f"{found.warning}; holdfast plan {app} --from {run_dir} plans again",)
