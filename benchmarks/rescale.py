"""The pause of a stateful operator that is rescaled while it runs, by the size of its state.

A count per key over so many keys gets 2 shards, 4, 2 and 1 again while its source goes on. The
pause is the gap between its slices at the handover, beyond the usual one. The first change comes
when Spark has made a snapshot of the whole state, as it has of an operator that has run for a
while. Beside it what Spark offers in the same session: the query is stopped, its checkpoint
repartitioned offline, the query started again; from the call of `stop` to the end of the first
batch afterwards. Everything runs in one process, so a quiet machine with two cores is enough.

A million keys take minutes, nearly all of it Spark's: the batch that brings the keys, the snapshot
of their state, and its own repartitioning. What is being waited for is told on stderr; it gives up
when nothing has moved for `STUCK_S`, however long the whole takes.

    python -m benchmarks.rescale [--quick] [--keys 10000 100000 1000000] [--json FILE]
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from holdfast.control.events import UnitReport
from holdfast.deployment import UnitId
from holdfast.pipeline import Generator, Parquet, Pipeline, deploy
from holdfast.runtime.checkpoint.state import StateFiles
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.rescale import Handover, outcome, rescale, scalable
from holdfast.runtime.spark.host import SparkUnitHost
from holdfast.runtime.spark.start.session import start_session
from holdfast.testing.repartition import ROWS, counting, repartitioned_s

BAR_S = 2.0
"""Median pause, beyond the usual gap between slices."""
SHAPES = (2, 4, 2, 1)
FILL = 8
"""Epochs in which all keys come up once; afterwards a few rows each."""
EPOCH_S = 0.5
SETTLE = 6
"""Epochs between two changes."""
STUCK_S = 600.0
"""Nothing has moved for so long, seconds: it gives up. A batch of all keys is one move."""
TELL_S = 30.0
"""How often it is told what is being waited for, seconds."""
LOOK_S = 0.5
"""Between two looks at the files of the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One size of state."""

    keys: int
    state_bytes: int
    pauses_s: tuple[float, ...]
    """Of every handover, beyond the usual gap."""
    usual_s: float
    offline_s: float
    """Spark's repartitioning, from 1 to 2 partitions, with its stop and start."""

    @property
    def median_s(self) -> float:
        return statistics.median(self.pauses_s)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--quick", action="store_true", help="the smallest state only")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    spark = start_session("rescale", memory_mb=1500)
    rows = []
    print(
        f"{'keys':>9} {'state':>9} {'pauses beyond the usual gap':>36} {'median':>8} {'Spark':>9}"
    )
    for keys in args.keys[:1] if args.quick else args.keys:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            row = measure(spark, keys, Path(folder))
        rows.append(row)
        pauses = ", ".join(f"{pause:.2f}" for pause in row.pauses_s)
        print(
            f"{keys:>9,} {row.state_bytes / 2**20:>6.1f} MB {pauses:>34} s {row.median_s:>6.2f} s "
            f"{row.offline_s:>7.2f} s",
            flush=True,
        )
    if args.json:
        found = [{**asdict(row), "median_s": row.median_s} for row in rows]
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    spark.stop()
    return int(any(row.median_s > BAR_S for row in rows))


def tell(line: str) -> None:
    """Say what takes its time, to who looks on."""
    print(line, file=sys.stderr, flush=True)


def measure(spark: SparkSession, keys: int, folder: Path) -> Row:
    """Both, one after the other."""
    running = Running(spark, keys, folder / "run")
    try:
        running.until("all keys", lambda found: found["count"].epoch > FILL + SETTLE)
        filled = running.log.newest_batch("count.0#0")
        running.until("a snapshot", lambda _: running.snapshot() >= filled, look_s=LOOK_S)
        handovers = [running.scale(shards) for shards in SHAPES]
        usual_s = running.usual_s()
        state_bytes = running.state_bytes()
    finally:
        running.host.close()
    return Row(
        keys=keys,
        state_bytes=state_bytes,
        pauses_s=tuple(max(0.0, one.pause_s - usual_s) for each in handovers for one in each),
        usual_s=usual_s,
        offline_s=repartitioned_s(spark, keys, folder / "plain"),
    )


