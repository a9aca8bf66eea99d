"""A rule that is switched off, and the worlds in which the model must find what that breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.streams.floors import Floors
from holdfast.testing.hands.scenario import Scenario, Violation, draw
from holdfast.testing.hands.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A rule switched off, and the worlds in which it matters."""

    rule: str
    protocol: Callable[..., Floors] = Floors
    broken: str = ""
    paths: bool | None = None
    shared: bool | None = None
    """Whether worlds need alternatives, with state that they take over; None: either."""
    restarts: bool = False
    """Whether worlds are restarted, with some of them begun anew."""
    changes: dict[str, Any] = field(default_factory=dict)
    span: int | None = None
    """Batch interval of all segments; None: as drawn."""
    seed: int = 0
    """A world that shows it."""

    def scenarios(self, seeds: Iterator[int] | range) -> Iterator[tuple[int, Scenario]]:
        for seed in seeds:
            drawn = draw(seed, restarts=self.restarts)
            if self.paths not in (None, bool(drawn.alternatives)):
                continue
            if self.shared in (None, drawn.shared):
                yield seed, self.scenario(seed)

    def scenario(self, seed: int) -> Scenario:
        drawn = draw(seed, restarts=self.restarts)
        if self.span is not None:
            spans = {name: seg._replace(span=self.span) for name, seg in drawn.segments.items()}
            drawn = replace(drawn, segments=spans)
        return replace(drawn, **self.changes)


def violation(mutant: Mutant, seed: int, scenario: Scenario) -> str | None:
    """What goes wrong in one world, if anything."""
    world = World(seed, scenario=scenario, protocol=mutant.protocol, broken=mutant.broken)
    try:
        world.run()
    except (Violation, HoldfastError) as error:
        return str(error)
    return None
