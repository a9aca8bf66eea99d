"""Runs a pipeline over a native source in one process until its sink has so many rows.

Usage: native_driver.py RUN GENERATION ROWS [idle|busy]
Reads RUN/../in. A crash point counts only for batches of the kind named: those with rows, or those
of the idle clock. Started by tests in a process group of its own, so that it can be killed whole.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pyarrow.parquet as pq

from holdfast.pipeline import Parquet, Pipeline, SparkSource, deploy
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.spark.host import SparkUnitHost

TIMEOUT_S = 120.0


def pipeline(inbox: Path, epoch: str = "0.2s") -> Pipeline:
    """Numbers from files, copied to a sink."""
    made = Pipeline("native", epoch=epoch)
    numbers = SparkSource(format="json", schema="n bigint", options={"path": str(inbox)})
    made.sink("out", made.source("numbers", numbers), Parquet("out"))
    return made


def delivered(run: Path) -> list[int]:
    """What is in the sink, in order of the batches."""
    files = sorted((run / "out").glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file)["n"].to_pylist()]


def only(kind: str, run: Path) -> None:
    """Let crash points be passed by batches of the other kind."""
    plain, log = Crash.at, SliceLog(run)

    def at(self: Crash, point: str, unit: str, number: int = -1) -> None:
        if point != "during-clone":
            record = log.range(unit, number)
            if unit != "numbers.0#0" or record is None:
                return
            if (record.source["batch"] == number) != (kind == "busy"):
                return
        plain(self, point, unit, number)

    Crash.at = at  # type: ignore[method-assign]


def main(run: Path, generation: int, rows: int, kind: str) -> int:
    if kind:
        only(kind, run)
    made = pipeline(run.parent / "in")
    deployment = deploy(made)
    host = SparkUnitHost(deployment, made, run)
    for unit in deployment.units():
        host.start(unit, generation, generation - 1 if generation > 1 else None)
    deadline, seen = time.monotonic() + TIMEOUT_S, 0
    try:
        while time.monotonic() < deadline:
            found = {status.unit.segment: status for status in host.poll()}
            for status in found.values():
                if status.state in ("failed", "stopped"):
                    sys.stderr.write(f"{status.unit} {status.state}\n{status.error}\n")
                    return 1
            seen = len(delivered(run))
            if seen >= rows and found["out"].batch >= 0:
                return 0
            time.sleep(0.05)
        sys.stderr.write(f"not reached: {seen} of {rows}, {found}\n")
        return 3
    finally:
        host.close()


if __name__ == "__main__":
    run_dir, number, wanted, *rest = sys.argv[1:]
    sys.exit(main(Path(run_dir), int(number), int(wanted), (*rest, "")[0]))
