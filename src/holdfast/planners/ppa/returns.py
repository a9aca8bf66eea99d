"""In which order units come back when there are fewer places than failed units.

At run time places appear one by one, and which units have failed is known only then. The order is
made once, for the loss of everything, by `inc`: the average fidelity over the whole recovery. Of
what has failed, whoever comes first in it goes first. `topological` is the comparison.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from holdfast.planners.interface import Solve
from holdfast.planners.ppa.fidelity import fidelity_model
from holdfast.planners.ppa.recovery import Recovery, inc, topological
from holdfast.topology.graph import Topology

Order = Literal["inc", "topological"]


def return_order(units: Topology, how: Order, solve: Solve | None = None) -> tuple[str, ...]:
    """Tasks of a unit graph, the first to come back first."""
    model = fidelity_model(units)
    times = tuple(float(k + 1) for k in range(model.size))
    recovery = Recovery(model=model, alive=np.zeros(model.size, bool), times=times)
    order = (inc if how == "inc" else topological)(recovery, solve or Solve())
    return tuple(model.names[task] for task in order)
