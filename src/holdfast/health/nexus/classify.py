"""Classifies operators: keeps their histories, asks every rule, says what each has found.

Rules are pluggable. A package names its own under the entry-point group `holdfast.nexus`:

```toml
[project.entry-points."holdfast.nexus"]
disk = "my_package.rules:DiskRule"
```
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import metadata
from typing import Any, TypeVar

from holdfast.errors import BadInputError
from holdfast.health.nexus.history import WINDOW_S, History, Sample
from holdfast.health.nexus.profile import Profile, ProfilePolicy
from holdfast.health.nexus.rules import (
    Backlog,
    Bounds,
    ErrorRate,
    Leak,
    NoOutput,
    Overload,
    Rule,
    Suspended,
)

log = logging.getLogger("holdfast.nexus")

GROUP = "holdfast.nexus"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a rule has found wrong with an operator."""

    operator: str
    rule: str
    why: str
    since: float
    """When it was found first, without a sound sample in between."""


class Nexus:
    """All operators of a run, each with its history."""

    def __init__(self, rules: Sequence[Rule], *, window_s: float = WINDOW_S) -> None:
        names = [rule.name for rule in rules]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise BadInputError(f"two rules are called {doubled[0]!r}")
        self._rules = tuple(rules)
        self._window_s = window_s
        self._histories: dict[str, History] = {}
        self._found: dict[str, dict[str, Finding]] = {}
        self._raised: set[str] = set()
        """Rules that have, at least once."""

    def observe(self, operator: str, sample: Sample) -> tuple[Finding, ...]:
        """Take a sample in; what is wrong with the operator now, by rule, in the rules' order."""
        history = self._histories.get(operator)
        if history is None:
            history = self._histories[operator] = History(window_s=self._window_s)
        history.add(sample)
        before = self._found.get(operator, {})
        found: dict[str, Finding] = {}
        for rule in self._rules:
            why = self._asked(rule, rule.judge, operator, history)
            if why is not None:
                since = before[rule.name].since if rule.name in before else sample.at
                found[rule.name] = Finding(operator=operator, rule=rule.name, why=why, since=since)
        self._found[operator] = found
        if not found:
            for rule in self._rules:
                self._asked(rule, rule.learn, operator, history)
        return tuple(found.values())

    def _asked(
        self, rule: Rule, ask: Callable[[str, History], T], operator: str, history: History
    ) -> T | None:
        """What a rule says. One that raises says nothing: no coordinator would survive it."""
        try:
            return ask(operator, history)
        except Exception:
            if rule.name not in self._raised:
                self._raised.add(rule.name)
                log.exception("the rule %r cannot judge %s", rule.name, operator)
            return None

    def findings(self) -> tuple[Finding, ...]:
        """All that is wrong at present, operators in the order they were first heard of."""
        return tuple(item for found in self._found.values() for item in found.values())

    def restart(self, operator: str) -> None:
        """Another process runs the operator: what is normal stays known, its history does not."""
        self._histories.pop(operator, None)
        self._found.pop(operator, None)

    def forget(self, operator: str) -> None:
        """The operator has gone, or does something else from now on."""
        self._histories.pop(operator, None)
        self._found.pop(operator, None)
        for rule in self._rules:
            rule.forget(operator)


BUILT_IN: Mapping[str, type[Any]] = {
    "no-output": NoOutput,
    "suspended": Suspended,
    "backlog": Backlog,
    "overload": Overload,
    "errors": ErrorRate,
    "leak": Leak,
    "bounds": Bounds,
    "profile": ProfilePolicy,
}
"""Rules by the name their settings go under, with what holds these."""


def default_rules(settings: Mapping[str, Mapping[str, float]] | None = None) -> list[Rule]:
    """Those that come with Holdfast, with other settings than their own if given."""
    found: list[Rule] = []
    for name, kind in BUILT_IN.items():
        made = kind(**(settings or {}).get(name, {}))
        found.append(Profile(made) if isinstance(made, ProfilePolicy) else made)
    return found


def rule_settings() -> dict[str, float | None]:
    """Every setting of every rule that comes with Holdfast, as RULE.FIELD, with its default."""
    return {
        f"{name}.{field.name}": getattr(kind(), field.name)
        for name, kind in BUILT_IN.items()
        for field in fields(kind)
        if not isinstance(getattr(kind(), field.name), Mapping)
    }


def load_rules(
    points: Iterable[Any] | None = None,
    *,
    settings: Mapping[str, Mapping[str, float]] | None = None,
) -> list[Rule]:
    """The default rules, and those that installed packages name; raises BadInputError.

    Args:
        points: entry points to load instead of the installed ones.
        settings: of the default rules, by rule and field.
    """
    found = default_rules(settings)
    for point in metadata.entry_points(group=GROUP) if points is None else points:
        made = _made(point)
        if not isinstance(made, Rule):
            raise BadInputError(
                f"is no rule: {made!r}", where=f"entry point {point.name}", hint=f"see {GROUP}"
            )
        found.append(made)
    return found


def _made(point: Any) -> Any:
    """The rule that an entry point names, or whatever else it is."""
    try:
        loaded = point.load()
        return loaded() if isinstance(loaded, type) else loaded
    except Exception as error:
        raise BadInputError(
            f"cannot be loaded: {type(error).__name__}: {error}",
            where=f"entry point {point.name}",
            hint=f"mend or remove the package that names it, see {GROUP}",
        ) from error
