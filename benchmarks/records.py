"""What the records of a batch cost, in this edition and in an earlier one, side by side in one run.

    python -m benchmarks.records [--base 06a8f65] [--batches 200] [--rounds 3] [--json FILE]

A generated source and one exporter per boundary run as threads on a folder, as they do in a node,
each version from its own sources, in turn. What they ask of the file system is counted by Python's
own audit events, whichever code asks: records put (hard links), files opened, folders listed,
syncs, removals; besides, processor time. All of it is per batch delivered, waiting included (the
first edition looks every 10 ms, this one is woken). The data files are the same in both. Exit 1 if
this version puts or syncs more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from benchmarks.versions import HERE, run_in, unpack

COMMON = """
import json, os, sys, tempfile, threading, time
from collections import Counter
from pathlib import Path
boundaries, batches = int(sys.argv[1]), int(sys.argv[2])
COUNTED = {"open": "files opened", "os.link": "records put", "os.listdir": "folders listed",
           "os.scandir": "folders listed", "os.remove": "removals"}
count = Counter()
def hear(event, args):
    if event in COUNTED:
        count[COUNTED[event]] += 1
sync = os.fsync
def fsync(file):
    count["syncs"] += 1
    sync(file)
os.fsync = fsync
EPOCH_S, EARLY = 0.05, 20
delivered = Counter()
def measure(units, sinks):
    for unit in units:
        unit.start()
    def wait(number):
        # Asking a unit for its status costs files as well, so its sinks are counted.
        while len(delivered) < len(sinks) or min(delivered.values()) < number:
            assert all(unit._thread.is_alive() for unit in units), [u.status() for u in units]
            time.sleep(0.01)
    wait(EARLY)
    before, cpu, first = Counter(count), time.process_time(), min(delivered.values())
    wait(EARLY + batches)
    done = min(delivered.values()) - first
    found = {name: (count[name] - before[name]) / done for name in sorted(count)}
    found["cpu ms"] = 1e3 * (time.process_time() - cpu) / done
    for unit in units:
        unit.stop()
    for unit in units:
        unit.join(5.0)
    print("RESULT " + json.dumps(found))
def deliver(rows, batch):
    delivered[batch.rpartition("-")[0]] += 1
keys = [("value",), ("ts",), ("value", "ts")][:boundaries]
"""
FIRST = """
from holdfast.model.deployment import Boundary, Deployment, Segment, UnitId
from holdfast.pipeline import Rate
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.trim import Trimmer
from holdfast.runtime.spark.exporters import ExporterUnit, FunctionDelivery
from holdfast.runtime.spark.sources import GeneratedRows, SourceUnit
from holdfast.runtime.spark.threads import UnitContext
def context(root, deployment, name):
    log, unit = SliceLog(root), UnitId(segment=name)
    log.claim(str(unit), 0)
    trimmer = Trimmer(log=log, deployment=deployment)
    return UnitContext(unit=unit, generation=0, segment=deployment.segment(name),
                       deployment=deployment, log=log, trimmer=trimmer, crash=Crash())
def delivery(context):
    return FunctionDelivery(context.name, deliver, lambda rows: rows)
def generated(source):
    return GeneratedRows(source=source, epoch_s=EPOCH_S, shard=0, shards=1)
"""
SECOND = """
from holdfast.deployment import Boundary, Deployment, Segment, UnitId
from holdfast.pipeline import Rate
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.trim import Trimmer
from holdfast.runtime.log.watch import NodeWatch
from holdfast.runtime.log.wiring import begin
from holdfast.storage import open_storage
from holdfast.runtime.units.exporters import ExporterUnit, FunctionDelivery
from holdfast.runtime.units.places import Life
from holdfast.runtime.units.sources import GeneratedRows, SourceUnit
from holdfast.runtime.units.threads import UnitContext
watch = NodeWatch()
watch.start()
def context(root, deployment, name):
    log = SliceLog(root, open_storage(root, told=watch.told))
    unit = UnitId(segment=name)
    begin(log, deployment)
    log.claim(str(unit), 0)
    return UnitContext(unit=unit, generation=0, segment=deployment.segment(name),
                       deployment=deployment, log=log, trimmer=Trimmer(log, deployment),
                       crash=Crash(), watch=watch)
def delivery(context):
    life = Life(sink=context.segment.name, id=context.log.life(context.name))
    return FunctionDelivery(life, deliver, lambda rows: rows)
def generated(source):
    return GeneratedRows(source=source, epoch_s=EPOCH_S)
"""
RUN = """
source = Rate(rows_per_second=200)
outputs = tuple(Boundary(operator="a", key=key) for key in keys)
sinks = [Segment(name=f"x{i}", kind="exporter", operators=(f"x{i}",), inputs=(item.name,))
         for i, item in enumerate(outputs)]
first = Segment(name="a", kind="source", operators=("a",), outputs=outputs)
deployment = Deployment(pipeline="p", epoch_s=EPOCH_S, fingerprints={}, segments=(first, *sinks))
with tempfile.TemporaryDirectory() as root:
    rows = generated(source)
    schema = source.table(0, epoch_s=EPOCH_S).schema
    made = [SourceUnit(context(root, deployment, "a"), rows, event_time=None)]
    for item in sinks:
        where = context(root, deployment, item.name)
        made.append(ExporterUnit(where, delivery(where), schema))
    sys.addaudithook(hear)
    measure(made, made[1:])
"""
EDITIONS = {"base": FIRST, "this": SECOND}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", default="06a8f65", help="revision of the first edition")
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round of 60 batches")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.batches = 1, 60
    found: dict[tuple[int, str, str], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="holdfast-base-") as base:
        unpack(args.base, base)
        trees = {"base": Path(base), "this": HERE}
        for turn in range(args.rounds):
            for boundaries in (1, 3):
                for edition in ("base", "this") if turn % 2 == 0 else ("this", "base"):
                    told = _measure(trees[edition], EDITIONS[edition], boundaries, args.batches)
                    for name, value in told.items():
                        found[boundaries, name, edition].append(value)
    rows, worse = [], False
    print(f"{'boundaries':12}{'per batch':18}{'base':>9}{'this':>9}{'ratio':>8}")
    for boundaries, name in sorted({key[:2] for key in found}):
        was, now = (
            statistics.median(found.get((boundaries, name, edition), [0.0]))
            for edition in ("base", "this")
        )
        ratio = now / was if was else 0.0
        print(f"{boundaries:<12}{name:18}{was:9.2f}{now:9.2f}{ratio:8.2f}")
        rows.append({"boundaries": boundaries, "what": name, "base": was, "this": now})
        worse |= name in ("records put", "syncs") and now > 1.05 * was
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    if args.json:
        args.json.write_text(json.dumps({"base": args.base, "rows": rows}, indent=1) + "\n")
    return 1 if worse else 0


def _measure(tree: Path, edition: str, boundaries: int, batches: int) -> dict[str, float]:
    found, why = run_in(tree, COMMON + edition + RUN, str(boundaries), str(batches))
    if found is None:
        raise SystemExit(why)
    told: dict[str, float] = found
    return told


if __name__ == "__main__":
    sys.exit(main())
