"""What a proof gives: every fault as it struck, every recovery, and the judgement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.control.status import RunView
from holdfast.plan import Plan
from holdfast.prove.aim import Aim
from holdfast.prove.failover import Failovers
from holdfast.prove.judge import Comparison, Normal, Recovered, bound_kept, complete_again
from holdfast.prove.tentative import Fork
from holdfast.runtime.launch.run import StopReport
from holdfast.verify.check import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """One fault as it happened."""

    number: int
    aim: Aim
    node: str
    killed_at: float
    phase: float
    """Share of the batch interval that had really passed."""
    units: tuple[str, ...]
    """Units that the node hosted and whose recovery is measured."""

    def to_json(self) -> dict[str, Any]:
        return {
            "fault": self.number,
            "unit": self.aim.unit,
            "aimed_phase": self.aim.phase,
            "phase": self.phase,
            "node": self.node,
            "killed_at": self.killed_at,
            "units": list(self.units),
        }


class Audience:
    """Whoever watches a proof; this one does not care."""

    def say(self, line: str) -> None:
        """Something began."""

    def steady(self, normal: Mapping[str, Normal]) -> None:
        """Everything runs; this is its normal lag."""

    def struck(self, fault: Struck, view: RunView) -> None:
        """A node was killed; the view is from just before."""

    def watched(self, fault: Struck, view: RunView) -> None:
        """The run while it recovers."""

    def recovered(self, fault: Struck, recoveries: Sequence[Recovered]) -> None:
        """The recovery of everything that one fault hit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """All that was measured, and the judgement."""

    run_dir: Path
    app: str
    plan: Plan
    asked: int
    """Faults that were to be injected."""
    nodes: int
    spares: int
    seed: int
    started_at: float
    struck: tuple[Struck, ...]
    recoveries: tuple[Recovered, ...]
    comparisons: tuple[Comparison, ...]
    normal: Mapping[str, Normal]
    stop: StopReport
    verdict: Verdict | None
    """None: there was nothing to verify with."""
    note: str = ""
    """Why it ended early; empty if it did not."""
    gave_way: bool = False
    """It ended early because the run did not come up, or did not recover."""
    forks: tuple[Fork, ...] = ()
    """What went on without an input meanwhile, and how near it came."""

    @property
    def kept(self) -> bool:
        """The bound was not broken more often than planned."""
        return bool(self.recoveries) and bound_kept(self.comparisons)

    @property
    def results(self) -> Comparison:
        """After each fault, until no result was missing."""
        return complete_again(self.plan, self.comparisons)

    @property
    def failovers(self) -> Failovers | None:
        """What became of units with a hot follower; None: none was hit."""
        return Failovers.of(self.recoveries)

    @property
    def exact(self) -> bool:
        return self.verdict is not None and self.verdict.ok

    @property
    def ok(self) -> bool:
        return self.kept and self.exact and not self.gave_way and not self.stop.left

    @property
    def broken(self) -> int:
        return sum(item.broken for item in self.comparisons)

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "kept": self.kept,
            "exact": self.exact,
            "run": str(self.run_dir),
            "app": self.app,
            "asked": self.asked,
            "nodes": self.nodes,
            "spares": self.spares,
            "seed": self.seed,
            "note": self.note,
            "gave_way": self.gave_way,
            "segments": [item.to_json() for item in self.comparisons],
            "failovers": None if self.failovers is None else self.failovers.to_json(),
            "tentative": [fork.to_json() for fork in self.forks],
            "results": self.results.to_json(),
            "normal_lag": {
                unit: {"median": item.median, "p95": item.p95, "slices": item.slices}
                for unit, item in self.normal.items()
            },
            "faults": [item.to_json() for item in self.struck],
            "recoveries": [item.to_json() for item in self.recoveries],
            "clean_stop": self.stop.clean,
            "left": list(self.stop.left),
            "verdict": None if self.verdict is None else self.verdict.to_json(),
        }
