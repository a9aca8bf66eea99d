"""A unit host without Spark, for tests of everything around it with real processes.

Units are threads that process epochs by the clock. What they keep is in files and follows the
protocol of the real ones: a slice is a record created once, each generation has its own checkpoint,
a takeover clones the newest complete checkpoint below it. A unit's output depends on all it has
seen, so a lost, doubled or misplaced batch shows in `check_output`, which computes the expected
output on its own.

Faults are files: RUN/fake/faults/UNIT with `raise`, `stall`, `work` (a batch that works and does
not end) or `exit` inside makes the unit do so at its next batch, for as long as the file is there;
RUN/fake/faults/open keeps nodes from starting, as does one with `hang` inside, for as long as it
says so, without a word.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from holdfast.control.events import ProbeReport, UnitReport
from holdfast.deployment import Boundary, Deployment, Segment, UnitId
from holdfast.rundir.spec import RunSpec
from holdfast.runtime.units.progress import Progress

POLL_S = 0.01
DEPLOYMENT = Deployment(
    pipeline="fake",
    epoch_s=0.1,
    segments=(
        Segment(name="src", kind="source", operators=("src",), outputs=(Boundary(operator="src"),)),
        Segment(
            name="sum",
            kind="inner",
            operators=("map", "sum"),
            inputs=("src",),
            outputs=(Boundary(operator="sum"),),
            shards=2,
            stateful=True,
        ),
        Segment(name="out", kind="exporter", operators=("out",), inputs=("sum",)),
    ),
    fingerprints={},
)
"""Something to run: a source, a sum in two shards, an exporter; an epoch is a tenth of a second."""


def create(run_dir: Path, node: str, spec: RunSpec) -> FakeUnitHost:
    """The host factory that `--host fake` names."""
    return FakeUnitHost(run_dir=run_dir, node=node, deployment=spec.deployment)


@dataclass(kw_only=True)
class _Worker:
    progress: Progress
    thread: threading.Thread
    stop: threading.Event = field(default_factory=threading.Event)


class FakeUnitHost:
    """Runs units as threads; implements `holdfast.runtime.host.UnitHost`."""

    def __init__(self, *, run_dir: Path, node: str, deployment: Deployment) -> None:
        self._files = _Files(run_dir)
        self._node = node
        self._deployment = deployment
        self._workers: dict[UnitId, _Worker] = {}
        self._probes: dict[tuple[str, str], ProbeReport] = {}
        self._lock = threading.Lock()

    def start(self, unit: UnitId, generation: int, clone_from: int | None) -> None:
        self.stop(unit)
        thread = threading.Thread(
            target=self._run, args=(unit, generation, clone_from), name=str(unit), daemon=True
        )
        with self._lock:
            self._workers[unit] = _Worker(progress=Progress(unit, generation), thread=thread)
        thread.start()

    def stop(self, unit: UnitId) -> None:
        worker = self._workers.get(unit)
        if worker is not None:
            worker.stop.set()

    def poll(self) -> list[UnitReport]:
        with self._lock:
            return [worker.progress.report for worker in self._workers.values()]

    def probe(self, split: str, path: str, probe: int, share: float) -> None:
        """Good unless RUN/fake/faults/SPLIT:PATH says otherwise."""
        del share
        fault = self._files.fault(f"{split}:{path}")
        with self._lock:
            self._probes[split, path] = ProbeReport(
                split=split,
                path=path,
                probe=probe,
                state="bad" if fault else "good",
                why=fault or "",
            )

    def end_probe(self, split: str, path: str, probe: int) -> None:
        del probe
        with self._lock:
            self._probes.pop((split, path), None)

    def probes(self) -> list[ProbeReport]:
        with self._lock:
            return list(self._probes.values())

    def open(self) -> None:
        """Fails or hangs if asked to, like a session that cannot start."""
        while self._files.fault("open") == "hang":
            time.sleep(POLL_S)
        if self._files.fault_path("open").exists():
            raise OSError(f"{self._node} finds no session")

    def warm(self) -> None:
        """There is nothing to warm; hangs if asked to, like an endless rehearsal."""
        self.open()
        while self._files.fault("warm") == "hang":
            time.sleep(POLL_S)

    def close(self) -> None:
        with self._lock:
            workers = list(self._workers.values())
        for worker in workers:
            worker.stop.set()
        for worker in workers:
            worker.thread.join(timeout=5.0)

    def _run(self, unit: UnitId, generation: int, clone_from: int | None) -> None:
        worker = self._workers[unit]
        segment = self._deployment.segment(unit.segment)

        tell = worker.progress.tell
        try:
            done, total = self._files.open_checkpoint(unit, generation, clone_from)
            end = self._files.log_end(unit, done)
            tell(state="running", batch=end, epoch=end)
            rows = 0
            while not worker.stop.is_set():
                due = self._due(segment)
                tell(waiting=max(0, due - done))
                if due <= done:
                    worker.stop.wait(POLL_S)
                    continue
                started = time.monotonic()
                self._fault(unit, worker.stop, lambda: tell(work=worker.progress.report.work + 1))
                epoch = done + 1
                value = self._files.read_inputs(self._deployment, segment, unit.shard, epoch)
                total += value
                self._files.publish(unit, epoch, output(value, total), generation)
                done = epoch
                self._files.commit(unit, generation, done, total)
                rows += 1
                end = max(end, done)
                tell(
                    batch=end,
                    epoch=end,
                    rows_in=rows,
                    rows_out=rows,
                    batch_ms=(time.monotonic() - started) * 1000.0,
                    state_bytes=8,
                )
            tell(state="stopped")
        except Exception:  # noqa: BLE001
            tell(state="failed", operator=segment.operators[-1], error=traceback.format_exc())

    def _due(self, segment: Segment) -> int:
        """The last epoch that can be processed."""
        if not segment.inputs:
            since = time.time() - self._files.birth()
            return int(since / self._deployment.epoch_s) - 1
        ends = [
            self._files.cached_end(UnitId(segment=producer.name, shard=shard))
            for producer in map(self._deployment.producer, segment.inputs)
            for shard in range(producer.shards)
        ]
        return min(ends)

    def _fault(self, unit: UnitId, stop: threading.Event, work: Callable[[], object]) -> None:
        match self._files.fault(unit):
            case "raise":
                raise ValueError(f"poisoned record in {unit}")
            case "stall":
                while self._files.fault(unit) == "stall" and not stop.wait(POLL_S):
                    pass
            case "work":
                while self._files.fault(unit) == "work" and not stop.wait(POLL_S):
                    work()
            case "exit":
                os._exit(70)
            case _:
                pass


def source_value(epoch: int, shard: int) -> int:
    return (epoch * 7 + shard * 13) % 101


def output(value: int, total: int) -> int:
    """Depends on all the unit has seen, so that a wrong state cannot hide."""
    return value + total % 1009


def check_output(run_dir: Path, deployment: Deployment) -> list[str]:
    """What is wrong with the output of all units, computed anew; empty: exactly once."""
    files = _Files(run_dir)
    expected: dict[tuple[str, int], list[int]] = {}
    wrong: list[str] = []
    for segment in deployment.segments:
        for shard in range(segment.shards):
            unit = UnitId(segment=segment.name, shard=shard)
            found = files.outputs(unit)
            inputs = [
                expected[producer.name, input_shard]
                for producer in map(deployment.producer, segment.inputs)
                for input_shard in range(producer.shards)
            ]
            total, values = 0, []
            for epoch in range(len(found)):
                if inputs and any(len(values_in) <= epoch for values_in in inputs):
                    wrong.append(f"{unit} published epoch {epoch} before its inputs")
                    break
                value = (
                    sum(column[epoch] for column in inputs)
                    if inputs
                    else source_value(epoch, shard)
                )
                total += value
                values.append(output(value, total))
            expected[segment.name, shard] = values
            wrong += [
                f"{unit} epoch {epoch}: {got}, not {want}"
                for epoch, (want, got) in enumerate(zip(values, found, strict=False))
                if got != want
            ]
            if sorted(files.epochs(unit)) != list(range(len(found))):
                wrong.append(f"{unit} has gaps: {sorted(files.epochs(unit))}")
    return wrong


def set_fault(run_dir: Path, unit: UnitId | Literal["open", "warm"], what: str | None) -> None:
    """Plant a fault of a unit, or of opening a host; take it away with None."""
    path = _Files(run_dir).fault_path(unit)
    if what is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(what, encoding="utf-8")
    temporary.replace(path)


class _Files:
    """Records, checkpoints and faults below RUN/fake."""

    def __init__(self, run_dir: Path) -> None:
        self._root = run_dir / "fake"
        self._ends: dict[UnitId, int] = {}

    def birth(self) -> float:
        """When epoch 0 began; agreed on by whoever asks first."""
        path = self._root / "birth"
        if not path.exists():
            self._put(path, json.dumps(time.time()))
        return float(json.loads(path.read_text(encoding="utf-8")))

    def log_end(self, unit: UnitId, start: int) -> int:
        end = start
        while self._slice(unit, end + 1).exists():
            end += 1
        return end

    def cached_end(self, unit: UnitId) -> int:
        """The log's end, searched from where it was last seen."""
        self._ends[unit] = self.log_end(unit, self._ends.get(unit, -1))
        return self._ends[unit]

    def outputs(self, unit: UnitId) -> list[int]:
        end = self.log_end(unit, -1)
        return [self._value(unit, epoch) for epoch in range(end + 1)]

    def epochs(self, unit: UnitId) -> list[int]:
        folder = self._slice(unit, 0).parent
        names = os.listdir(folder) if folder.exists() else []  # noqa: PTH208
        return [int(name.removesuffix(".json")) for name in names if not name.startswith(".")]

    def read_inputs(self, deployment: Deployment, segment: Segment, shard: int, epoch: int) -> int:
        if not segment.inputs:
            return source_value(epoch, shard)
        return sum(
            self._value(UnitId(segment=producer.name, shard=other), epoch)
            for producer in map(deployment.producer, segment.inputs)
            for other in range(producer.shards)
        )

    def publish(self, unit: UnitId, epoch: int, value: int, generation: int) -> None:
        path = self._slice(unit, epoch)
        self._put(path, json.dumps({"value": value, "generation": generation}))
        if self._value(unit, epoch) != value:
            raise ValueError(f"{unit} is not deterministic at epoch {epoch}")

    def open_checkpoint(
        self, unit: UnitId, generation: int, clone_from: int | None
    ) -> tuple[int, int]:
        """Progress and state to start from: cloned from the newest complete checkpoint."""
        own = self._checkpoint(unit, generation)
        candidates = range(clone_from or 0, 0, -1)
        found = next(
            (path for g in candidates if (path := self._checkpoint(unit, g)).exists()), None
        )
        own.parent.mkdir(parents=True, exist_ok=True)
        if not own.exists() and found is not None:
            temporary = own.with_name(".clone")
            shutil.copyfile(found, temporary)
            temporary.replace(own)
        if not own.exists():
            return -1, 0
        kept = json.loads(own.read_text(encoding="utf-8"))
        return int(kept["epoch"]), int(kept["total"])

    def commit(self, unit: UnitId, generation: int, epoch: int, total: int) -> None:
        path = self._checkpoint(unit, generation)
        temporary = path.with_name(".state")
        temporary.write_text(json.dumps({"epoch": epoch, "total": total}), encoding="utf-8")
        temporary.replace(path)

    def fault_path(self, unit: UnitId | str) -> Path:
        return self._root / "faults" / quote(str(unit))

    def fault(self, unit: UnitId | str) -> str:
        try:
            return self.fault_path(unit).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return ""

    def _slice(self, unit: UnitId, epoch: int) -> Path:
        return self._root / "log" / quote(str(unit)) / f"{epoch}.json"

    def _checkpoint(self, unit: UnitId, generation: int) -> Path:
        return self._root / "checkpoints" / quote(str(unit)) / str(generation) / "state.json"

    def _value(self, unit: UnitId, epoch: int) -> int:
        return int(json.loads(self._slice(unit, epoch).read_text(encoding="utf-8"))["value"])

    def _put(self, path: Path, text: str) -> None:
        """Create a file whole, or leave what is there."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        temporary.write_text(text, encoding="utf-8")
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
