"""Classifies operators: keeps their histories, asks every rule, says what each has found.

Rules are pluggable. A package names its own under the entry-point group `holdfast.nexus`:

```toml
[project.entry-points."holdfast.nexus"]
disk = "my_package.rules:DiskRule"
```
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from holdfast.errors import BadInputError
from holdfast.health.nexus.history import WINDOW_S, History, Sample
from holdfast.health.nexus.profile import Profile
from holdfast.health.nexus.rules import (
    Backlog,
    Bounds,
    ErrorRate,
    Leak,
    NoOutput,
    Overload,
    Rule,
)

GROUP = "holdfast.nexus"


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

    def observe(self, operator: str, sample: Sample) -> tuple[Finding, ...]:
        """Take a sample in; what is wrong with the operator now, by rule, in the rules' order."""
        history = self._histories.get(operator)
        if history is None:
            history = self._histories[operator] = History(window_s=self._window_s)
        history.add(sample)
        before = self._found.get(operator, {})
        found: dict[str, Finding] = {}
        for rule in self._rules:
            why = rule.judge(operator, history)
            if why is not None:
                since = before[rule.name].since if rule.name in before else sample.at
                found[rule.name] = Finding(operator=operator, rule=rule.name, why=why, since=since)
        self._found[operator] = found
        if not found:
            for rule in self._rules:
                rule.learn(operator, history)
        return tuple(found.values())

    def findings(self) -> tuple[Finding, ...]:
        """All that is wrong at present, operators in the order they were first heard of."""
        return tuple(item for found in self._found.values() for item in found.values())

    def forget(self, operator: str) -> None:
        """The operator has gone, or does something else from now on."""
        self._histories.pop(operator, None)
        self._found.pop(operator, None)
        for rule in self._rules:
            rule.forget(operator)


def default_rules() -> list[Rule]:
    """Those that come with Holdfast."""
    return [NoOutput(), Backlog(), Overload(), ErrorRate(), Leak(), Bounds(), Profile()]


def load_rules(points: Iterable[Any] | None = None) -> list[Rule]:
    """The default rules, and those that installed packages name; raises BadInputError.

    Args:
        points: entry points to load instead of the installed ones.
    """
    found = default_rules()
    for point in metadata.entry_points(group=GROUP) if points is None else points:
        loaded = point.load()
        made = loaded() if isinstance(loaded, type) else loaded
        if not isinstance(made, Rule):
            raise BadInputError(
                f"is no rule: {made!r}", where=f"entry point {point.name}", hint=f"see {GROUP}"
            )
        found.append(made)
    return found
