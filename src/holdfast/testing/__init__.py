"""What tests and experiments may lean on: seeded generators of topologies."""

from __future__ import annotations

from holdfast.testing.generators import (
    GENERATORS,
    chain,
    in_tree,
    layered_dag,
    out_tree,
    parallel_lines,
    ppa_random,
    random_dag,
    sentiment,
    signalguru,
    thesis_chain,
    thesis_tree,
)

__all__ = [
    "GENERATORS",
    "chain",
    "in_tree",
    "layered_dag",
    "out_tree",
    "parallel_lines",
    "ppa_random",
    "random_dag",
    "sentiment",
    "signalguru",
    "thesis_chain",
    "thesis_tree",
]
