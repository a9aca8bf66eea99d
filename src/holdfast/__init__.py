"""Streaming pipelines on Spark that survive failures, by plan and by proof.

The names below are what pipelines and notebooks are written with; they are imported when first
used, so that `import holdfast` stays quick and planning never needs Spark. Topologies as values are
in `holdfast.topology.graph` and `holdfast.topology.files`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.errors import BadInputError, HoldfastError
    from holdfast.pipeline import (
        Console,
        Files,
        ForeachBatch,
        Generator,
        Parquet,
        Pipeline,
        Rate,
        SparkSource,
        Sqlite,
        Stream,
        Table,
    )
    from holdfast.scripting import plan, profile, prove, run

__version__ = "0.1.0"

_HOME = {
    "BadInputError": "holdfast.errors",
    "Console": "holdfast.pipeline",
    "Files": "holdfast.pipeline",
    "ForeachBatch": "holdfast.pipeline",
    "Generator": "holdfast.pipeline",
    "HoldfastError": "holdfast.errors",
    "Parquet": "holdfast.pipeline",
    "Pipeline": "holdfast.pipeline",
    "Rate": "holdfast.pipeline",
    "SparkSource": "holdfast.pipeline",
    "Sqlite": "holdfast.pipeline",
    "Stream": "holdfast.pipeline",
    "Table": "holdfast.pipeline",
    "plan": "holdfast.scripting",
    "profile": "holdfast.scripting",
    "prove": "holdfast.scripting",
    "run": "holdfast.scripting",
}

__all__ = [
    "BadInputError",
    "Console",
    "Files",
    "ForeachBatch",
    "Generator",
    "HoldfastError",
    "Parquet",
    "Pipeline",
    "Rate",
    "SparkSource",
    "Sqlite",
    "Stream",
    "Table",
    "plan",
    "profile",
    "prove",
    "run",
]


_CALLABLE = ("plan", "profile", "prove")
"""Packages that can be called, see `_CallablePackage`."""


def __getattr__(name: str) -> Any:
    if name in _CALLABLE:
        return import_module(f"holdfast.{name}")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


class _CallablePackage(ModuleType):
    """A package that is also the function of its name: `holdfast.plan(...)`, `holdfast.plan.ftc`.

    Python binds a package under its name as soon as anybody imports it, in place of a function of
    that name; so the package can be called, and `from holdfast import plan` means one thing.
    """

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Described in `help(holdfast.scripting.plan)`, `holdfast.scripting.profile` and
        `holdfast.scripting.prove`.
        """
        return self._function(*args, **options)

    @property
    def __signature__(self) -> Any:
        """What notebooks show of a call: the function's options."""
        from inspect import signature  # noqa: PLC0415 - only notebooks ask

        return signature(self._function)

    @property
    def _function(self) -> Any:
        name = self.__name__.rpartition(".")[2]
        return getattr(import_module("holdfast.scripting"), name)


class _Root(ModuleType):
    """This package: what Python binds in it when a package below is imported is made callable."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _CALLABLE and type(value) is ModuleType:
            value.__class__ = _CallablePackage
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Root
