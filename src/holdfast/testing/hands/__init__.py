"""A model of streams that change hands, over the production decisions of `holdfast.streams`."""

from holdfast.testing.hands.scenario import Scenario, Violation, draw
from holdfast.testing.hands.world import World

__all__ = ["Scenario", "Violation", "World", "draw"]
