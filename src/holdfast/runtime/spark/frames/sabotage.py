"""A way into the functions of a path, for fault schedules that want them to fail.

A map behind the path's last one, or before what keeps state, looks at a file of the run before
every batch of rows, and does what it says: `slp` stops its own process, `thr` takes so many
milliseconds for every row, `mem` keeps so many megabytes more every second, `err` raises. Without
the file it passes rows on. It is there only if the run was started to be broken.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.pipeline.operators import PipelineOperator
from holdfast.pipeline.paths import Path as AlternativePath
from holdfast.pipeline.paths import hot_name, paths_of
from holdfast.rundir.contents import sabotage_path

LOOK_S = 0.1
"""How often a function that sleeps looks whether it is to go on."""

_LEAKED: list[bytearray] = []
_LEAKED_AT: list[float] = []


class SabotageError(HoldfastError):
    """What a path raises because a fault schedule wants it to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saboteur:
    """The function of the map; a data frame goes through Python for it."""

    place: str

    def __call__(self, frame: Any) -> Any:
        return frame.mapInArrow(self._pass_on, frame.schema)

    def _pass_on(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            self._suffer(batch.num_rows)
            yield batch

    def _suffer(self, rows: int) -> None:
        fault = self._fault()
        match fault.get("fault"):
            case "slp":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "thr":
                end = time.monotonic() + rows * float(fault["ms"]) / 1000.0
                while time.monotonic() < end and self._fault():
                    time.sleep(min(LOOK_S, max(0.0, end - time.monotonic())))
            case "mem":
                _leak(float(fault["mb_s"]))
            case "err":
                raise SabotageError("a fault schedule wants this path to fail")

    def _fault(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(Path(self.place).read_text(encoding="utf-8"))
        except FileNotFoundError:
            _LEAKED.clear()
            _LEAKED_AT.clear()
            return {}
        return found


def _leak(mb_s: float) -> None:
    """Keep as much as has leaked since the last time, at first that of a tenth of a second."""
    now = time.monotonic()
    since = _LEAKED_AT[0] if _LEAKED_AT else now - 0.1
    _LEAKED_AT[:] = [now]
    # Of ones: what is only reserved is not used.
    _LEAKED.append(bytearray(b"\1" * int(min(1.0, now - since) * mb_s * 2**20)))


def sabotaged(
    change: Callable[[PipelineOperator], PipelineOperator], split: str, path: str, root: Path
) -> Callable[[PipelineOperator], PipelineOperator]:
    """The change of a pipeline that takes a path, with the way in at its end.

    Before what keeps state: it may give out no rows for a while.
    """
    saboteur = Saboteur(place=str(sabotage_path(root, split, path)))

    def both(operator: PipelineOperator) -> PipelineOperator:
        operator = change(operator)
        known = paths_of(operator)
        added = PipelineOperator(name="sabotage", kind="map", inputs=(), function=saboteur)
        own = operator.function
        if isinstance(own, AlternativePath) and operator.name == hot_name(split, path):
            return replace(operator, function=_with(own, added))
        if operator.name != split or known is None:
            return operator
        paths = tuple(_with(one, added) if one.name == path else one for one in known.paths)
        return replace(operator, function=replace(known, paths=paths))

    return both


def _with(path: AlternativePath, added: PipelineOperator) -> AlternativePath:
    place = len(path.up_to_state().operators) if path.keeper else len(path.operators)
    return replace(path, operators=(*path.operators[:place], added, *path.operators[place:]))
