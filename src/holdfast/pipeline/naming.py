"""Names of operators that their author has not named: from the function, or from what they read.

A run is resumed by these names, so a derived name must not change when something else is added to
the pipeline: numbers are never handed out.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from holdfast.errors import BadInputError
from holdfast.pipeline.problems import report

_MOST = 64


def function_name(function: Any, method: str) -> str:
    """The name an operator takes from its function."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    name = getattr(inner, "__name__", None)
    if not callable(function):
        raise BadInputError(
            f"{function!r} is neither a name nor a function",
            where=method,
            hint=f'write {method}(function) or {method}("name", function)',
        )
    if name is None or name == "<lambda>":
        what = "a lambda has no name" if name else f"{function!r} has no name"
        raise BadInputError(
            what,
            where=method,
            hint=f'give the operator one, by which a run is resumed: {method}("name", ...)',
        )
    return str(name).strip("_") or str(name)


def named(name: Any, function: Any, method: str) -> tuple[str, Any]:
    """Name and function of `map("name", function)` and of `map(function)`."""
    if isinstance(name, str):
        return name, function
    if function is not None:
        raise BadInputError(
            f"{name!r} is not a name", where=method, hint=f'write {method}("name", function)'
        )
    return function_name(name, method), name


def derived(*parts: str) -> str:
    """A name made of others; one that is too long must be given."""
    name = "-".join(parts)
    if len(name) > _MOST:
        raise BadInputError(
            f"a name made of {', '.join(parts)} is too long", where=parts[0], hint='give name="..."'
        )
    return name


def key_columns(columns: str | Iterable[str] | None, where: str) -> tuple[str, ...]:
    """Columns that may be a key: they become part of a directory name, so they stay plain."""
    names = (columns,) if isinstance(columns, str) else tuple(columns or ())
    for name in names:
        if not isinstance(name, str) or not _plain(name):
            report(
                BadInputError(
                    f"{name!r} cannot be a key column",
                    where=where,
                    hint="select it under a plain name first",
                )
            )
            return ()
    if len(set(names)) != len(names):
        report(BadInputError(f"key {', '.join(names)} names a column twice", where=where))
        return ()
    return names


def _plain(name: str) -> bool:
    return name.isascii() and name.isidentifier() and len(name) <= _MOST
