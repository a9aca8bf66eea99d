"""Promises on pipelines that nobody tuned for: profile, plan, prove, and how far off they were.

    python -m benchmarks.promises --folder out/promises --seeds 101-110 --examples --steps 1

Each pipeline goes through three steps: `profile`, `plan --method joint`, `prove` with kills. Every
step leaves a file in the pipeline's folder, so predictions are fixed before anything is killed, and
one that was ended goes on where it was; `--steps N` does so many steps and ends, for those
whose machine is seldom free. What has been proved is summed up each time, and kept by --json:

    within 25% (50%)   segments whose predicted median misses the measured one by no more
    broken             recoveries beyond the predicted 95th percentile, of all
    p95                predicted over measured 95th percentile, mean over segments

The bars: nine segments in ten within 25% and all within 50%, one recovery in twenty broken, 1.5.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.testing.random_pipelines import app_text

EXAMPLES = Path(__file__).parents[1] / "examples"
SHIPPED = ("word_count", "distinct_count", "sessions", "loyalty", "top_k", "traffic", "fan_out")
MAX_LATENCY = "4s"
STEP_LIMIT_S = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One pipeline and its folder."""

    name: str
    app: Path
    folder: Path

    @property
    def steps(self) -> list[tuple[Path, list[str]]]:
        """What each step leaves behind, and the command that makes it."""
        stats, plan = self.folder / "stats.yaml", self.folder / "plan.json"
        proof = self.folder / "proof.json"
        app = str(self.app)
        planned = ["plan", app, "--stats", str(stats), "--method", "joint", "--json"]
        return [
            (stats, ["profile", app, "--quick", "--json", "--out", str(stats)]),
            (plan, [*planned, "--max-latency", MAX_LATENCY, "--max-replicas", "0"]),
            (proof, ["prove", app, "--plan", str(plan), "--json", "--run-dir", "RUN"]),
        ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one generated pipeline, 2 kills")
    parser.add_argument("--folder", type=Path, default=Path("out/promises"))
    parser.add_argument("--seeds", default="", help="FIRST-LAST, generated pipelines")
    parser.add_argument("--examples", action="store_true", help="the shipped examples too")
    parser.add_argument("--faults", type=int, default=8, help="kills per pipeline")
    parser.add_argument("--steps", type=int, help="so many steps at most; default: all")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    seeds = "101-101" if args.quick and not args.seeds else args.seeds
    faults = 2 if args.quick else args.faults
    subjects = list(make_subjects(args.folder, seeds, examples=args.examples))
    left = sys.maxsize if args.steps is None else args.steps
    for subject in subjects:
        for made, command in subject.steps:
            if made.exists():
                continue
            if left <= 0:
                break
            left -= 1
            if not take(subject, made, command, faults):
                break
    found = [read(subject) for subject in subjects if (subject.folder / "proof.json").exists()]
    whole = summary(found)
    show(found, whole)
    if args.json:
        args.json.write_text(json.dumps({"pipelines": found, "summary": whole}, indent=1) + "\n")
    return 0


def make_subjects(folder: Path, seeds: str, *, examples: bool) -> Iterable[Subject]:
    """The pipelines asked for, generated ones first."""
    if seeds:
        first, _, last = seeds.partition("-")
        for seed in range(int(first), int(last or first) + 1):
            home = folder / f"random-{seed}"
            home.mkdir(parents=True, exist_ok=True)
            app = home / "app.py"
            app.write_text(app_text(seed), encoding="utf-8")
            yield Subject(name=home.name, app=app.resolve(), folder=home.resolve())
    for name in SHIPPED if examples else ():
        home = folder / name
        home.mkdir(parents=True, exist_ok=True)
        yield Subject(name=name, app=EXAMPLES / f"{name}.py", folder=home.resolve())


def take(subject: Subject, made: Path, command: Sequence[str], faults: int) -> bool:
    """One step; False if it failed, which is said and tried again next time."""
    run_dir = subject.folder / f"run-{int(time.time())}"
    given = [str(run_dir) if word == "RUN" else word for word in command]
    if command[0] == "prove":
        given += ["--faults", str(faults)]
    began = time.monotonic()
    log = subject.folder / f"{command[0]}.log"
    with log.open("a", encoding="utf-8") as errors:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *given],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            timeout=STEP_LIMIT_S,
            check=False,
        )
    seconds = time.monotonic() - began
    # A proof that a bound was broken in is a result (exit 1), and so is a plan that is infeasible.
    good = bool(done.stdout.strip()) and done.returncode in (0, 1)
    print(
        f"{subject.name}: {command[0]} took {seconds:.0f} s, load {os.getloadavg()[0]:.1f}"
        + ("" if good else f"; failed, see {log}"),
        file=sys.stderr,
        flush=True,
    )
    if good:
        made.write_text(done.stdout, encoding="utf-8")
    return good


