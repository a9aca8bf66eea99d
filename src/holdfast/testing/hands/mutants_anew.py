"""The rules by which streams begin anew or are taken over at a start, each switched off in turn."""

from __future__ import annotations

from holdfast.testing.hands import rules as common
from holdfast.testing.hands import rules_anew as rules
from holdfast.testing.hands.mutant import Mutant

ANEW = {"anew": 1.0, "restarts": 3, "trim": True, "gap_faults": 0.1, "faults": 0.001}

BEGUN_ANEW = (
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
        rule="a halt does not overtake a restart",
        protocol=rules.CutOvertakesRestart,
        restarts=True,
        shared=True,
        changes={**ANEW, "restarts": 8, "rivals": 1.0},
        seed=200_142,
    ),
    Mutant(
        rule="a sealed sink delivers no more",
        broken="sealed-sinks",
        restarts=True,
        changes={**ANEW, "restarts": 8, "survivors": 0.9},
        seed=200_134,
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
        protocol=common.NewbornPinsNothing,
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
    Mutant(
        rule="an epoch before its input was begun anew is refused",
        protocol=rules.OtherLivesCount,
        restarts=True,
        changes={**ANEW, "restarts": 8},
        seed=200_061,
    ),
    Mutant(
        rule="whoever starts the run carries a restart out",
        protocol=rules.OwnRestartsOnly,
        restarts=True,
        changes={**ANEW, "restarts": 8, "gap_faults": 0.3},
        seed=200_032,
    ),
    Mutant(
        rule="a restart's change takes the next number that is free",
        protocol=rules.OneNumberOnly,
        restarts=True,
        paths=True,
        changes={
            **ANEW,
            "restarts": 8,
            "deposed": 1.0,
            "gap_faults": 0.3,
            "restless": 1.0,
            "changes": 20,
        },
        seed=200_260,
    ),
    Mutant(
        rule="whose state others take over keeps it until they have begun",
        protocol=rules.TakenOverAtOnce,
        restarts=True,
        paths=True,
        changes={
            **ANEW,
            "anew": 0.0,
            "restarts": 12,
            "gap_faults": 0.3,
            "changes": 0,
            "spares": 0.02,
            "trim_rest": 4,
        },
        seed=200_449,
    ),
    Mutant(
        rule="those to whom it hands over on its way meet that end too",
        protocol=rules.HeirsOfHeirsRunOnFreely,
        restarts=True,
        seed=4_048_212,
    ),
)
