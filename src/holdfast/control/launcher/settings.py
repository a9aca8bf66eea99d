"""The launcher's settings, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.health.budget import RestartBudget


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSettings:
    """How many processes, and how they are watched."""

    nodes: int = 1
    spares: int = 0
    domains: int = 2
    """Nodes and spares are dealt to the failure domains d0, d1, ... in turn."""
    coordinators: int = 1
    """One of them leads, the others are ready to take over."""
    replace: bool = True
    """Start a new spare in the place of a dead node."""
    replace_delay_s: float = 5.0
    """How long to wait with that if there are spares: a starting Java virtual machine would take
    the processor from the recovery, which is over by then but for the slowest operators."""
    replace_wait_s: float = 30.0
    """How much longer at most while the recovery is still under way."""
    beat_s: float = 0.25
    orphan_s: float = 120.0
    stop_s: float = 15.0
    fence: bool = True
    """Kill nodes the coordinator has given up. Chaos turns it off: nothing may depend on it."""
    restarts: RestartBudget = field(default_factory=lambda: RestartBudget(limit=30, window_s=60.0))
    """Bounds the replacements of nodes, and on their own account the restarts of a coordinator that
    was killed."""
    coordinator_retries: RestartBudget = field(
        default_factory=lambda: RestartBudget(limit=20, window_s=300.0, delay_s=0.25)
    )
    """Restarts of a coordinator that ended by itself or could not be started, for want of room or
    memory for example: spread over two and a half minutes."""
    start_s: float = 600.0
    """A node that cannot run units after this long hangs and is killed. A healthy one takes as long
    as a session and the schemas of the pipeline do, on a machine that has much else to do."""
    failed_starts: int = 4
    """Nodes in a row that may end before they can run units; none is replaced after that until
    one has come up."""
