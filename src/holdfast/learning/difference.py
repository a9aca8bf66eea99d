"""What another plan would do otherwise than the one that runs, why, and what that takes.

Intervals, placement and spares are settings of a start: a run that is resumed goes over to them.
Other cuts and followers make other units, with other state and streams; a run is taken over by them
only when somebody says so (`run --plan`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from holdfast.learning.refine import Drift, figure
from holdfast.learning.standing import Broken
from holdfast.plan import JointPlan
from holdfast.plan.joint import PlannedSegment

Kind = Literal["cut", "fused", "batches", "snapshots", "nodes", "placement", "spares", "followers"]
SETTINGS: frozenset[Kind] = frozenset({"batches", "snapshots", "nodes", "placement", "spares"})
"""What a run goes over to when it is resumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange:
    """One thing that another plan does otherwise."""

    kind: Kind
    what: str
    """In words, as in: batches of count every 4 s instead of 2 s."""
    about: tuple[str, ...] = ()
    """Operators or segments that it concerns; none: all."""
    why: str = ""

    @property
    def words(self) -> str:
        """One line."""
        return f"would change: {self.what}{f', because {self.why}' if self.why else ''}"


def differences(before: JointPlan, after: JointPlan, *, seconds: float = 1.0) -> list[PlanChange]:
    """What `after` does otherwise; `seconds` is what a plan's unit of time is worth."""
    cut = [name for name in after.boundaries if name not in before.boundaries]
    fused = [name for name in before.boundaries if name not in after.boundaries]
    found = [PlanChange(kind="cut", what=f"cut after {name}", about=(name,)) for name in cut]
    found += [
        PlanChange(kind="fused", what=f"no cut after {name}", about=(name,)) for name in fused
    ]
    was = {one.name: one for one in before.segments}
    for one in after.segments:
        if one.name in was:
            found += _intervals(was[one.name], one, seconds)
    found += _places(before, after)
    if (before.spares or 0) != (after.spares or 0):
        what = f"{_counted(after.spares or 0, 'spare')} instead of {before.spares or 0}"
        found.append(PlanChange(kind="spares", what=what))
    more, less = _apart(after.replicas, before.replicas), _apart(before.replicas, after.replicas)
    found += [PlanChange(kind="followers", what=f"a follower of {n}", about=(n,)) for n in more]
    found += [PlanChange(kind="followers", what=f"no follower of {n}", about=(n,)) for n in less]
    return found


def _intervals(was: PlannedSegment, one: PlannedSegment, seconds: float) -> list[PlanChange]:
    found = []
    if was.batch_interval != one.batch_interval:
        old, new = was.batch_interval * seconds, one.batch_interval * seconds
        what = f"batches of {one.name} every {figure(new)} s instead of {figure(old)} s"
        found.append(PlanChange(kind="batches", what=what, about=(one.name,)))
    if was.snapshot_batches != one.snapshot_batches and one.snapshot_interval is not None:
        what = (
            f"snapshots of {one.name} every {_counted(one.snapshot_batches, 'batch', 'es')} "
            f"instead of {was.snapshot_batches}"
        )
        found.append(PlanChange(kind="snapshots", what=what, about=(one.name,)))
    return found


def _places(before: JointPlan, after: JointPlan) -> list[PlanChange]:
    """How many nodes, and whose neighbours differ."""
    old, new = _homes(before), _homes(after)
    count, was = max(1, len(after.nodes)), max(1, len(before.nodes))
    if count != was:
        what = f"{_counted(count, 'node')} instead of {was}"
        found = [PlanChange(kind="nodes", what=what)]
    else:
        found = []
    both = old.keys() & new.keys()
    for name in (one.name for one in after.segments):
        if name in both and (old[name] & both) != (new[name] & both):
            others = ", ".join(n for n in sorted(new[name]) if n != name)
            what = f"{name} on a node with {others}" if others else f"{name} on a node of its own"
            found.append(PlanChange(kind="placement", what=what, about=(name,)))
    return found


def _homes(plan: JointPlan) -> dict[str, frozenset[str]]:
    """Segments, each with those it shares a node with, itself included."""
    groups = [node.segments for node in plan.nodes] or [tuple(one.name for one in plan.segments)]
    return {name: frozenset(group) for group in groups for name in group}


def explained(
    changes: Iterable[PlanChange],
    plan: JointPlan,
    drifts: Sequence[Drift],
    broken: Mapping[str, Broken],
) -> list[PlanChange]:
    """The same with what has changed in the run that makes for each, as far as it is known.

    A segment's own drifts come first; a change that has none of its own follows from all of them,
    or from the promise that would be broken.
    """
    inside = {name: one.name for one in plan.segments for name in one.operators}
    found = []
    for change in changes:
        segments = {inside.get(name, name) for name in change.about}
        own = [one for one in drifts if one.segment in segments]
        why = "; ".join(one.words for one in own)
        if not why and broken:
            name = max(broken, key=lambda item: broken[item].now_s)
            why = f"{name} would take {broken[name].words}"
        why = why or "; ".join(one.words for one in drifts)
        found.append(PlanChange(kind=change.kind, what=change.what, about=change.about, why=why))
    return found


def beyond_settings(changes: Iterable[PlanChange]) -> list[PlanChange]:
    """What a run that is resumed does not go over to by itself."""
    return [one for one in changes if one.kind not in SETTINGS]


def tell(changes: Sequence[PlanChange], say: Callable[[str], None]) -> None:
    """Each in a line."""
    for one in changes:
        say(one.words)
    if not changes:
        say("would change: nothing")


def _apart(these: Sequence[str], those: Sequence[str]) -> list[str]:
    return [name for name in these if name not in those]


def _counted(number: int, word: str, more: str = "s") -> str:
    return f"{number} {word}{'' if number == 1 else more}"
