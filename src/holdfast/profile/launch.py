"""A profile as its caller sees it: a process of its own, gone with everything it started.

Spark runs in that process and not in the caller's, so that interrupting a profile, or an operator
that hangs, leaves nothing behind, and what Java prints disturbs nobody.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.errors import BadInputError, CheckFailedError
from holdfast.predict.statistics import Statistics, parse_statistics
from holdfast.profile.budget import budget_for
from holdfast.profile.cache import cores, is_known, save_machine, tells
from holdfast.profile.cpu import DISTURBED
from holdfast.profile.recoveries import measure_recoveries
from holdfast.profile.taken import Takeover, with_takeovers
from holdfast.rundir.application import absolute_app
from holdfast.runtime.node.processes import LAUNCH_VARIABLE, kill_session

Say = Callable[[str], None]


def measure(
    app: str, seconds: float, *, quick: bool, thorough: bool = False, say: Say
) -> Statistics:
    """Profile an application; what was measured of the machine is kept for later profiles."""
    began = time.monotonic()
    busy = os.getloadavg()[0]
    if busy > cores() / 2:
        say(f"this machine is busy (load average {busy:.1f}): durations will come out too long")
    machine_too = thorough or not (quick or is_known())
    if machine_too and not thorough:
        say("this machine is not known yet: measuring it takes some minutes more, once")
    with tempfile.TemporaryDirectory(prefix="holdfast-profile-") as name:
        folder = Path(name)
        target = absolute_app(app)
        options = [
            *(["--thorough"] if thorough else []),
            *(["--machine"] if machine_too else []),
        ]
        found = _statistics(_apart(target, seconds, folder, options, say=say))
        left_s = math.inf
        if not thorough and not machine_too:
            left_s = max(0.0, budget_for(len(found.operators)).total_s + began - time.monotonic())
        found = with_takeovers(found, _watched(target, folder, left_s, say))
        say(f"profiled in {time.monotonic() - began:.0f} s")
        if not machine_too:
            return found
        machine = measure_recoveries(found.machine, folder / "recoveries", say=say)
        if tells(machine, DISTURBED) and not thorough:
            say("other load disturbed this: the next profile measures the machine again")
        else:
            save_machine(machine)
        return replace(found, machine=machine)


def _statistics(message: Mapping[str, Any]) -> Statistics:
    return parse_statistics(message["statistics"], origin="the profile")


def _watched(app: str, folder: Path, left_s: float, say: Say) -> list[Takeover]:
    """Takeovers on a spare; none if that fails: what was measured before is still good."""
    try:
        found = _apart(app, left_s, folder, ["--takeovers"], say=say)
    except (BadInputError, CheckFailedError) as error:
        say(f"takeovers could not be watched: {error}")
        return []
    return [Takeover(**one) for one in found["takeovers"]]


def _apart(
    app: str,
    seconds: float,
    folder: Path,
    options: Sequence[str],
    *,
    say: Say,
) -> Mapping[str, Any]:
    """What a process of its own answers."""
    launch = secrets.token_hex(8)
    command = [
        *(sys.executable, "-m", "holdfast.profile", app),
        *("--seconds", str(seconds), "--folder", str(folder)),
        *options,
    ]
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    # Temporary files of all its processes go where they are removed with the rest.
    places = {"TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
    with (folder / "profile.err").open("w+b") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            env={**os.environ, **places, LAUNCH_VARIABLE: launch},
        )
        try:
            if process.stdout is None:
                raise AssertionError("its standard output is a pipe")
            for line in process.stdout:
                message: dict[str, Any] = json.loads(line)
                if not _told(message, say):
                    return message
        finally:
            kill_session(process.pid, launch)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        errors.seek(0)
        raise CheckFailedError(_last_words(errors.read().decode(errors="replace")))


def _told(message: dict[str, Any], say: Say) -> bool:
    """Whether a line was only progress; an error is raised."""
    match message:
        case {"say": str(text)}:
            say(text)
            return True
        case {"error": {"what": str(what), "where": str(where), "hint": str(hint)}}:
            raise BadInputError(what, where=where, hint=hint)
    return False


def _last_words(text: str) -> str:
    if os.environ.get("HOLDFAST_DEBUG"):
        sys.stderr.write(text)
    lines = [line for line in text.splitlines() if line.strip()]
    said = lines[-1].strip() if lines else "nothing was said"
    return f"the profile ended early: {said} (--debug shows all of it)"
