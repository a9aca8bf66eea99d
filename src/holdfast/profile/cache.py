"""The machine's own numbers, kept for profiles that have no time to measure them again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.errors import BadInputError
from holdfast.predict.statistics import (
    REFERENCE_MACHINE,
    Affine,
    MachineStatistics,
    Measure,
    Statistics,
    dump_statistics,
    load_statistics,
)
from holdfast.runtime.spark.start.archive import archive_path
from holdfast.runtime.spark.start.java import cache_folder
from holdfast.runtime.spark.start.native import wanted_side

_ELSEWHERE = "not measured here, reference:"
_DATED = " (profile of"


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def machine_path() -> Path:
    """Where the numbers of this machine are, for these versions of Java and Spark."""
    # The class archive's name stands for the versions of Java and PySpark already.
    words = f"{cores()}\n{archive_path().name}\n{wanted_side()}"
    return cache_folder() / f"machine-{hashlib.sha256(words.encode()).hexdigest()[:16]}.json"


def is_known() -> bool:
    """Whether this machine was profiled before."""
    return machine_path().exists()


def save_machine(machine: MachineStatistics) -> Path:
    """Keep a machine's numbers."""
    path = machine_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(dump_statistics(Statistics(machine=machine)), encoding="utf-8")
    temporary.replace(path)
    return path


def measured_here(measure: Measure) -> bool:
    """Whether a number was measured on this machine, and not assumed or taken from another one."""
    return measure.samples > 0 and not measure.how.startswith(_ELSEWHERE)


def tells(machine: MachineStatistics, word: str) -> bool:
    """Whether any number of a machine says so of how it was measured."""
    found: list[bool] = []

    def look(how: str) -> str:
        found.append(word in how)
        return how

    _retold(machine, look)
    return any(found)


def known_machine() -> MachineStatistics:
    """The numbers of an earlier profile, or those of the reference machine; each says which."""
    path = machine_path()
    try:
        found = load_statistics(path).machine
        day = datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%d")
    except (BadInputError, OSError):
        told = _retold(REFERENCE_MACHINE, lambda how: f"{_ELSEWHERE} {how}")
        return replace(told, cores=cores())

    def dated(how: str) -> str:
        # A number that a profile could not measure is still what it was before it.
        return how if how.startswith(_ELSEWHERE) or _DATED in how else f"{how}{_DATED} {day})"

    return _retold(found, dated)


def _retold(machine: MachineStatistics, word: Callable[[str], str]) -> MachineStatistics:
    """The same numbers with another story."""

    def retell(value: Any) -> Any:
        if isinstance(value, Measure):
            return replace(value, how=word(value.how))
        if isinstance(value, Affine):
            return Affine(fixed=retell(value.fixed), per_byte=retell(value.per_byte))
        return value

    names = [item.name for item in fields(MachineStatistics)]
    return MachineStatistics(**{name: retell(getattr(machine, name)) for name in names})
