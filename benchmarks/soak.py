"""Whether anything grows while the word count runs: memory, slices, checkpoints, journal.

Runs an application for a while (ten minutes by default) and samples, every few seconds, the memory
of the node's Java virtual machine and of all its processes, and the number and bytes of every kind
of file in the run directory. Something grows if its upper quartile in the last third of the time is
a tenth above that in the middle third, and by more than its slack; saw teeth of trimming do not
count. Memory is compared by medians, for a process that forks counts twice for a moment. Old state
is removed every ten seconds and in batches, so checkpoints are not judged below five minutes.
Results, rows put aside for good and logs (rotated at 4 MB each) grow by nature and are only shown.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks._stream_common import end_on_terminate, scratch
from holdfast.control.shell.wire import ConnectionLostError
from holdfast.health.policy import Policy
from holdfast.pipeline import deploy, load_pipeline
from holdfast.quantities import parse_time
from holdfast.rundir.spec import RunSpec
from holdfast.runtime.launch.local import LaunchSettings
from holdfast.runtime.launch.run import LocalRun, all_running
from holdfast.runtime.node.processes import session_members
from holdfast.runtime.spark.start.archive import ensure_archive

JVM_BAR_MB = 900.0
MB = 1024 * 1024
APP = Path(__file__).resolve().parent.parent / "examples" / "word_count.py"
BY_NATURE = frozenset({"results", "late rows", "dead rows", "logs"})
GROWTH = 1.1
CHECKPOINTS_S = 300.0
"""Several rounds of state maintenance must fit into each third."""
SLACK_FILES, SLACK_MB, SLACK_MEMORY_MB = 8.0, 0.05, 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What there was at one time."""

    at_s: float
    epoch: int
    jvm_mb: float
    total_mb: float
    processes: int
    files: dict[str, int] = field(default_factory=dict)
    """Number of files by kind."""
    bytes: dict[str, int] = field(default_factory=dict)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--for", dest="duration", help="how long, such as 10m")
    parser.add_argument("--quick", action="store_true", help="60 s")
    parser.add_argument("--app", default=str(APP))
    parser.add_argument("--cut", action="append", help="operator to cut after, or all")
    parser.add_argument("--epoch", default="500ms", help="twice the pace of the example")
    parser.add_argument("--memory-mb", type=int, default=512, help="heap of the node")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    end_on_terminate()
    seconds = parse_time(args.duration or ("60s" if args.quick else "10m"), where="--for")
    cuts: Any = "all" if args.cut == ["all"] else args.cut or "none"
    ensure_archive()
    epoch_s = parse_time(args.epoch, where="--epoch")
    spec = RunSpec(
        app=args.app,
        host="spark",
        deployment=deploy(load_pipeline(args.app), cuts=cuts, epoch_s=epoch_s),
        policy=Policy(workers=1),
        options={"memory_mb": args.memory_mb},
    )
    samples = soak(spec, seconds)
    rows = growth(samples)
    peak = max(sample.jvm_mb for sample in samples)
    grows = [row["what"] for row in rows if row["grows"] and not row["by_nature"]]
    _print_growth(rows)
    print(
        f"\nJVM at most {peak:.0f} MB; with Python workers "
        f"{statistics.median(sample.total_mb for sample in samples):.0f} MB (median) in "
        f"{max(sample.processes for sample in samples)} processes"
    )
    print(f"bar of {JVM_BAR_MB:.0f} MB: {'met' if peak < JVM_BAR_MB else 'missed'}")
    print(f"grows: {', '.join(grows) or 'nothing'}")
    if args.json:
        result = {
            "seconds": seconds,
            "epochs": samples[-1].epoch - samples[0].epoch,
            "jvm_peak_mb": peak,
            "met": peak < JVM_BAR_MB,
            "grows": grows,
            "growth": rows,
            "samples": [
                {name: getattr(sample, name) for name in Sample.__slots__} for sample in samples
            ],
        }
        args.json.write_text(json.dumps(result, indent=1) + "\n")


def soak(spec: RunSpec, seconds: float) -> list[Sample]:
    """Run for a while and look at it again and again."""
    every_s = max(1.0, min(5.0, seconds / 60))
    samples: list[Sample] = []
    print(
        f"{'s':>6}{'epoch':>7}{'JVM MB':>8}{'all MB':>8}{'slices':>8}{'slice KB':>10}"
        f"{'ckpt files':>12}{'ckpt KB':>9}{'journal KB':>12}",
        flush=True,
    )
    with scratch() as root, LocalRun(root / "run", spec, LaunchSettings(nodes=1)) as run:
        run.wait_for(all_running, 180.0, "all units running")
        start = time.monotonic()
        while (at_s := time.monotonic() - start) < seconds:
            try:
                samples.append(look(run, at_s))
            except ConnectionLostError:
                continue
            if len(samples) % 6 == 1:
                _print_sample(samples[-1])
            time.sleep(max(0.0, start + at_s + every_s - time.monotonic()))
    return samples


