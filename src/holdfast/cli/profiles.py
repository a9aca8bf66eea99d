"""Where `profile` keeps what it measured, and what a plan rests on with it and without."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import BadInputError

if TYPE_CHECKING:
    from holdfast.pipeline import Pipeline
    from holdfast.predict.statistics import Statistics

_MEASURED_METHODS = ("ftc", "fastrecover")
"""Their numbers are an operator's own; the machine's alone say nothing to them."""


def profile_path(app: str, pipeline: str) -> Path:
    """The profile of an application: beside its file, or below the current directory."""
    from holdfast.rundir.application import app_folder

    return app_folder(app) / ".holdfast" / f"{pipeline}.profile.json"


def own_profile(app: str, pipeline: str) -> Statistics | None:
    """What was profiled of an application; None: nothing."""
    from holdfast.predict.statistics import load_statistics

    path = profile_path(app, pipeline)
    return load_statistics(path) if path.exists() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """The numbers that a plan of a pipeline rests on."""

    statistics: Statistics | None
    said: str
    """Where they come from and how sure they are, one sentence or two."""
    measured: bool


def grounds(app: str, pipeline: Pipeline, stats: Path | None, method: str) -> Grounds:
    """What is known of a pipeline: the file given, its profile, or assumptions.

    Refuses methods that would have to make up every number they need.
    """
    from holdfast.predict.statistics import load_statistics

    path = stats or profile_path(app, pipeline.name)
    if method == "ppa" and stats is None and not path.exists():
        known = [one.name for one in pipeline.sources if hasattr(one.source, "rows_per_second")]
        said = "" if len(known) == len(pipeline.sources) else "equal rates of all sources"
        return Grounds(
            statistics=None,
            measured=False,
            said=f"Assumed: {said}; fidelity is a share, so only their ratio counts."
            if said
            else "",
        )
    if stats is not None or path.exists():
        found = load_statistics(path)
        day = datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%d %H:%M UTC")
        said = f"Measured: {path}, {day}"
        if stats is None and _newer(app, path):
            said += "; the application has changed since, so profile it again if its load has"
        return Grounds(statistics=found, said=f"{said}.", measured=True)
    if method in _MEASURED_METHODS:
        raise BadInputError(
            f"method {method} needs to know what its operators take, and nothing was measured",
            where=pipeline.name,
            hint=f"{_profiling(app)} measures it; --method joint plans without",
        )
    return _assumed(app, pipeline)


def _assumed(app: str, pipeline: Pipeline) -> Grounds:
    from holdfast.predict.statistics import REFERENCE_MACHINE, OperatorStatistics, Statistics

    machine, whose = REFERENCE_MACHINE, f"a machine of {REFERENCE_MACHINE.cores} cores like ours"
    if find_spec("pyspark") is not None:
        from holdfast.profile.cache import known_machine, machine_path

        # Planning needs no Java; without it nothing was ever profiled here.
        with contextlib.suppress(BadInputError):
            machine = known_machine()
            if machine_path().exists():
                whose = "this machine as last profiled"
    rated = all(hasattr(one.source, "rows_per_second") for one in pipeline.sources)
    load = "the rates of its sources, no cost per row" if rated else "no rows at all"
    return Grounds(
        measured=False,
        statistics=Statistics(
            pipeline=pipeline.name,
            epoch_s=pipeline.epoch_s,
            machine=machine,
            operators={
                one.name: OperatorStatistics(one_epoch_per_batch=True)
                for one in pipeline.operators
                if one.one_epoch_per_batch
            },
        ),
        said=f"Assumed, not measured: {whose}, {load}, no state. Under load recoveries take longer "
        f"and results come later than said here; {_profiling(app)} measures how much.",
    )


def _profiling(app: str) -> str:
    """What to type: a pipeline of a script or notebook has no file to name."""
    return f"holdfast profile {app}" if app else "holdfast.profile(pipeline)"


def refuse_unknown(found: Grounds, *, max_overhead: object) -> None:
    """Refuse a bound on something of which nothing is known."""
    if max_overhead is not None and not found.measured:
        raise BadInputError(
            "overhead is a share of what the pipeline takes by itself, which was not measured",
            where="--max-overhead",
            hint="run holdfast profile first",
        )


def _newer(app: str, path: Path) -> bool:
    file = Path(app.partition(":")[0])
    return file.is_file() and file.stat().st_mtime > path.stat().st_mtime
