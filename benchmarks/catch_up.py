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

from holdfast.deployment.records import GroupPart, RangeRecord, SliceFile, SliceRecord, encode
from holdfast.rundir.layout import member
from holdfast.runtime.log.backlog import Backlog
from holdfast.runtime.log.protocol import Batching, next_range
from holdfast.runtime.log.slicelog import SliceLog

SHARDS = 2
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
    for shard in range(SHARDS):
        folder = root / log.layout.slices("b", shard)
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
            record = SliceRecord(
                boundary="b",
                shard=shard,
                number=number,
                after=number - 1,
                upto=number,
                files=(file,),
                watermark_us=number * 1_000_000,
                writer="0123456789abcdef" * 2,
            )
            # No sync: what is measured is reading.
            path = root / member(log.layout.slices("b", shard), number)
            path.write_bytes(encode(record))
    return log


def _measure(log: SliceLog, slices: int, groups: int) -> dict[str, float | None]:
    batching = Batching()
    start = time.process_time()
    backlog = Backlog(log, {"b": SHARDS})
    record = next_range(None, backlog.after(None), batching, unit="u.0#0")
    first_s = time.process_time() - start
    batches = 0
    while record is not None:
        batches, last = batches + 1, record
        record = next_range(last, backlog.after(last), batching, unit="u.0#0")
    all_s = time.process_time() - start
    if last.upto != slices - 1:
        raise AssertionError(f"caught up to {last.upto} of {slices - 1}")
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


def _first_by_definition(log: SliceLog, batching: Batching) -> RangeRecord:
    """The first batch, chosen from all that is published; one batch interval an epoch."""
    shards = [list(log.slices_from("b", shard, 0)) for shard in range(SHARDS)]
    ends = sorted(set.intersection(*[{item.upto for item in slices} for slices in shards]))
    candidates: list[tuple[int, int]] = []
    for end in ends:
        rows = sum(item.rows for slices in shards for item in slices if item.upto <= end)
        if candidates and rows > batching.max_rows:
            break
        candidates.append(((end + 1) & -(end + 1), end))
    upto = max(candidates)[1]
    taken = tuple(sum(item.upto <= upto for item in slices) for slices in shards)
    return RangeRecord(unit="u.0#0", number=0, after=-1, upto=upto, inputs={"b": taken})


if __name__ == "__main__":
    raise SystemExit(main())