def look(run: LocalRun, at_s: float) -> Sample:
    """One sample of processes and files."""
    view = run.status()
    jvm, total, processes = 0.0, 0.0, 0
    for node in view.nodes:
        for pid in session_members(node.pid):
            try:
                process = psutil.Process(pid)
                rss, name = process.memory_info().rss / MB, process.name()
            except psutil.Error:
                continue
            total += rss
            processes += 1
            jvm = max(jvm, rss if name == "java" else 0.0)
    files: dict[str, int] = defaultdict(int)
    sizes: dict[str, int] = defaultdict(int)
    for folder, _, names in os.walk(run.run_dir):
        for name in names:
            path = Path(folder) / name
            kind = kind_of(path.relative_to(run.run_dir).parts)
            try:
                sizes[kind] += path.stat().st_size
            except FileNotFoundError:
                continue
            files[kind] += 1
    return Sample(
        at_s=at_s,
        epoch=min(unit.epoch or 0 for unit in view.units),
        jvm_mb=jvm,
        total_mb=total,
        processes=processes,
        files=dict(files),
        bytes=dict(sizes),
    )


def kind_of(parts: tuple[str, ...]) -> str:
    """What a file of a run directory is, in the words of the slice log."""
    match parts:
        case ("units", _, "slices", *_):
            return "slice records"
        case ("units", _, "data", *_):
            return "slice data"
        case ("units", _, "late", *_):
            return "late rows"
        case ("units", _, "dead", *_):
            return "dead rows"
        case ("units", _, folder, *_):
            return folder
        case ("coordinator", name, *_) if name.startswith("journal"):
            return "journal"
        case ("coordinator" | "nodes", *_):
            return "logs"
        case ("checkpoints", *_):
            return "checkpoints"
        case ("out", *_):
            return "results"
        case _:
            return "other"


def growth(samples: list[Sample]) -> list[dict[str, Any]]:
    """Middle third against last third, for everything that was sampled."""
    third = samples[-1].at_s / 3
    middle = [sample for sample in samples if third <= sample.at_s < 2 * third]
    last = [sample for sample in samples if sample.at_s >= 2 * third]
    rows = []

    def compare(what: str, unit: str, before: float, after: float, slack: float) -> None:
        grows = after > before * GROWTH and after - before > slack
        short = what == "checkpoints" and samples[-1].at_s < CHECKPOINTS_S * 0.95
        nature = what in BY_NATURE
        rows.append(
            {
                "what": what,
                "unit": unit,
                "middle": before,
                "last": after,
                "grows": grows and not short,
                "too_short": short,
                "by_nature": nature,
            }
        )

    for name in ("jvm_mb", "total_mb"):
        before, after = (
            statistics.median(getattr(one, name) for one in part) for part in (middle, last)
        )
        compare(name.removesuffix("_mb") + " memory", "MB", before, after, SLACK_MEMORY_MB)
    for kind in sorted({kind for sample in samples for kind in sample.files}):
        before, after = (
            _upper([one.files.get(kind, 0) for one in part]) for part in (middle, last)
        )
        compare(kind, "files", before, after, SLACK_FILES)
        before, after = (
            _upper([one.bytes.get(kind, 0) / MB for one in part]) for part in (middle, last)
        )
        compare(kind, "MB", before, after, SLACK_MB)
    return rows


def _upper(values: list[float]) -> float:
    """The upper quartile."""
    return statistics.quantiles(values, n=4, method="inclusive")[2] if values[1:] else values[0]


def _print_sample(sample: Sample) -> None:
    slices = sample.files.get("slice records", 0)
    size = sample.bytes.get("slice records", 0) + sample.bytes.get("slice data", 0)
    print(
        f"{sample.at_s:6.0f}{sample.epoch:7}{sample.jvm_mb:8.0f}{sample.total_mb:8.0f}"
        f"{slices:8}{size / 1024:10.0f}{sample.files.get('checkpoints', 0):12}"
        f"{sample.bytes.get('checkpoints', 0) / 1024:9.0f}"
        f"{sample.bytes.get('journal', 0) / 1024:12.0f}",
        flush=True,
    )


def _print_growth(rows: list[dict[str, Any]]) -> None:
    print(f"\n{'upper quartile of':22}{'middle third':>14}{'last third':>12}")
    for row in rows:
        says = "grows" if row["grows"] else ""
        says = "too short to tell" if row["too_short"] else says
        says += ", by its nature" if row["grows"] and row["by_nature"] else ""
        form = ".0f" if row["unit"] == "files" else ".2f"
        print(
            f"{row['what'] + ', ' + row['unit']:22}{row['middle']:14{form}}"
            f"{row['last']:12{form}}  {says}"
        )


if __name__ == "__main__":
    main()
