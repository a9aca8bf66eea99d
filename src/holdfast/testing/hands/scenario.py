"""Worlds drawn from a seed: what runs in them, what is done to them, what they compute."""

from __future__ import annotations

import ast
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

GROUPS = 4
RETAIN = 2
"""Committed batches that a checkpoint keeps."""

Row = tuple[Any, int, int, Any]
"""Id, key group, epoch, value."""


class Violation(AssertionError):  # noqa: N818 - it is one
    """Something happened that must never happen."""


class Seg(NamedTuple):
    """What a segment does."""

    operation: str
    inputs: tuple[str, ...]
    output: str
    span: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One world, drawn from its seed."""

    segments: dict[str, Seg]
    alternatives: tuple[str, ...]
    """Segments that may carry stream j, one at a time."""
    epochs: int
    replicas: dict[str, int]
    poison: bool
    trim: bool
    coordinators: int
    faults: float
    gap_faults: float
    changes: int
    pace: float
    """Epochs per operation: in a slow world units keep up, in a fast one they fall behind."""
    strides: tuple[int, ...] = (1, 2, 4, 8)
    """How many batch intervals a unit that is behind may take at once."""
    restless: float = 0.5
    """How likely a coordinator asks for a change when it looks."""
    laggard: str = ""
    """A stream one of whose units stands still from its beginning on, for half the time."""
    direct: float = 0.5
    """How readily a parent that is behind goes to its handover epoch in one batch."""
    spares: float = 1.0
    """How readily a unit that never ran gets a node."""
    keep_on: float = 0.0
    """How likely a process does another operation before others get a turn."""
    sleeps: tuple[int, ...] = (30, 200, 800, 2500)
    """How many operations of others a sleeper misses."""
    slow: float = 0.1
    """How often most of a stream's units stand still for long, for each fault there is."""
    shared: bool = False
    """Whether stream j has state that a path takes over from the one before."""
    damaged: str = ""
    """A stream that loses slices."""
    losses: float = 0.003
    """How many, per operation."""
    bad_repairs: bool = False
    """Whether a batch that is run again to repair a slice may come out wrong."""
    bad_replays: bool = False
    """Whether a batch that is run again for its state may come out wrong."""
    watermarks: bool = False
    """Whether slices promise how old the rows are that follow."""
    trim_rest: int = 90
    """Operations after which someone trims again, at most."""
    keep_newest: bool = False
    """Whether the newest slice of a log stays, read or not; else all goes that may."""
    late: str = ""
    """A sink that is not there when the world begins, and may be added."""
    restarts: int = 0
    """How often everything is ended and started again, with some of it begun anew."""
    anew: float = 0.65
    """How often that is so; else other units carry a stream on with the state there is."""
    torn: float = 0.0
    """How likely the newest commits that these would go on from are lost, and older ones do."""
    survivors: float = 0.3
    """How likely a unit lives on while others begin anew what it makes or reads."""
    deposed: float = 0.0
    """How likely one who leads lives on then, and has not noticed yet that others do."""
    rivals: float = 0.0
    """How likely such a one leaves a path while a restart begins that stream anew."""


