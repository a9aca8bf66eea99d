"""The rules by which streams change hands, each switched off in turn.

A model that finds nothing may be blind. So every rule of `holdfast.streams` has a mutant here, and
a kind of world in which the rule matters; the model must find what then goes wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.streams.floors import Floors
from holdfast.testing.hands import rules
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


SPLITS = {"spares": 1.0, "gap_faults": 0.1, "changes": 8, "coordinators": 2, "trim": False}
TRIMS = {"trim": True, "pace": 0.003, "epochs": 16, "gap_faults": 0.1, "changes": 8}
SHARED = {
    "damaged": "",
    "trim": True,
    "changes": 8,
    "coordinators": 2,
    "strides": (1,),
    "restless": 0.8,
}
ANEW = {"anew": 1.0, "restarts": 3, "trim": True, "gap_faults": 0.1, "faults": 0.001}
LOSSES = {"damaged": "s0", "losses": 0.01, "trim": True, "trim_rest": 15}

MUTANTS = (
    Mutant(
        rule="floors are looked at afterwards",
        protocol=rules.NoLookAfterwards,
        span=1,
        changes={
            **TRIMS,
            "epochs": 32,
            "pace": 0.006,
            "gap_faults": 0.2,
            "laggard": "OUT",
            "damaged": "",
            "sleeps": (800, 2500),
            "trim_rest": 8,
        },
        seed=100_841,
    ),
    Mutant(
        rule="the handover epoch is the largest end before a turn",
        protocol=rules.SmallestHandover,
        changes=SPLITS,
        seed=100_012,
    ),
    Mutant(
        rule="parents run on to the handover epoch",
        protocol=rules.OwnHandover,
        changes=SPLITS,
        seed=100_023,
    ),
    Mutant(
        rule="the handover epoch is a candidate for a batch end",
        broken="handover-is-candidate",
        changes=SPLITS,
        seed=100_028,
    ),
    Mutant(
        rule="a unit may end where it was born",
        protocol=rules.OwesASlice,
        changes=SPLITS,
        seed=100_002,
    ),
    Mutant(
        rule="a parent seals after its commit",
        broken="seal-before-commit",
        changes=SPLITS,
        seed=101_013,
    ),
    Mutant(rule="every parent turns", protocol=rules.OneParentTurns, changes=SPLITS, seed=100_001),
    Mutant(
        rule="a unit turns once",
        protocol=rules.TurnsAgain,
        changes={**SPLITS, "gap_faults": 0.3, "coordinators": 4, "sleeps": (200, 800)},
        seed=100_042,
    ),
    Mutant(
        rule="a change that lost its number is dropped",
        protocol=rules.LoserGoesOn,
        changes={**SPLITS, "restless": 1.0},
        seed=101_447,
    ),
    Mutant(
        rule="anyone carries a change out",
        protocol=rules.OwnChangesOnly,
        changes=SPLITS,
        seed=100_018,
    ),
    Mutant(
        rule="anyone finds and puts a closing",
        protocol=rules.ClosedByOne,
        paths=True,
        changes=SPLITS,
        seed=100_054,
    ),
    Mutant(
        rule="a range on record counts, whoever put it",
        protocol=rules.OwnRangeCounts,
        changes={"gap_faults": 0.1, "faults": 0.008},
        seed=100_055,
    ),
    Mutant(
        rule="nothing is published past a seal",
        protocol=rules.PublishedPastASeal,
        paths=True,
        changes=SPLITS,
        seed=101_318,
    ),
    Mutant(
        rule="a stream's end pins the input of what may carry it",
        protocol=rules.StreamEndPinsNothing,
        paths=True,
        changes=TRIMS,
        seed=100_334,
    ),
    Mutant(
        rule="a unit pins its input from its birth on",
        protocol=rules.NewbornPinsNothing,
        changes={**TRIMS, "spares": 0.05},
        seed=100_000,
    ),
    Mutant(
        rule="the giver of a pin is looked at before the taker",
        protocol=rules.TakerBeforeGiver,
        span=1,
        changes={
            **TRIMS,
            "epochs": 24,
            "pace": 0.004,
            "coordinators": 2,
            "faults": 0.0,
            "gap_faults": 0.3,
            "keep_on": 0.9,
            "strides": (1,),
            "sleeps": (300, 800, 2000),
            "trim_rest": 4,
            "spares": 0.3,
            "damaged": "",
        },
        seed=300_291,
    ),
    Mutant(
        rule="a unit that has turned keeps its ranges",
        protocol=rules.TurnsAreTrimmed,
        span=1,
        changes={
            **TRIMS,
            "epochs": 32,
            "pace": 0.004,
            "changes": 2,
            "coordinators": 2,
            "damaged": "",
            "direct": 0.0,
            "faults": 0.0005,
            "keep_on": 0.9,
            "laggard": "k",
            "restless": 0.1,
            "sleeps": (30, 800, 2500),
            "spares": 1.0,
            "strides": (1,),
            "trim_rest": 4,
        },
        seed=100_014,
    ),
    Mutant(
        rule="a sealed unit is over when its heirs have begun",
        protocol=rules.OverAtOnce,
        changes={**TRIMS, "spares": 0.02, "trim_rest": 10, "gap_faults": 0.02, "pace": 0.004},
        seed=100_042,
    ),
    Mutant(
        rule="a slice says which skip it was made with",
        protocol=rules.SkipNotInSlice,
        broken="skip-in-slice",
        changes={"poison": True, "gap_faults": 0.3, "faults": 0.008},
        seed=100_088,
    ),
    Mutant(rule="a claim is exclusive", broken="claims", changes={"gap_faults": 0.1}, seed=100_002),
    Mutant(rule="an end is one of all logs", protocol=rules.AnyEnd, changes=SPLITS, seed=100_002),
    Mutant(
        rule="a halt seals all that may carry the stream",
        protocol=rules.HeirsAreForgotten,
        paths=True,
        changes=SPLITS,
        seed=100_850,
    ),
    Mutant(
        rule="a closing is at the last common end",
        protocol=rules.ClosingAtTheFurthest,
        paths=True,
        changes=SPLITS,
        seed=100_054,
    ),
    Mutant(
        rule="births follow from the closing",
        protocol=rules.StatedBirth,
        paths=True,
        changes=SPLITS,
        seed=100_012,
    ),
    Mutant(
        rule="a child that was overtaken is void",
        protocol=rules.OvertakenIsBorn,
        paths=True,
        shared=False,
        changes={**SPLITS, "restless": 1.0},
        seed=100_108,
    ),
    Mutant(
        rule="a checkpoint keeps the commit at the last common end",
        broken="keep-common",
        shared=True,
        changes=SHARED,
        seed=100_732,
    ),
    Mutant(
        rule="batches since the last common end are kept",
        protocol=rules.CommonEndIsForgotten,
        shared=True,
        changes={**SHARED, "gap_faults": 0.1, "trim_rest": 8},
        seed=100_104,
    ),
    Mutant(
        rule="heirs run recorded batches again",
        broken="no-replay",
        shared=True,
        changes={**SHARED, "gap_faults": 0.3, "epochs": 12, "pace": 0.004},
        seed=100_524,
    ),
    Mutant(
        rule="a repair has the digest of its slice",
        protocol=rules.AnyRepair,
        changes={**LOSSES, "bad_repairs": True},
        seed=100_003,
    ),
    Mutant(
        rule="what slices are made of is kept a level further",
        broken="levels",
        changes={**LOSSES, "damaged": "k"},
        seed=100_003,
    ),
    Mutant(
        rule="nodes take no command of an older term",
        broken="terms",
        changes={"coordinators": 2, "gap_faults": 0.3},
        seed=100_008,
    ),
    Mutant(
        rule="what begins anew together is one decision",
        broken="one-record",
        restarts=True,
        changes={**ANEW, "gap_faults": 0.3},
        seed=200_106,
    ),
    Mutant(
        rule="none of it is born before all of it is carried out",
        protocol=rules.BornBeforeTheOthers,
        restarts=True,
        changes={**ANEW, "restarts": 8, "gap_faults": 0.3, "sleeps": (30, 200, 800)},
        seed=200_167,
    ),
    Mutant(
        rule="readers are begun anew before what they read",
        broken="readers-first",
        restarts=True,
        changes={**ANEW, "restarts": 8, "survivors": 0.9, "gap_faults": 0.3},
        seed=200_810,
    ),
    Mutant(
        rule="a sealed sink delivers no more",
        broken="sealed-sinks",
        restarts=True,
        changes={**ANEW, "restarts": 8, "survivors": 0.9},
        seed=200_103,
    ),
    Mutant(
        rule="a stream begun anew voids what all older logs hold beyond",
        protocol=rules.OlderLogsCount,
        restarts=True,
        span=1,
        changes={**ANEW, "restarts": 8, "trim": False},
        seed=200_061,
    ),
    Mutant(
        rule="a reset is refused where its input is trimmed",
        protocol=rules.TrimmedIsWhole,
        restarts=True,
        span=1,
        changes={**ANEW, "epochs": 32, "pace": 0.004, "strides": (1,), "trim_rest": 4},
        seed=200_476,
    ),
    Mutant(
        rule="a reset begins at an end of all its inputs",
        protocol=rules.EveryEpochIsAnEnd,
        restarts=True,
        span=4,
        changes=ANEW,
        seed=200_014,
    ),
    Mutant(
        rule="what begins anew pins its input from there on",
        protocol=rules.NewbornPinsNothing,
        restarts=True,
        changes={**ANEW, "spares": 0.05, "trim_rest": 10},
        seed=200_003,
    ),
    Mutant(
        rule="who takes over state runs on to where it carries the stream",
        protocol=rules.HeirsRunOnFreely,
        restarts=True,
        span=1,
        changes={
            **ANEW,
            "anew": 0.0,
            "restarts": 8,
            "gap_faults": 0.3,
            "changes": 0,
            "epochs": 32,
            "pace": 0.02,
            "strides": (1, 8),
        },
        seed=200_063,
    ),
    Mutant(
        rule="what may leave rows out is not run again by others",
        protocol=rules.LeftOutRowsComeBack,
        restarts=True,
        changes={**ANEW, "anew": 0.0, "restarts": 8, "poison": True, "gap_faults": 0.3},
        seed=200_098,
    ),
    Mutant(
        rule="whose state others take over stands still meanwhile",
        broken="at-rest",
        restarts=True,
        changes={**ANEW, "anew": 0.0, "restarts": 8, "poison": True, "gap_faults": 0.3},
        seed=200_084,
    ),
)


def violation(mutant: Mutant, seed: int, scenario: Scenario) -> str | None:
    """What goes wrong in one world, if anything."""
    world = World(seed, scenario=scenario, protocol=mutant.protocol, broken=mutant.broken)
    try:
        world.run()
    except (Violation, HoldfastError) as error:
        return str(error)
    return None
