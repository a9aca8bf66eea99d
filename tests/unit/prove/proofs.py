"""Proofs made up for tests: what was measured is planted, nothing has run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from holdfast.plan.document import parse_plan
from holdfast.prove.aim import Aim
from holdfast.prove.judge import Normal, Promise, Recovered, compare
from holdfast.prove.result import Proof, Struck
from holdfast.runtime.launch.run import StopReport
from holdfast.topology.graph import Edge, Operator, Topology
from holdfast.verify.check import Finding, Verdict
from holdfast.verify.compare import Difference

TOPOLOGY = Topology(
    name="words & counts",
    operators=tuple(Operator(name=name) for name in ("lines", "split", "count")),
    edges=(Edge(source="lines", target="split"), Edge(source="split", target="count")),
)
PLAN = parse_plan(
    {
        "method": "joint",
        "algorithm": "exact",
        "feasible": True,
        "max_recovery": 6.0,
        "boundaries": ["lines", "count"],
        "segments": [
            {
                "name": "lines",
                "operators": ["lines"],
                "batch_interval": 4.0,
                "snapshot_interval": None,
                "batch_epochs": 4,
                "snapshot_batches": 10,
                "batch_time": 0.4,
            },
            {
                "name": "count",
                "operators": ["split", "count"],
                "batch_interval": 4.0,
                "snapshot_interval": 40.0,
                "batch_epochs": 4,
                "snapshot_batches": 10,
                "batch_time": 0.4,
            },
        ],
        "recovery_latency": {
            "lines": {"median": 2.0, "p95": 3.0},
            "split": {"median": 4.0, "p95": 5.5},
            "count": {"median": 4.0, "p95": 5.5},
        },
        "spares": 1,
        "end_to_end_latency": 4.8,
        "overhead": 0.2,
        "cpu": 0.4,
        "uncut_cpu": 0.33,
    }
)
STOPPED = StopReport(clean=True, killed=(), left=())


def phases(seconds):
    """A recovery of so many seconds, split in fixed shares."""
    shares = {"detection": 0.1, "restore": 0.5, "replay": 0.3, "catch_up": 0.1}
    return {name: seconds * share for name, share in shares.items()}


def make_verdict(*, missing=0):
    """Results that are right, or lack some rows."""
    examples = ("missing: {word: 'kelp'}",) if missing else ()
    difference = Difference(compared=500, missing=missing, examples=examples)
    return Verdict(
        pipeline="words", findings=(Finding(name="out", kind="sink", difference=difference),)
    )


def make_proof(
    count_seconds=(3.5, 4.0, 4.5), *, missing=0, note="", verdict=True, left=(), gave_way=False
):
    """A proof in which `count` took so long each time, and `lines` always one second."""
    rng = np.random.default_rng(1)
    promised = [
        Promise(
            segment="lines",
            operators=("lines",),
            bound=6.0,
            median=2.0,
            p95=3.0,
            phases=phases(2.0),
        ),
        Promise(
            segment="count",
            operators=("split", "count"),
            bound=6.0,
            median=4.0,
            p95=5.5,
            phases=phases(4.0),
        ),
    ]
    struck, recoveries = [], []
    for number, seconds in enumerate(count_seconds):
        killed_at = 1_000_050.0 + 40 * number
        phase = float(rng.random())
        aim = Aim(unit="count.0#0", phase=phase)
        struck.append(
            Struck(
                number=number,
                aim=aim,
                node=f"n{number}",
                killed_at=killed_at,
                phase=phase,
                units=("lines.0#0", "count.0#0"),
            )
        )
        for unit, took in (("lines.0#0", 1.0), ("count.0#0", seconds)):
            recoveries.append(
                Recovered(
                    fault=number,
                    unit=unit,
                    killed_at=killed_at,
                    seconds=took,
                    settled=None if took is None else took + 1.0,
                    phases=None if took is None else phases(took),
                )
            )
    return Proof(
        run_dir=Path("runs/words"),
        app="words.py",
        plan=PLAN,
        asked=max(3, len(struck)),
        nodes=2,
        spares=1,
        seed=7,
        started_at=1_000_000.0,
        struck=tuple(struck),
        recoveries=tuple(recoveries),
        comparisons=compare(promised, recoveries),
        normal={"count.0#0": Normal(median=0.4, p95=0.5, slices=20)},
        stop=StopReport(clean=True, killed=(), left=left) if left else STOPPED,
        verdict=make_verdict(missing=missing) if verdict else None,
        note=note,
        gave_way=gave_way,
    )
