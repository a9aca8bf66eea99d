"""Settings of circuit breakers and of the rules that judge paths: `--breaker SETTING=VALUE`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
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


def with_paths(policy: Policy, deployment: Deployment, settings: Sequence[str]) -> Policy:
    """A policy for a pipeline with splits: nodes of their own, and breakers as told."""
    from holdfast.health.nexus.classify import rule_settings

    own = {item.name: item.shards for item in deployment.segments if item.paths}
    known = {item.name for item in fields(policy.breaker)}
    rules: dict[str, dict[str, float]] = {}
    changed: dict[str, Any] = {}
    for text in settings:
        name, given, value = text.partition("=")
        if not given or (name not in known and name not in rule_settings()):
            raise BadInputError(
                f"no setting {name!r}", where="--breaker", hint="see `holdfast paths --settings`"
            )
        number = _number(name, value)
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
    return sum(item.shards for item in deployment.segments if item.paths)


def _number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise BadInputError(
            f"{name} is {value!r}", where="--breaker", hint="write a number, times in seconds"
        ) from None
    return int(number) if number.is_integer() else number
