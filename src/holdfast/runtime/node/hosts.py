"""Find the thing that runs units by the name given to `--host`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, cast

from holdfast.errors import BadInputError
from holdfast.model.deployment import Deployment
from holdfast.runtime.host import UnitHost

HostFactory: TypeAlias = Callable[[Path, str, Deployment, str], UnitHost]
"""Called with the run directory, the node's name, the deployment and the application."""

KNOWN = {
    "spark": "holdfast.runtime.spark.host:create",
    "fake": "holdfast.testing.fake_host:create",
}


def find_host(name: str) -> HostFactory:
    """The factory of `spark`, `fake` or module:function."""
    target = KNOWN.get(name, name)
    module_name, _, attribute = target.partition(":")
    if not attribute:
        raise BadInputError(
            f"unknown host {name!r}", hint=f"one of {', '.join(KNOWN)} or module:function"
        )
    try:
        factory = getattr(importlib.import_module(module_name), attribute, None)
    except ModuleNotFoundError as error:
        raise BadInputError(f"cannot import {error.name}", where=f"host {name}") from None
    if not callable(factory):
        raise BadInputError(f"{module_name} has no function {attribute}", where=f"host {name}")
    return cast("HostFactory", factory)
