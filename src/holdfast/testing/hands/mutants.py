"""The rules by which streams change hands, each switched off in turn.

A model that finds nothing may be blind. So every rule of `holdfast.streams` has a mutant here, and
a kind of world in which the rule matters; the model must find what then goes wrong.
"""

from __future__ import annotations

from holdfast.testing.hands import rules
from holdfast.testing.hands.mutant import Mutant, violation
from holdfast.testing.hands.mutants_anew import BEGUN_ANEW

__all__ = ["MUTANTS", "Mutant", "violation"]

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
LOSSES = {"damaged": "s0", "losses": 0.01, "trim": True, "trim_rest": 15}
PROMISES = {
    "watermarks": True,
    "keep_newest": True,
    "damaged": "",
    "changes": 8,
    "gap_faults": 0.02,
}
"""Slices carry watermarks, which nothing else in these worlds looks at."""

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
        seed=100_018,
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
        rule="who was left without its state is not asked for it",
        protocol=rules.LeftUnitsHaveState,
        shared=True,
        changes={**SHARED, "gap_faults": 0.3, "trim_rest": 8, "spares": 0.05, "restless": 1.0},
        seed=200_056,
    ),
    Mutant(
        rule="who was left with its state is asked for it",
        protocol=rules.IdleUnitsHaveNone,
        shared=True,
        changes={**SHARED, "gap_faults": 0.1, "trim_rest": 4, "restless": 1.0},
        seed=301_163,
    ),
    Mutant(
        rule="state is kept where it was handed over until the stream is past that",
        protocol=rules.OverWhereItHandedOver,
        shared=True,
        changes={**SHARED, "gap_faults": 0.1, "trim_rest": 4},
        seed=200_990,
    ),
    Mutant(
        rule="a sealed unit is over when what it published is read",
        protocol=rules.OverBeforeItIsRead,
        changes={**LOSSES, "damaged": "k", "trim_rest": 4, "changes": 8, "spares": 1.0},
        seed=200_290,
    ),
    Mutant(
        rule="a sealed unit is over when its stream is closed",
        protocol=rules.OverBeforeItIsClosed,
        shared=True,
        changes={
            **SHARED,
            "gap_faults": 0.3,
            "trim_rest": 4,
            "restless": 1.0,
            "pace": 0.004,
            "epochs": 16,
            "sleeps": (200, 800),
        },
        seed=400_860,
    ),
    Mutant(
        rule="what is run again for its state gives the rows on record",
        protocol=rules.AnyReplay,
        shared=True,
        changes={
            **SHARED,
            "gap_faults": 0.3,
            "epochs": 12,
            "pace": 0.004,
            "bad_replays": True,
            "poison": False,
        },
        seed=100_419,
    ),
    Mutant(
        rule="a batch's watermark is the smallest of all logs",
        protocol=rules.LargestWatermark,
        paths=False,
        changes=PROMISES,
        seed=300_000,
    ),
    Mutant(
        rule="heirs know the watermark of those before them",
        protocol=rules.HeirsKnowNoWatermark,
        paths=False,
        changes=PROMISES,
        seed=300_011,
    ),
    Mutant(
        rule="the newest slice of a log stays",
        protocol=rules.NewestIsTrimmed,
        paths=False,
        span=1,
        changes={**PROMISES, "trim": True, "trim_rest": 4, "pace": 0.002, "spares": 1.0},
        seed=300_015,
    ),
    *BEGUN_ANEW,
)
