"""Settings of circuit breakers and of the rules that judge paths: `--breaker SETTING=VALUE`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.errors import BadInputError

if TYPE_CHECKING:
    from holdfast.deployment import Deployment
    from holdfast.health.policy import Policy

Breaker = Annotated[
    list[str] | None,
    typer.Option(
        "--breaker",
        help="When paths are left, probed and given up: SETTING=VALUE, such as open_s=5 or "
        "no-output.hold_s=0.8; `holdfast paths --settings` shows all.",
    ),
]

LEAST = {"profile.least": 1, "profile.keep": 1, "profile.blocks": 1, "overload.outputs": 1}
"""Settings of rules that mean something from here on; others do from 0 on."""


def with_paths(policy: Policy, deployment: Deployment, settings: Sequence[str]) -> Policy:
    """A policy for a pipeline with splits: nodes of their own, and breakers as told."""
    from holdfast.health.nexus.classify import rule_settings

    own = deployment.alone
    known: dict[str, float | None] = {**asdict(policy.breaker), **rule_settings()}
    rules: dict[str, dict[str, float]] = {}
    changed: dict[str, Any] = {}
    for text in settings:
        name, given, value = text.partition("=")
        if not given or name not in known:
            raise BadInputError(
                f"no setting {name!r}", where="--breaker", hint="see `holdfast paths --settings`"
            )
        number = _number(name, value, known[name])
        rule, dot, field = name.partition(".")
        if dot:
            rules.setdefault(rule, {})[field] = number
        else:
            changed[name] = number
    try:
        breaker = replace(policy.breaker, **changed)
    except ValueError as error:
        raise BadInputError(str(error), where="--breaker") from None
    return replace(
        policy,
        workers=policy.workers + sum(own.values()),
        alone=tuple(own),
        breaker=breaker,
        rules=rules,
    )


def own_nodes(deployment: Deployment) -> int:
    """Nodes that units of splits have to themselves."""
    return sum(deployment.alone.values())


def _number(name: str, value: str, default: float | None) -> float:
    """The value of a setting; a whole one where its default is, and times greater than 0."""
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    hint = ""
    if not math.isfinite(number):
        hint = "write a number, times in seconds"
    elif isinstance(default, int) and not number.is_integer():
        hint = "write a whole number"
    elif name.endswith("_s") and number <= 0:
        hint = "times must be greater than 0"
    elif number < LEAST.get(name, 0):
        hint = f"at least {LEAST.get(name, 0)}"
    if hint:
        raise BadInputError(f"{name} is {value!r}", where="--breaker", hint=hint)
    return int(number) if number.is_integer() else number
