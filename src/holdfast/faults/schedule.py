"""What is to go wrong, and when: a frozen list of faults, written by hand or drawn from a seed.

```yaml
faults:
  - {at: 5s, fault: kill}                          # a node that runs units, chosen by the seed
  - {at: 9s, fault: suspend, target: n1, for: 6s}  # SIGSTOP, then SIGCONT
  - {at: 12s, fault: domain, target: d0}
  - {at: 13s, fault: correlated, target: "n0,n2"}  # several nodes at once
  - {at: 14s, fault: kill, target: "leader:count"}  # the node of a replica; or follower:count#1
  - {at: 15s, fault: coordinator}                  # the one that leads is killed
  - {at: 16s, fault: coordinator-hang, for: 6s}    # or stopped, and woken later
  - {at: 18s, fault: disk, for: 3s}                # nothing of a node can write
  - {at: 21s, fault: tear, target: split, for: 4s} # a slice file is cut short, then mended
  - {at: 22s, fault: tear-slice, target: split}    # the same, for good: it heals by itself
  - {at: 23s, fault: lose-slice, target: split}    # or the file is deleted
  - {at: 24s, fault: poison, target: lines, text: '{"n": "x"}'}
  - {at: 27s, fault: scale, target: count, text: 4} # so many shards; left out: drawn by the seed
  # Of a path's functions; without a target, of the path that carries a split's stream then:
  - {at: 30s, fault: slp, target: "score:model", for: 20s}  # its workers are stopped
  - {at: 60s, fault: thr, for: 20s, text: 50}               # a row takes 50 ms more
  - {at: 90s, fault: mem, for: 20s, text: 200}              # 200 MB a second leak
  - {at: 120s, fault: err, for: 20s}                        # it raises
seed: 7
```
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import yaml

from holdfast.errors import BadInputError
from holdfast.quantities import parse_time

FaultKind = Literal[
    "kill",
    "suspend",
    "domain",
    "correlated",
    "coordinator",
    "coordinator-hang",
    "disk",
    "tear",
    "tear-slice",
    "lose-slice",
    "poison",
    "scale",
    "mem",
    "slp",
    "thr",
    "err",
]
FAULT_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
DRAWN: tuple[FaultKind, ...] = ("kill", "suspend", "domain", "coordinator", "disk", "tear")
"""What a seed draws unless told otherwise. A poison record needs to know what poisons the
application; several nodes at once must be asked for, as seeds drew before there was that."""

PATH_FAULTS: tuple[FaultKind, ...] = ("mem", "slp", "thr", "err")
"""What goes wrong in the functions of a path."""
ROLES = ("leader", "follower")
ROLE_MARK = ":"
"""Between the part of a replica and its operator, where a target is a node."""
_OF_NODES = {"kill", "suspend", "disk", "correlated"}
"""Faults whose targets are nodes."""
_LASTING = {"suspend", "coordinator-hang", "disk", "tear", *PATH_FAULTS}
_FIELDS = {"at", "fault", "target", "for", "text"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong."""

    at_s: float
    """Seconds after the run has come up."""
    kind: FaultKind
    target: str = ""
    """A node by its name or a replica (`leader:count`), several of them by comma, a failure domain,
    an operator or a source; empty: chosen by the schedule's seed."""
    duration_s: float = 0.0
    """How long a suspension, a full disk or a torn file lasts."""
    text: str = ""
    """The line a poison record consists of."""

    def to_json(self) -> dict[str, Any]:
        item: dict[str, Any] = {"at": self.at_s, "fault": self.kind}
        if self.target:
            item["target"] = self.target
        if self.duration_s:
            item["for"] = self.duration_s
        if self.text:
            item["text"] = self.text
        return item

    def __str__(self) -> str:
        where = f" {self.target}" if self.target else ""
        lasting = f" for {self.duration_s:g} s" if self.duration_s else ""
        return f"{self.kind}{where}{lasting}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Faults in the order they happen."""

    faults: tuple[Fault, ...]
    seed: int = 0
    """Decides the targets that are left open."""

    def to_json(self) -> dict[str, Any]:
        return {"seed": self.seed, "faults": [fault.to_json() for fault in self.faults]}


