"""What people and tools ask of a coordinator, as events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.control import events as e
from holdfast.deployment import UnitId


def handover_asked(request: Mapping[str, Any], cause: str) -> e.HandoverRequested:
    """A change on record, whose children are to be started."""
    return e.HandoverRequested(
        cause=cause,
        stream=str(request["stream"]),
        change=int(request["change"]),
        parents=tuple(UnitId.parse(str(name)) for name in request["parents"]),
        children=tuple(UnitId.parse(str(name)) for name in request["children"]),
        reason=str(request.get("reason", "")),
        node=str(request.get("node", "")),
    )


def path_asked(request: Mapping[str, Any], cause: str) -> e.PathAsked:
    """What someone wants of a path."""
    what = request["what"]
    if what not in ("open", "close", "prefer"):
        raise ValueError(f"cannot {what} a path")
    return e.PathAsked(
        cause=cause, what=what, split=str(request["split"]), path=str(request["path"])
    )
