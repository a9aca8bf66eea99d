"""The coordinator's settings, as one frozen value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.health.breaker import BreakerPolicy
from holdfast.health.budget import RestartBudget
from holdfast.health.heartbeat import HeartbeatPolicy
from holdfast.health.stall import StallPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Tentative:
    """When results are computed without an input that is gone, and for how long."""

    after_s: float | None = None
    """How long an input may be gone before what reads it goes on without it; None: for ever."""
    at_once: tuple[str, ...] = ()
    """Segments that nobody waits for: their recovery is predicted to take longer than that."""
    most_s: float = 3600.0
    """Age at which a fork ends, whatever it waits for."""
    most_epochs: int = 100_000
    """How far a fork may go ahead of the exact results, for which all input since is kept."""
    fidelity: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Sink to the predicted share of the input that its rows reflect, by the units that are missing
    (their names in order, by blanks)."""
    priorities: Mapping[str, float] = field(default_factory=dict)
    """Sink to what its results are worth, 1 where it is not said: the units of those worth more go
    on first, and a sink of priority 0 waits for its input."""

    def predicted(self, sink: str, missing: Iterable[str]) -> float | None:
        """The share of the input that a sink's rows reflect without some units; None: unknown.

        Of more units than were planned for it is made up of what is known of pairs.
        """
        known = self.fidelity.get(sink, {})
        names = sorted(missing)
        whole = known.get(" ".join(names))
        if whole is not None or not names:
            return 1.0 if whole is None else whole
        return _estimated(known, [name for name in names if name in known])


def _estimated(known: Mapping[str, float], names: list[str]) -> float | None:
    """A share from those without single units and pairs; None: nothing is known.

    Each unit takes away what it does beside the other one with which it has most in common: nothing
    if that feeds it, all of its own if they have nothing in common. No pair leaves less.
    """
    if not names:
        return None
    first, *others = sorted(names, key=lambda name: known[name])
    share = least = known[first]
    done = [first]
    for name in others:
        pairs = {other: known.get(" ".join(sorted((name, other)))) for other in done}
        both = {other: left for other, left in pairs.items() if left is not None}
        share -= min((known[other] - left for other, left in both.items()), default=0.0)
        least = min([least, *both.values()])
        done.append(name)
    return max(0.0, min(share, least))


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How failures are detected and answered."""

    workers: int = 1
    """Nodes that must have joined before the first units are placed."""
    gather_s: float = 60.0
    """After this time the first units are placed on whichever nodes have joined."""
    max_units_per_node: int = 16
    """Maximum units per node, spare or not; units of a dead node go to others up to this."""
    together: tuple[tuple[str, ...], ...] = ()
    """Units, by name, that share a node when they are first placed; empty: the least loaded node
    is taken for each."""
    heartbeat: HeartbeatPolicy = field(default_factory=HeartbeatPolicy)
    stall: StallPolicy = field(default_factory=StallPolicy)
    search_s: float = 600.0
    """How long a running unit may prepare itself anew, as it does to find rows to quarantine,
    before that counts as a stall."""
    start_timeout_s: float = 120.0
    """A unit that has not run this long after its placement takes its node down with it."""
    disconnect_grace_s: float = 0.25
    """How long a node may be without a connection while the coordinator is up."""
    reconnect_s: float = 10.0
    """How long nodes may take to find a restarted coordinator."""
    pause_s: float = 1.0
    """A gap between two events longer than this means the coordinator itself stood still, so
    silence in it says nothing about the nodes. Ticks come much more often."""
    retries: RestartBudget = field(
        default_factory=lambda: RestartBudget(limit=3, window_s=120.0, delay_s=0.5)
    )
    """Restarts of a unit after exceptions and stalls."""
    crashes: RestartBudget = field(
        default_factory=lambda: RestartBudget(limit=20, window_s=300.0, delay_s=0.0)
    )
    """Restarts of a unit after the loss of its node: bounds a unit that kills whatever hosts it."""
    shortages: RestartBudget = field(
        default_factory=lambda: RestartBudget(limit=60, window_s=300.0, delay_s=0.5)
    )
    """Restarts of a unit that found no room to write. At the longest delay, ten seconds, they never
    use the budget up: such a unit waits until someone has made room."""

    recovery_order: tuple[str, ...] = ()
    """Units, the first to be placed first when several have failed; empty: upstream first."""
    alone: tuple[str, ...] = ()
    """Segments each unit of which has a node to itself, so that its processor time and memory are
    its own: splits."""
    breaker: BreakerPolicy = field(default_factory=BreakerPolicy)
    """When a path is left, probed and given up."""
    rules: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Settings of the rules that judge paths, by rule and field; the others have their defaults."""
    follower_batches: int = 48
    """A follower that has fallen back behind its leader by more is started again from a clone."""
    tentative: Tentative = field(default_factory=Tentative)
    rejoin_s: float = 2.0
    """How long a lost replica stays away while another one goes on: its start takes the processor,
    which the survivor needs for what is due now."""

    def __post_init__(self) -> None:
        if self.workers < 1 or self.max_units_per_node < 1:
            raise ValueError("workers and max_units_per_node must be at least 1")
