"""Which planning methods there are; each is imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from holdfast.errors import BadInputError
from holdfast.planners.interface import Planner

METHODS: Mapping[str, tuple[str, str]] = {
    "ftc": ("holdfast.planners.ftc", "the fewest backups that keep every recovery within a bound"),
    "fastrecover": (
        "holdfast.planners.fastrecover",
        "segments and checkpoint frequencies with the least expected recovery time",
    ),
    "joint": (
        "holdfast.planners.joint",
        "boundaries, intervals and spares together, under real bounds at the least cost",
    ),
    "ppa": ("holdfast.planners.ppa", "which tasks to replicate, and which to bring back first"),
}
"""Method to (package with a `PLANNER`, one line of help)."""


def planner(method: str) -> Planner:
    """The planner of a method; one clear line when there is none."""
    if method not in METHODS:
        raise BadInputError(
            f"there is no planning method {method!r}",
            where="--method",
            hint=f"write one of {', '.join(METHODS)}",
        )
    found: Planner = import_module(METHODS[method][0]).PLANNER
    return found
