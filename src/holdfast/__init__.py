"""Streaming pipelines on Spark that survive failures, by plan and by proof.

The names below are the public API; they are imported when first used, so that `import holdfast`
stays quick and planning never needs Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.errors import BadInputError, HoldfastError
    from holdfast.pipeline import (
        Console,
        Files,
        ForeachBatch,
        Generator,
        Parquet,
        Pipeline,
        Rate,
        SparkSource,
        Sqlite,
    )
    from holdfast.planners.interface import PlanRequest
    from holdfast.planners.planning import plan_topology
    from holdfast.topology.files import load_topology, save_topology
    from holdfast.topology.graph import Edge, Operator, Query, Topology

__version__ = "0.1.0"

_HOME = {
    "BadInputError": "holdfast.errors",
    "Console": "holdfast.pipeline",
    "Edge": "holdfast.topology.graph",
    "Files": "holdfast.pipeline",
    "ForeachBatch": "holdfast.pipeline",
    "Generator": "holdfast.pipeline",
    "HoldfastError": "holdfast.errors",
    "Operator": "holdfast.topology.graph",
    "Parquet": "holdfast.pipeline",
    "Pipeline": "holdfast.pipeline",
    "PlanRequest": "holdfast.planners.interface",
    "Query": "holdfast.topology.graph",
    "Rate": "holdfast.pipeline",
    "SparkSource": "holdfast.pipeline",
    "Sqlite": "holdfast.pipeline",
    "Topology": "holdfast.topology.graph",
    "load_topology": "holdfast.topology.files",
    "plan_topology": "holdfast.planners.planning",
    "save_topology": "holdfast.topology.files",
}

__all__ = [
    "BadInputError",
    "Console",
    "Edge",
    "Files",
    "ForeachBatch",
    "Generator",
    "HoldfastError",
    "Operator",
    "Parquet",
    "Pipeline",
    "PlanRequest",
    "Query",
    "Rate",
    "SparkSource",
    "Sqlite",
    "Topology",
    "load_topology",
    "plan_topology",
    "save_topology",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
