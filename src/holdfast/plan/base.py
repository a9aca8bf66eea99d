"""What every plan says, whatever the method, and the one way a plan becomes JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

FORMAT = "holdfast-plan-1"
"""Name and version of the plan file; a reader refuses every other one."""

STRICT = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
"""How pydantic checks the parts of a plan file; a plain dictionary, so that it is not imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Base of every method's plan; numbers are in the units of the topology it was made for."""

    __pydantic_config__: ClassVar = STRICT
    method: ClassVar[str]

    algorithm: str
    feasible: bool
    optimal: bool = False
    """Proved optimal, not merely believed to be."""
    objective: float | None = None
    bound: float | None = None
    """Best proved bound on the objective, or None."""
    solve_ms: float = 0.0
    """Filled in by whoever holds the clock."""
    note: str = ""
    """One line for people: why infeasible, or what was cut short."""
    explanation: tuple[str, ...] | None = None
    """Why the plan is as it is, in sentences; None, and not in the file: nobody asked."""

    def to_json(self) -> dict[str, Any]:
        """The plan file: plain values, None where unknown."""
        own = {f.name: plain(getattr(self, f.name)) for f in fields(self)}
        if self.explanation is None:
            del own["explanation"]
        return {"format": FORMAT, "method": self.method, **own}


def plain(value: Any) -> Any:
    """Plain values for JSON; what is not finite is None."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    # A number or array of numpy, which this package does without.
    return plain(value.tolist()) if hasattr(value, "tolist") else value
