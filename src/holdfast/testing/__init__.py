"""What tests and experiments may lean on: pipelines on given rows, generators of topologies."""

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
from holdfast.testing.pipelines import Found, run

__all__ = [
    "GENERATORS",
    "Found",
    "chain",
    "in_tree",
    "layered_dag",
    "out_tree",
    "parallel_lines",
    "ppa_random",
    "random_dag",
    "run",
    "sentiment",
    "signalguru",
    "thesis_chain",
    "thesis_tree",
]
