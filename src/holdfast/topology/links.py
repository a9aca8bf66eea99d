"""How the tasks of two operators are linked."""

from __future__ import annotations

from typing import Literal, get_args

Partitioning = Literal["one-to-one", "split", "merge", "full"]
PARTITIONINGS: tuple[Partitioning, ...] = get_args(Partitioning)


def effective_partitioning(declared: Partitioning, upstream: int, downstream: int) -> Partitioning:
    """A link into a single task is full, whatever it was called; else as declared."""
    if downstream == 1 or (declared == "merge" and upstream == downstream):
        return "full" if downstream == 1 else "one-to-one"
    if declared == "split" and upstream == downstream:
        return "one-to-one"
    return declared


def reach(kind: Partitioning, upstream: int, downstream: int) -> tuple[tuple[int, ...], ...]:
    """Per upstream task, the downstream tasks it feeds."""
    match kind:
        case "full":
            return (tuple(range(downstream)),) * upstream
        case "one-to-one":
            return tuple((k,) for k in range(upstream))
        case "split":
            fed: list[list[int]] = [[] for _ in range(upstream)]
            for j in range(downstream):
                fed[j * upstream // downstream].append(j)
            return tuple(map(tuple, fed))
        case "merge":
            return tuple((k * downstream // upstream,) for k in range(upstream))