def draw(seed: int, *, restarts: bool | None = None) -> Scenario:
    """The scenario of a seed; with restarts, without, or as drawn."""
    rng = random.Random(f"scenario/{seed}")

    def span() -> int:
        return rng.choice([1, 1, 2, 4])

    shape = rng.choice(["chain"] * 4 + ["join"] + ["paths"] * 3 + ["all"])
    paths = shape in ("paths", "all")
    shared = paths and rng.random() < 0.6
    segments = {"S0": Seg("source", (), "s0", span())}
    if paths:
        what = "count" if shared else "map"
        segments["X"] = Seg(what, ("s0",), "j", span())
        segments["Y"] = Seg(what, ("s0",), "j", span())
        segments["OUT2"] = Seg("sink", ("j",), "OUT2", 1)
    segments["K"] = Seg("sum", ("j" if paths else "s0",), "k", span())
    last = "k"
    if shape in ("join", "all"):
        segments["S1"] = Seg("source", (), "s1", span())
        segments["N"] = Seg("join", ("k", "s1"), "n", span())
        last = "n"
    segments["OUT"] = Seg("sink", (last,), "OUT", 1)
    drawn = Scenario(
        segments=segments,
        alternatives=("X", "Y") if paths else (),
        epochs=rng.choice([4, 4, 4, 8, 8, 12]),
        replicas={name: rng.choice([1, 1, 2]) for name in segments},
        poison=rng.random() < 0.5,
        trim=rng.random() < 0.85,
        coordinators=rng.choice([1, 2, 2]),
        faults=rng.choice([0.0, 0.001, 0.003, 0.008]),
        gap_faults=rng.choice([0.0, 0.02, 0.1, 0.3]),
        changes=rng.choice([2, 4, 8]),
        pace=rng.choice([0.004, 0.008, 0.02]),
        spares=rng.choice([1.0, 0.05]),
        keep_on=rng.choice([0.3, 0.7, 0.9, 0.97]),
        shared=shared,
        damaged=rng.choice(["", "", "s0", "k"]),
        bad_repairs=rng.random() < 0.5,
        # By the seed, not by chance: all other worlds stay as they were.
        keep_newest=restarts is None and seed % 10 in (6, 7, 8),
    )
    asked = rng.random() < 0.25
    if not (asked if restarts is None else restarts):
        return drawn
    late = Seg("sink", (rng.choice(["k", last]),), "LATE", 1)
    return replace(
        drawn,
        segments={**segments, "LATE": late},
        replicas={**drawn.replicas, "LATE": 1},
        late="LATE",
        restarts=rng.choice([1, 2, 3]),
        # What nobody needed any more and is only left by chance cannot be made again.
        damaged="",
        # Units must have got somewhere for others to begin in the middle.
        epochs=rng.choice([8, 12, 16]),
        pace=rng.choice([0.001, 0.002, 0.004]),
        deposed=rng.choice([0.0, 0.5]),
        rivals=1.0 if paths and rng.random() < 0.5 else 0.0,
    )


@cache
def left_out(text: str) -> frozenset[Any]:
    """The rows that a skip leaves out."""
    return frozenset(ast.literal_eval(text)) if text else frozenset()


def apply(
    operation: str, state: dict[int, Any], inputs: list[list[Row]]
) -> tuple[dict[int, Any], list[Row]]:
    """What a batch does; rows are taken in order of epoch, so the batching does not matter."""
    state = dict(state)
    if operation in ("map", "sink", "source"):
        return state, [row for part in inputs for row in part]
    out: list[Row] = []
    if operation in ("sum", "count"):
        for ident, group, epoch, value in sorted(inputs[0], key=lambda row: (row[2], row[0])):
            state[group] = state.get(group, 0) + (value if operation == "sum" else 1)
            out.append((ident, group, epoch, state[group]))
        return state, out
    for side, part in enumerate(inputs):
        for row in part:
            group = row[1]
            sides = list(state.get(group, (frozenset(), frozenset())))
            for other in sides[1 - side]:
                left, right = (row, other) if side == 0 else (other, row)
                ident, epoch = (left[0], right[0]), max(left[2], right[2])
                out.append((ident, group, epoch, (left[3], right[3])))
            sides[side] |= {row}
            state[group] = tuple(sides)
    return state, out


def digest_of(rows: Sequence[Row]) -> str:
    """The same for the same rows, whatever their order; within one process only."""
    return str(hash((len(rows), frozenset(rows))))


def choose_end(after: int, ends: Sequence[int], span: int, most: int) -> int | None:
    chosen: tuple[int, int] | None = None
    cell, seen = (after + 1) // span, 0
    for end in ends:
        if (end + 1) // span == cell:
            continue
        cell = (end + 1) // span
        seen += 1
        if chosen is not None and seen > most:
            break
        chosen = max(chosen or (-1, -1), (cell & -cell, end))
    return chosen[1] if chosen else None
