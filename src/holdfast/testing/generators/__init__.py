"""Seeded generators of topologies: the shapes and the random models that planners are judged on."""

from __future__ import annotations

from holdfast.testing.generators.applications import sentiment, signalguru
from holdfast.testing.generators.ppa import ppa_random
from holdfast.testing.generators.registry import GENERATORS, Generator, Parameter
from holdfast.testing.generators.shapes import (
    chain,
    in_tree,
    layered_dag,
    out_tree,
    parallel_lines,
    random_dag,
)
from holdfast.testing.generators.thesis import thesis_chain, thesis_tree

__all__ = [
    "GENERATORS",
    "Generator",
    "Parameter",
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
