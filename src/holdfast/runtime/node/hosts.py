"""Find the thing that runs units by the name given to `--host`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, cast

from holdfast.errors import BadInputError
from holdfast.rundir.contents import scratch_path
from holdfast.rundir.spec import RunSpec
from holdfast.runtime.host import UnitHost

HostFactory: TypeAlias = Callable[[Path, str, RunSpec], UnitHost]
"""Called with the run directory, the node's name and what runs."""

KNOWN = {
    "spark": "holdfast.runtime.node.hosts:create_spark",
    "fake": "holdfast.testing.fake_host:create",
}


def create_spark(run_dir: Path, node: str, spec: RunSpec) -> UnitHost:
    """Units on a Spark session of this process; `spec.options` are its settings."""
    # Imported here: a node with another host needs no Spark.
    from holdfast.pipeline import load_pipeline  # noqa: PLC0415
    from holdfast.runtime.spark.host import SparkUnitHost  # noqa: PLC0415

    return SparkUnitHost(
        spec.deployment,
        load_pipeline(spec.app),
        run_dir,
        scratch=scratch_path(run_dir, node),
        predict=spec.policy.tentative.predicted,
        forks=spec.policy.tentative.after_s is not None,
        **dict(spec.options),
    )


def host_target(name: str, *, where: str = "") -> tuple[str, str]:
    """Module and function of a host, nothing imported; a name that can be none is refused.

    Whoever starts nodes asks this first: a node that is told of a host nobody knows only gives up.
    """
    module_name, _, attribute = KNOWN.get(name, name).partition(":")
    if not attribute:
        raise BadInputError(
            f"unknown host {name!r}",
            where=where,
            hint=f"one of {', '.join(KNOWN)} or module:function",
        )
    return module_name, attribute


def find_host(name: str) -> HostFactory:
    """The factory of `spark`, `fake` or module:function."""
    module_name, attribute = host_target(name)
    try:
        factory = getattr(importlib.import_module(module_name), attribute, None)
    except ModuleNotFoundError as error:
        raise BadInputError(f"cannot import {error.name}", where=f"host {name}") from None
    if not callable(factory):
        raise BadInputError(f"{module_name} has no function {attribute}", where=f"host {name}")
    return cast("HostFactory", factory)
