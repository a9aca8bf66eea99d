"""PPA: the paper's figures 16 and 17 as a table, OF by kind of topology.

Figure 16: one query, 5 to 10 operators, by skew of task loads, parallelism, full or structured
links and share of joins. Figure 17: 2 to 10 queries over 10 to 20 operators, by how priorities
follow what a query costs. `exact` is the proved optimum; where the search was cut off (last column)
the optimum lies between `best` and `bound`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks._ppa_common import arguments, table, write_json
from holdfast.planners.interface import PlanRequest, Solve
from holdfast.planners.ppa.exact import exact
from holdfast.planners.ppa.greedy import greedy
from holdfast.planners.ppa.problem import problem_of
from holdfast.planners.ppa.sa import sa
from holdfast.planners.ppa.sa_as_printed import sa_as_printed
from holdfast.testing.generators import ppa_random
from holdfast.topology.graph import Topology

SHARES = (0.3, 0.6)
STATES = 800
"""Few enough that one topology takes a fraction of a second."""
ONE = {"operators": (5, 10), "parallelism": (1, 8), "full": 0.5, "joins": 0.0, "skew": 0.0}
MANY = ONE | {"operators": (10, 20), "parallelism": (1, 5), "queries": (2, 10)}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "16a uniform loads": ONE,
    "16a Zipf loads (s = 0.1)": ONE | {"skew": 0.1},
    "16b parallelism 1-4": ONE | {"parallelism": (1, 4)},
    "16b parallelism 5-10": ONE | {"parallelism": (5, 10)},
    "16c structured": ONE | {"full": 0.0},
    "16c full": ONE | {"full": 1.0},
    "16d no joins": ONE,
    "16d half joins": ONE | {"joins": 0.5},
    "17 priority rises with size": MANY | {"priorities": "positive"},
    "17 priority uniform": MANY | {"priorities": "uniform"},
    "17 priority falls with size": MANY | {"priorities": "inverse"},
}


def main() -> int:
    args = arguments(__doc__)
    count = 6 if args.quick else 100
    make: Callable[..., Topology] = ppa_random
    rows = []
    lost = 0
    known: dict[tuple[str, float], list[dict[str, float]]] = {}
    for setting, options in SETTINGS.items():
        for share in SHARES:
            # Two settings are the same topologies under two headings.
            key = str(sorted(options.items())), share
            if key not in known:
                known[key] = [_compare(make(**options, seed=seed), share) for seed in range(count)]
            found = known[key]
            mean = {key: float(np.mean([row[key] for row in found])) for key in found[0]}
            lost += sum(row["sa"] < row["greedy"] - 1e-12 for row in found)
            rows.append(
                (
                    setting,
                    f"{share:.0%}",
                    mean["best"],
                    mean["bound"],
                    mean["sa"],
                    mean["printed"],
                    mean["greedy"],
                    int(sum(row["open"] for row in found)),
                )
            )
    head = ("setting", "budget", "best", "bound", "sa", "as printed", "greedy", "unproved")
    print(f"mean OF of {count} topologies per setting\n")
    print(table(head, rows))
    write_json(
        args.json, {"count": count, "table": [dict(zip(head, r, strict=True)) for r in rows]}
    )
    return 1 if lost else 0


def _compare(topology: Topology, share: float) -> dict[str, float]:
    problem = problem_of(topology, PlanRequest(replicas=int(topology.task_count * share)))
    solve = Solve()
    judge = problem.model.fidelity
    best = exact(problem, solve, states=STATES)
    value = judge(best.chosen)
    return {
        "best": value,
        "bound": value if best.bound is None else best.bound,
        "open": float(not best.optimal),
        "sa": judge(sa(problem, solve).chosen),
        "printed": judge(sa_as_printed(problem, solve).chosen),
        "greedy": judge(greedy(problem, solve).chosen),
    }


if __name__ == "__main__":
    sys.exit(main())