def read(subject: Subject) -> dict[str, Any]:
    """What was promised and measured of one pipeline."""
    proof = json.loads((subject.folder / "proof.json").read_text(encoding="utf-8"))
    rows = [
        {
            "segment": item["segment"],
            "predicted": item["predicted"]["median"],
            "measured": item["measured"]["median"],
            "predicted_p95": item["predicted"]["p95"],
            "measured_p95": item["measured"]["p95"],
            "n": item["measured"]["n"],
            "broken": item["broken"],
            "error": item["error"],
            "phases": {
                "predicted": item["predicted"]["phases"],
                "measured": item["measured"]["phases"],
            },
        }
        for item in (*proof["segments"], proof["results"])
        if item["measured"]["n"]
    ]
    return {
        "name": subject.name,
        "exact": proof["exact"],
        "note": proof["note"],
        "segments": rows[:-1],
        "results": rows[-1] if rows else None,
    }


def summary(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The bars' numbers over all segments of all pipelines."""
    rows = [row for one in found for row in one["segments"]]
    known = [row for row in rows if row["error"] is not None]
    ratios = [
        row["predicted_p95"] / row["measured_p95"]
        for row in rows
        if row["predicted_p95"] and row["measured_p95"]
    ]
    recoveries = sum(row["n"] for row in rows)
    return {
        "pipelines": len(found),
        "exact": sum(one["exact"] for one in found),
        "segments": len(rows),
        "recoveries": recoveries,
        "within_25": _share(sum(abs(row["error"]) <= 0.25 for row in known), len(known)),
        "within_50": _share(sum(abs(row["error"]) <= 0.50 for row in known), len(known)),
        "broken": _share(sum(row["broken"] for row in rows), recoveries),
        "p95_ratio": sum(ratios) / len(ratios) if ratios else None,
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def show(found: Sequence[dict[str, Any]], whole: dict[str, Any]) -> None:
    """Print every segment, then the bars' numbers."""
    print(f"{'pipeline':16}{'segment':24}{'n':>4}{'predicted':>16}{'measured':>16}{'error':>8}")
    for one in found:
        rows = [*one["segments"], *([one["results"]] if one["results"] else [])]
        for row in rows:
            told = f"{_s(row['predicted'])} / {_s(row['predicted_p95'])}"
            seen = f"{_s(row['measured'])} / {_s(row['measured_p95'])}"
            error = "-" if row["error"] is None else f"{row['error']:+.0%}"
            broken = f"  {row['broken']} beyond the predicted p95" if row["broken"] else ""
            print(
                f"{one['name']:16}{row['segment'][:23]:24}{row['n']:4}{told:>16}{seen:>16}"
                f"{error:>8}{broken}"
            )
        if not one["exact"]:
            print(f"{one['name']:16}NOT EXACT {one['note']}")
    for name, value in whole.items():
        text = "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
        print(f"{name:16}{text}")


def _s(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    sys.exit(main())
