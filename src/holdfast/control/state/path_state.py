"""The part of the state that concerns splits: the breakers of their paths, and who is active."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import assert_never

from holdfast.control.facts import BreakerChanged, PathPreferred, PathTaken, SplitOpened
from holdfast.control.state.illegal import expect
from holdfast.health.breaker import SplitState


@dataclass(slots=True, kw_only=True)
class PathState:
    """Splits by name."""

    splits: dict[str, SplitState] = field(default_factory=dict)

    def change(self, fact: SplitOpened | BreakerChanged | PathPreferred | PathTaken) -> None:
        """Apply a fact about one split."""
        if isinstance(fact, SplitOpened):
            self.splits[fact.split] = fact.state
            return
        expect(fact.split in self.splits, "unknown split")
        known = self.splits[fact.split]
        paths = [breaker.path for breaker in known.breakers]
        match fact:
            case BreakerChanged():
                expect(fact.breaker.path in paths, "unknown path")
                breakers = tuple(
                    fact.breaker if breaker.path == fact.breaker.path else breaker
                    for breaker in known.breakers
                )
                self.splits[fact.split] = replace(known, breakers=breakers)
            case PathPreferred():
                expect(not fact.path or fact.path in paths, "unknown path")
                self.splits[fact.split] = replace(known, preferred=fact.path)
            case PathTaken():
                expect(not fact.path or fact.path in paths, "unknown path")
                self.splits[fact.split] = replace(known, active=fact.path or None)
            case _:
                assert_never(fact)
