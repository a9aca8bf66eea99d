"""Planning after a pause: what the next batch of a unit that is far behind should read.

A boundary with two shards and a slice a second; the unit comes back after a quarter of an hour, an
hour, three hours. Processor time; reading the records from disk is part of the planning. Compared
with choosing by definition: read all there is, add up all rows for every end a batch could have.

    python -m benchmarks.catch_up [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from holdfast.deployment.slicefiles import GroupPart, SliceFile
from holdfast.rundir.layout import member, record_folder
from holdfast.runtime.log.batching import Batching
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import begin_alone
from holdfast.streams.codec import encode
from holdfast.streams.records import Slice
from holdfast.streams.steps import slices as slices_of
from holdfast.streams.unit import Position, RunBatch

SHARDS = 2
UNITS = [f"b.0#{shard}" for shard in range(SHARDS)]
UNIT = "u.0#0"
HOUR = 3600
BAR_S = 1.0
"""An hour behind, one batch must be planned in this time."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less behind")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    sizes = (450, 900) if args.quick else (900, HOUR, 3 * HOUR)
    rows: list[dict[str, float | None]] = []
    print(
        f"{'behind':>8} {'groups':>7} {'first batch':>12} {'all batches':>12} {'by definition':>14}"
    )
    for slices in sizes:
        for groups in (1, 128):
            with tempfile.TemporaryDirectory() as folder:
                log = _publish(Path(folder), slices, groups)
                row = _measure(log, slices, groups)
            rows.append(row)
            slow_s = row["by_definition_s"]
            print(
                f"{slices:>7}s {groups:>7} {row['first_s']:>10.3f} s {row['all_s']:>10.3f} s "
                f"{'-' if slow_s is None else f'{slow_s:.2f} s':>14}   ({row['batches']} batches)",
                flush=True,
            )
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    slow = [row for row in rows if row["slices"] == HOUR and (row["first_s"] or 0.0) > BAR_S]
    if slow:
        print(f"above the bar of {BAR_S:.0f} s")
    return 1 if slow else 0


def _publish(root: Path, slices: int, groups: int) -> SliceLog:
    log = SliceLog(root)
    begin_alone(log, "b", shards=SHARDS)
    begin_alone(log, "u")
    for unit in UNITS:
        folder = root / record_folder(slices_of(unit))
        folder.mkdir(parents=True)
        for number in range(slices):
            parts = tuple(
                GroupPart(
                    group=group,
                    rows=2,
                    offset=1000 * group,
                    size=900,
                    crc=4_000_000_000 + group,
                    digest=18_000_000_000_000_000_000 - group,
                )
                for group in range(groups)
            )
            file = SliceFile(
                name=f"{number:010d}-g0-01234567.arrow",
                schema_size=200,
                schema_crc=3_000_000_000,
                parts=parts,
            )
            record = Slice(
                unit=unit,
                number=number,
                after=number - 1,
                upto=number,
                files={"b": (file,)},
                rows=2 * groups,
                watermark_us=number * 1_000_000,
                writer="0123456789abcdef" * 2,
            )
            # No sync: what is measured is reading.
            (root / member(record_folder(slices_of(unit)), number)).write_bytes(encode(record))
    return log


def _measure(log: SliceLog, slices: int, groups: int) -> dict[str, float | None]:
    batching = Batching()
    start = time.process_time()
    steps, position, batches, first_s = log.steps(), Position(batch=0, after=-1), 0, 0.0
    while True:
        step = log.run(
            steps.next_step(UNIT, position, ("b",), batching.propose, reach=batching.reach)
        )
        if not isinstance(step, RunBatch):
            break
        first_s = first_s or time.process_time() - start
        log.run(steps.read("b", step.range.after, step.range.upto))
        batches, position = batches + 1, step.done
    all_s = time.process_time() - start
    if position.after != slices - 1:
        raise AssertionError(f"caught up to {position.after} of {slices - 1}")
    by_definition_s = None
    if slices <= (HOUR if groups == 1 else HOUR // 4):  # it takes minutes beyond
        start = time.process_time()
        _first_by_definition(log, batching)
        by_definition_s = time.process_time() - start
    return {
        "slices": slices,
        "groups": groups,
        "first_s": first_s,
        "all_s": all_s,
        "batches": batches,
        "by_definition_s": by_definition_s,
    }


def _first_by_definition(log: SliceLog, batching: Batching) -> int:
    """The first batch, chosen from all that is published; one batch interval an epoch."""
    shards = [list(log.slices_from(unit, 0)) for unit in UNITS]
    ends = sorted(set.intersection(*[{item.upto for item in slices} for slices in shards]))
    candidates: list[tuple[int, int]] = []
    for end in ends:
        rows = sum(item.rows for slices in shards for item in slices if item.upto <= end)
        if candidates and rows > batching.max_rows:
            break
        candidates.append(((end + 1) & -(end + 1), end))
    return max(candidates)[1]


if __name__ == "__main__":
    raise SystemExit(main())