def draw_schedule(
    seed: int,
    *,
    faults: int = 4,
    start_s: float = 5.0,
    gap_s: float = 8.0,
    detection_s: float = 2.0,
    kinds: Sequence[FaultKind] = DRAWN,
) -> Schedule:
    """A schedule drawn from a seed: the same for the same arguments, on every machine.

    Gaps are spread around `gap_s`, from half of it, so that some faults meet a recovery. A
    suspension outlasts `detection_s` by far: the node must have been given up when it wakes.
    """
    unknown = [kind for kind in kinds if kind not in FAULT_KINDS]
    if unknown or not kinds:
        raise BadInputError(
            f"unknown fault {unknown[0]!r}" if unknown else "no kind of fault to draw from",
            hint=f"one of {', '.join(FAULT_KINDS)}",
        )
    rng = np.random.default_rng(seed)
    drawn = []
    at = start_s
    for _ in range(faults):
        kind = kinds[int(rng.integers(len(kinds)))]
        duration = 0.0
        if kind in _LASTING:
            duration = detection_s * float(rng.uniform(1.5, 3.0))
        drawn.append(Fault(at_s=round(at, 3), kind=kind, duration_s=round(duration, 3)))
        at += gap_s * float(rng.uniform(0.5, 1.5))
    return Schedule(faults=tuple(drawn), seed=seed)


def read_schedule(path: Path) -> Schedule:
    """A schedule file, YAML or JSON."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"cannot be read: {error.strerror}", where=str(path)) from error
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        first = " ".join(str(error).split())
        raise BadInputError(f"is not YAML: {first}", where=str(path)) from error
    return parse_schedule(data, where=str(path))


def parse_schedule(data: Any, *, where: str = "") -> Schedule:
    """The schedule in a file's structure."""
    if not isinstance(data, Mapping) or not isinstance(data.get("faults"), list):
        raise BadInputError("has no list of faults", where=where, hint="write 'faults:' and a list")
    faults = [
        _fault(item, f"{where}: faults[{index}]" if where else f"faults[{index}]")
        for index, item in enumerate(data["faults"])
    ]
    seed = data.get("seed", 0)
    if not isinstance(seed, int) or seed < 0:
        raise BadInputError(f"seed {seed!r} is not a whole number of 0 or more", where=where)
    return Schedule(faults=tuple(sorted(faults, key=lambda fault: fault.at_s)), seed=seed)


def _fault(item: Any, where: str) -> Fault:
    if not isinstance(item, Mapping):
        raise BadInputError("is not a fault", where=where, hint="write {at: 5s, fault: kill}")
    unknown = set(item) - _FIELDS
    if unknown:
        raise BadInputError(
            f"unknown field {min(map(str, unknown))!r}",
            where=where,
            hint=f"a fault has {', '.join(sorted(_FIELDS))}",
        )
    kind = item.get("fault")
    if kind not in FAULT_KINDS:
        raise BadInputError(
            f"unknown fault {kind!r}", where=where, hint=f"one of {', '.join(FAULT_KINDS)}"
        )
    if "at" not in item:
        raise BadInputError("has no time", where=where, hint="write at: 5s")
    fault = Fault(
        at_s=parse_time(item["at"], where=where),
        kind=kind,
        target=str(item.get("target", "")),
        duration_s=parse_time(item.get("for", 0.0), where=where),
        text=str(item.get("text", "")),
    )
    if (fault.duration_s > 0) != (fault.kind in _LASTING):
        hint = "write for: 5s" if fault.kind in _LASTING else "leave out 'for'"
        raise BadInputError(
            f"a {fault.kind} with for: {fault.duration_s:g}", where=where, hint=hint
        )
    if fault.kind in _OF_NODES:
        _check_roles(fault.target, where)
    if fault.kind in PATH_FAULTS and fault.text:
        _check_amount(fault.text, where)
    if fault.kind == "poison" and not (fault.target and fault.text):
        raise BadInputError(
            "a poison record needs a target and a text",
            where=where,
            hint="name a source that reads files, and the line to put there",
        )
    return fault


def _check_amount(text: str, where: str) -> None:
    try:
        sound = 0 < float(text) < math.inf
    except ValueError:
        sound = False
    if not sound:
        raise BadInputError(
            f"text is {text!r}", where=where, hint="milliseconds a row, or megabytes a second"
        )


def _check_roles(target: str, where: str) -> None:
    for name in target.split(","):
        role, mark, operator = name.partition(ROLE_MARK)
        if mark and (role not in ROLES or not operator):
            raise BadInputError(
                f"target {name!r} names no replica",
                where=where,
                hint="write leader:OPERATOR or follower:OPERATOR",
            )
