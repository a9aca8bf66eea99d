"""Whether Spark keeps an operator's state where its key says.

State that is to change hands by whole partitions must lie by the operator's key (`deployment.
blocks`): its rows are laid out so before the operator's function gets them. If that function moves
rows about (a repartition, a join that shuffles), Spark lays them out again by all that they are
grouped by, and a split would tear keys apart. So the plan of a query's first batch is looked at, as
Spark prints it: that is one call, where walking it would be hundreds.
"""

from __future__ import annotations

import re

_NODE = re.compile(r"^(?P<indent>(?:[ :]  )*(?:[+:]- )?)(?P<node>\S.*)$")
_STATE = "state info ["
"""Every operator that keeps state prints where."""
_EXCHANGE = re.compile(r"Exchange .*?, (?P<origin>[A-Z_]+), \[plan_id=")
_OURS = "REPARTITION_BY_NUM"


def lies_by_key(plan: str) -> bool:
    """Whether the lowest operator with state in a printed plan reads rows as they were laid out."""
    lines = [found for line in plan.splitlines() if (found := _NODE.match(line))]
    keeping = [at for at, line in enumerate(lines) if _STATE in line["node"]]
    if not keeping:
        return False
    first = keeping[-1]
    top = len(lines[first]["indent"])
    origins: list[str] = []
    passed: int | None = None
    for line in lines[first + 1 :]:
        depth = len(line["indent"])
        if depth <= top:
            break
        if passed is not None and depth > passed:
            continue  # behind an exchange: how rows lay before does not matter
        passed = None
        found = _EXCHANGE.search(line["node"])
        if found is not None:
            origins.append(found["origin"])
            passed = depth
    return bool(origins) and set(origins) == {_OURS}
