"""Times and shares as people write them: `5s`, `200ms`, `10%`; units of time and size.

A bare number is in the unit the caller names (a topology file says its own), so that one option
serves both `--max-recovery 5` and `--max-recovery 5s`.
"""

from __future__ import annotations

import math
import re

from holdfast.errors import BadInputError

TIME_UNITS: dict[str, float] = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "minutes": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "hours": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
    "days": 86400.0,
}
"""Seconds per unit."""

SIZE_UNITS: dict[str, float] = {
    "b": 1.0,
    "kb": 1e3,
    "mb": 1e6,
    "gb": 1e9,
    "tb": 1e12,
    "kib": 2.0**10,
    "mib": 2.0**20,
    "gib": 2.0**30,
}
"""Bytes per unit, decimal as in storage."""

_QUANTITY = re.compile(r"\s*([+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z%]*)\s*")


def parse_time(text: str | float, *, unit: str = "s", where: str = "") -> float:
    """A time in `unit`; a bare number is in it already."""
    number, suffix = _split(text, where, "a time such as 5s or 200ms")
    if not suffix:
        return number
    if suffix not in TIME_UNITS:
        raise BadInputError(
            f"{suffix!r} is no unit of time", where=where, hint="write ms, s, min, h or d"
        )
    return number * TIME_UNITS[suffix] / _scale(TIME_UNITS, unit, where)


def parse_share(text: str | float, *, where: str = "") -> float:
    """A share as `10%` or `0.1`; may exceed 1 where shares are summed."""
    number, suffix = _split(text, where, "a share such as 10% or 0.1")
    if suffix not in ("", "%"):
        raise BadInputError(f"{text!r} is no share", where=where, hint="write 10% or 0.1")
    return number / 100 if suffix else number


def format_time(seconds: float) -> str:
    """Seconds for people: three figures and a fitting unit."""
    if math.isinf(seconds) or math.isnan(seconds):
        return "-"
    for limit, scale, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms"), (120.0, 1.0, "s")):
        if abs(seconds) < limit:
            return f"{seconds * scale:.3g} {unit}"
    if abs(seconds) < 2 * 3600:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h"


def _split(text: str | float, where: str, example: str) -> tuple[float, str]:
    if isinstance(text, (int, float)):
        number, suffix = float(text), ""
    else:
        match = _QUANTITY.fullmatch(text)
        if match is None:
            raise BadInputError(f"{text!r} is not understood", where=where, hint=f"write {example}")
        number, suffix = float(match[1]), match[2]
    if not math.isfinite(number) or number < 0:
        raise BadInputError(f"{text!r} is out of range", where=where, hint=f"write {example}")
    return number, suffix


def _scale(table: dict[str, float], unit: str, where: str) -> float:
    if unit not in table:
        raise BadInputError(
            f"the file counts in {unit!r}, which cannot be converted",
            where=where,
            hint="write a bare number in the file's own unit",
        )
    return table[unit]
