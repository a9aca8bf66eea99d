"""Check an application before anything of it starts, in a process of its own; sound ones are noted.

A Spark session takes seconds to start, so that a pipeline was found sound is remembered by the
fingerprints of its operators: the next start of the same code need not ask Spark again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from holdfast.errors import BadInputError, CheckFailedError
from holdfast.pipeline import Files, Pipeline, inspect_pipeline
from holdfast.pipeline.fingerprint import fingerprints
from holdfast.pipeline.tables import WithTables
from holdfast.rundir.application import app_folder

_KEPT = 200
"""Pipelines that are remembered, the last ones used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a check has found."""

    pipeline: Pipeline | None
    """None if the application could not be run to its end."""
    problems: tuple[BadInputError, ...] = ()
    """All that is wrong with it; empty: it can be run."""
    warnings: tuple[str, ...] = ()
    """What is allowed but may surprise."""
    on_spark: bool = True
    """Whether Spark looked at its columns; else there is none here."""


def check_app(
    app: str, *, say: Callable[[str], None], made: Pipeline | None = None, again: bool = False
) -> Checked:
    """Everything that is wrong with an application; asks Spark unless it is known to be sound.

    With `again` it is asked in any case. `made` is the pipeline, if it was loaded already.
    """
    pipeline, problems = (made, []) if made is not None else inspect_pipeline(app)
    if find_spec("pyspark") is None:
        gone = _missing_folders(pipeline, app)
        return Checked(pipeline=pipeline, problems=(*problems, *gone), on_spark=False)
    note = None if pipeline is None or problems or _reads(pipeline) else _note_path(pipeline)
    if note is not None and not again:
        warnings = _known(note)
        if warnings is not None:
            gone = _missing_folders(pipeline, app)
            return Checked(pipeline=pipeline, problems=tuple(gone), warnings=warnings)
    if pipeline is None and len(problems) == 1:
        # It could not even be loaded: another process would say the same.
        return Checked(pipeline=None, problems=tuple(problems))
    say("checking the pipeline")
    found, warnings = _ask(app)
    if note is not None and not found:
        _remember(note, warnings)
    told = {problem.where for problem in found}
    # Spark takes seconds: whoever makes the directory at the same time has made it by now.
    gone = [one for one in _missing_folders(pipeline, app) if one.where not in told]
    return Checked(pipeline=pipeline, problems=(*gone, *found), warnings=warnings)


def _missing_folders(pipeline: Pipeline | None, app: str) -> list[BadInputError]:
    """Sources that read a directory which is not there: their units would fail, again and again.

    Looked for every time, as it may be gone when a pipeline is started again.
    """
    sources = pipeline.sources if pipeline is not None else ()
    folders = [(one.name, one.source.path) for one in sources if isinstance(one.source, Files)]
    return [
        BadInputError(
            f"there is no directory {path!r}",
            where=name,
            hint="make it, or write another path: a relative one begins at the application's file",
        )
        for name, path in folders
        if not (app_folder(app) / path).is_dir()
    ]


def _reads(pipeline: Pipeline) -> bool:
    """Whether it has tables from outside, which may be gone when it is started again."""
    return any(isinstance(operator.function, WithTables) for operator in pipeline.operators)


def _ask(app: str) -> tuple[tuple[BadInputError, ...], tuple[str, ...]]:
    # Never written to: that it ends tells the process that we are gone, by whatever signal.
    theirs, ours = os.pipe()
    command = [sys.executable, "-m", "holdfast.runtime.spark.check_app", app, str(theirs)]
    process = subprocess.Popen(
        command,
        pass_fds=(theirs,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, errors = process.communicate()
    finally:
        # Java is in the same group: nothing is left, however this ends.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(theirs)
        os.close(ours)
    lines = out.decode(errors="replace").splitlines()
    try:
        answer: Mapping[str, list[Any]] = json.loads(lines[-1])
    except (IndexError, ValueError):
        said = errors.decode(errors="replace")
        if os.environ.get("HOLDFAST_DEBUG"):
            sys.stderr.write(said)
        last = [line for line in said.splitlines() if line.strip()] or ["nothing was said"]
        raise CheckFailedError(
            f"the check ended early: {last[-1].strip()} (--debug shows all of it)"
        ) from None
    problems = tuple(
        BadInputError(what, where=where, hint=hint) for what, where, hint in answer["problems"]
    )
    return problems, tuple(answer["warnings"])


# -- what is known to be sound --------------------------------------------------------------------


def checks_folder() -> Path:
    """Where sound pipelines are noted."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "holdfast" / "checks"


def _note_path(pipeline: Pipeline) -> Path:
    """Named by everything that the answer depends on, but for libraries the pipeline uses."""
    words = [_version("holdfast"), _version("pyspark"), repr(pipeline.event_time)]
    words += [f"{name}={found}" for name, found in fingerprints(pipeline).items()]
    return checks_folder() / hashlib.sha256("\n".join(words).encode()).hexdigest()[:24]


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return package


def _known(note: Path) -> tuple[str, ...] | None:
    try:
        warnings = json.loads(note.read_text(encoding="utf-8"))
        note.touch()
    except (OSError, ValueError):
        return None
    return tuple(map(str, warnings)) if isinstance(warnings, list) else None


def _remember(note: Path, warnings: tuple[str, ...]) -> None:
    """Best effort: a pipeline that could not be noted is only checked again."""
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        temporary = note.with_name(f"{note.name}.{os.getpid()}.tmp")
        temporary.write_text(json.dumps(warnings), encoding="utf-8")
        temporary.replace(note)
        known = sorted(note.parent.iterdir(), key=lambda path: path.stat().st_mtime)
        for old in known[:-_KEPT]:
            old.unlink(missing_ok=True)
    except OSError:
        return