def make_pipeline(keys: int) -> Pipeline:
    """A count per key, whose keys all come up in the first epochs."""

    def rows(epoch: int, seed: int) -> Iterable[tuple[Any, ...]]:  # noqa: ARG001 - as sources are
        share = -(-keys // FILL)
        if epoch < FILL:
            return [(key,) for key in range(epoch * share, min(keys, (epoch + 1) * share))]
        return [((epoch * ROWS + at) * 7919 % keys,) for at in range(ROWS)]

    made = Pipeline("rescaled", epoch=f"{EPOCH_S}s")
    counts = made.source("rows", Generator(function=rows, schema="key bigint")).aggregate(
        "count", counting, key="key", output="upsert", max_shards=4
    )
    made.sink("out", counts, Parquet("out"))
    return made


class Running:
    """All units of a run in this process, heirs included."""

    def __init__(self, spark: SparkSession, keys: int, folder: Path) -> None:
        pipeline = make_pipeline(keys)
        self.deployment = deploy(pipeline)
        self.host = SparkUnitHost(self.deployment, pipeline, folder, spark=spark)
        self.log = SliceLog(folder)
        self._begun: set[str] = set()
        for unit in self.deployment.units():
            self._start(str(unit))

    def _start(self, unit: str) -> None:
        if unit not in self._begun:
            self._begun.add(unit)
            self.host.start(UnitId.parse(unit), 1, None)

    def until(
        self,
        what: str,
        condition: Callable[[dict[str, UnitReport]], bool],
        *,
        look_s: float = 0.02,
    ) -> None:
        """Wait as long as something moves; the furthest unit of an operator stands for it."""
        began = moved_at = told_at = time.monotonic()
        before: object = None
        while True:
            found: dict[str, UnitReport] = {}
            for item in self.host.poll():
                if item.state == "failed":
                    raise RuntimeError(item.error)
                for heir in item.heirs:
                    self._start(heir)
                known = found.get(item.unit.segment)
                if known is None or known.epoch < item.epoch:
                    found[item.unit.segment] = item
            now = time.monotonic()
            if condition(found):
                if now - told_at >= TELL_S or told_at > began:
                    tell(f"{what}: there after {now - began:.0f} s")
                return
            moved = {name: (item.epoch, item.rows_in) for name, item in found.items()}
            if moved != before:
                before, moved_at = moved, now
            if now - told_at >= TELL_S:
                told_at = now
                tell(f"{what}: waited for {now - began:.0f} s; (epoch, rows) {moved}")
            if now - moved_at > STUCK_S:
                raise TimeoutError(f"{what}: nothing has moved for {STUCK_S:.0f} s: {found}")
            time.sleep(look_s)

    def scale(self, shards: int) -> list[Handover]:
        """Another number of shards, and some epochs with it."""
        put = rescale(self.log, scalable(self.deployment, "count"), shards, reason="benchmark")
        for change in put:
            for child in change.children:
                self._start(child.unit)
        self.until(f"{shards} shards", lambda _: all(outcome(self.log, change) for change in put))
        done = [found for change in put if (found := outcome(self.log, change))]
        after = max(found.epoch for found in done) + SETTLE
        self.until("the sink behind it", lambda found: found["out"].epoch > after)
        return done

    def usual_s(self) -> float:
        """The median gap between two slices of one log."""
        gaps = []
        for child in self.log.carriers("count"):
            number = self.log.newest_batch(child.unit)
            times = [
                at
                for batch in range(max(0, number - SETTLE), number)
                if (item := self.log.slice(child.unit, batch)) and (at := self.log.put_time(item))
            ]
            gaps += [later - earlier for earlier, later in itertools.pairwise(times)]
        return statistics.median(gaps) if gaps else EPOCH_S

    def state_bytes(self) -> int:
        """What a restore of all shards would read."""
        return sum(files.restore_bytes for files in self._files())

    def snapshot(self) -> int:
        """How many batches the newest snapshot holds that all shards have; 0: there is none."""
        found = [files.snapshots() for files in self._files()]
        return min((one[-1].version if one else 0 for one in found), default=0)

    def _files(self) -> list[StateFiles]:
        found = []
        for child in self.log.carriers("count"):
            home = self.log.store.below(self.log.layout.checkpoints(child.unit))
            files = StateFiles(home.below(home.checkpoints("")[-1]))
            files.scan()
            found.append(files)
        return found


if __name__ == "__main__":
    raise SystemExit(main())
