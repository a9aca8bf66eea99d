"""Carry out a schedule of faults against a running pipeline.

The injector knows a run only through `FaultyRun`, what `LocalRun` offers, and its files. It ends
what it began: a suspended node is woken, a torn file mended, a full disk freed, also when the
schedule is interrupted, so that a run can always be stopped cleanly afterwards.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from holdfast.clock import Clock
from holdfast.control.status import RunView
from holdfast.deployment import UnitId
from holdfast.errors import BadInputError, HoldfastError
from holdfast.faults.schedule import ROLE_MARK, Fault, Schedule
from holdfast.pipeline import Files, Pipeline
from holdfast.rundir.application import app_folder
from holdfast.rundir.contents import sabotage_path
from holdfast.rundir.spec import read_spec
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.node.processes import wake_stopped
from holdfast.runtime.rescale import announce, rescale, scalable
from holdfast.verify.slice_log import newest_files

WAIT_S = 0.05
TOGETHER = 2
"""Nodes that a correlated failure takes if it is not said which."""
DEFAULT_AMOUNT = 200.0
"""Milliseconds a row, or megabytes a second, by which a path's functions suffer."""
DAMAGED_SLICES = 3
"""Damage hits one of so many newest slices of a unit."""
FREE_ROUNDS = 20
"""How often the processes of a node are listed for the end of a full disk."""
PATIENCE_S = 20.0
"""How long a fault waits for a target, e.g. while no node runs units, before it is skipped."""


class FaultyRun(Protocol):
    """What the injector asks of a run."""

    @property
    def run_dir(self) -> Path: ...

    def kill_node(self, name: str) -> None: ...

    def kill_nodes(self, names: Iterable[str]) -> None: ...

    def stop_node(self, name: str) -> None: ...

    def cont_node(self, name: str) -> None: ...

    def kill_domain(self, domain: str) -> list[str]: ...

    def kill_coordinator(self) -> int: ...

    def stop_coordinator(self) -> int: ...

    def cont_coordinator(self, pid: int) -> None: ...

    def status(self) -> RunView: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """What happened when a fault's time had come."""

    fault: Fault
    at_s: float
    """Seconds after the run had come up."""
    done: str
    """What was hit; empty if nothing could be."""
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return {**self.fault.to_json(), "at": self.at_s, "done": self.done, "note": self.note}


class Injector:
    """One schedule against one run; call `step` again and again until it says that all is over."""

    def __init__(
        self,
        run: FaultyRun,
        schedule: Schedule,
        clock: Clock,
        *,
        pipeline: Pipeline | None = None,
        processes: Callable[[str], Sequence[int]] = lambda _node: (),
    ) -> None:
        self._run = run
        self._clock = clock
        self._pipeline = pipeline
        self._processes = processes
        """Process ids of a node, for limiting what they may write."""
        self._rng = np.random.default_rng(schedule.seed)
        self._open = list(schedule.faults)
        self._endings: list[tuple[float, Callable[[], None]]] = []
        self._started = clock.now()
        self.history: list[Injected] = []

    def step(self) -> bool:
        """Do what is due; True while something is still to come."""
        now = self._clock.now() - self._started
        for ending in [item for item in self._endings if item[0] <= now]:
            self._endings.remove(ending)
            self._end(ending[1])
        while self._open and self._open[0].at_s <= now:
            fault = self._open[0]
            done = self._try(fault, now)
            if not done and now < fault.at_s + PATIENCE_S:
                break
            self._open.pop(0)
            note = "" if done else "no target was there"
            self.history.append(Injected(fault=fault, at_s=round(now, 3), done=done, note=note))
        return bool(self._open or self._endings)

    def close(self) -> None:
        """End whatever still lasts."""
        for _, end in self._endings:
            self._end(end)
        self._endings.clear()

    def _try(self, fault: Fault, now: float) -> str:
        try:
            return self._inject(fault, now)
        except (BadInputError, OSError):
            raise
        except HoldfastError:
            # No coordinator to ask: it may be the one that was just killed.
            return ""

    def _inject(self, fault: Fault, now: float) -> str:
        match fault.kind:
            case "kill":
                node = self._node(fault)
                if node:
                    self._run.kill_node(node)
                return node
            case "suspend":
                return self._suspend(fault, now)
            case "domain":
                return self._lose_domain(fault)
            case "correlated":
                return self._kill_several(fault)
            case "coordinator":
                return f"process {self._run.kill_coordinator()}"
            case "coordinator-hang":
                return self._hang_coordinator(fault, now)
            case "disk":
                return self._fill_disk(fault, now)
            case "tear":
                return self._tear(fault, now)
            case "tear-slice" | "lose-slice":
                return self._damage(fault)
            case "poison":
                return self._poison(fault)
            case "scale":
                return self._scale(fault)
            case "mem" | "slp" | "thr" | "err":
                return self._sabotage(fault, now)

    def _end(self, act: Callable[[], None]) -> None:
        # What was suspended or limited may have been killed meanwhile.
        with contextlib.suppress(HoldfastError, OSError):
            act()

    def _node(self, fault: Fault) -> str:
        """The node meant, or one of those that run units."""
        if fault.target:
            return self._named(fault.target)
        names = sorted(node.node for node in self._run.status().nodes if node.units)
        return str(names[int(self._rng.integers(len(names)))]) if names else ""

    def _named(self, target: str) -> str:
        """A node by its name or by the replica that it runs; empty: nobody has that part now."""
        role, mark, name = target.partition(ROLE_MARK)
        if not mark:
            return target
        operator, _, shard = name.partition("#")
        segments = read_spec(self._run.run_dir).deployment.segments
        for unit in self._run.status().units:
            found = UnitId.parse(unit.unit)
            if (
                any(found.segment == one.name and operator in one.operators for one in segments)
                and shard in ("", str(found.shard))
                and unit.leads == (role == "leader")
            ):
                return unit.node or ""
        return ""

    def _suspend(self, fault: Fault, now: float) -> str:
        node = self._node(fault)
        if node:
            self._run.stop_node(node)
            self._endings.append((now + fault.duration_s, lambda: self._run.cont_node(node)))
        return node

    def _hang_coordinator(self, fault: Fault, now: float) -> str:
        pid = self._run.stop_coordinator()
        ending = (now + fault.duration_s, lambda: self._run.cont_coordinator(pid))
        self._endings.append(ending)
        return f"process {pid}"

    def _lose_domain(self, fault: Fault) -> str:
        domain = fault.target
        if not domain:
            nodes = self._run.status().nodes
            domains = sorted({node.domain for node in nodes if node.units})
            if not domains:
                return ""
            domain = str(domains[int(self._rng.integers(len(domains)))])
        lost = self._run.kill_domain(domain)
        return f"{domain} ({', '.join(lost)})" if lost else ""

    def _kill_several(self, fault: Fault) -> str:
        """Those named, or two of those that run units, all of them if there are no more."""
        names = [self._named(name) for name in fault.target.split(",") if fault.target]
        if not all(names):
            return ""
        if not names:
            there = sorted(node.node for node in self._run.status().nodes if node.units)
            chosen = self._rng.permutation(len(there))[:TOGETHER]
            names = [there[int(index)] for index in sorted(chosen)]
        names = list(dict.fromkeys(names))
        self._run.kill_nodes(names)
        return ", ".join(names)

    def _fill_disk(self, fault: Fault, now: float) -> str:
        """Let nothing of a node grow a file: what it meets is what a full disk would give it."""
        node = self._node(fault)
        pids = list(self._processes(node)) if node else []
        before = {}
        for pid in pids:
            with contextlib.suppress(OSError):
                before[pid] = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[pid][1]))

        def free() -> None:
            # Whoever forks before its own limit is lifted hands it on to a process that was not
            # listed: look again until nobody new is there.
            freed: set[int] = set()
            for _ in range(FREE_ROUNDS):
                limited = {*pids, *self._processes(node)} - freed
                for pid in limited:
                    with contextlib.suppress(OSError):
                        limits = before.get(pid, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                        resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
                if not limited:
                    break
                freed |= limited

        if before:
            self._endings.append((now + fault.duration_s, free))
        return f"{node} ({len(before)} processes)" if before else ""

    def _tear(self, fault: Fault, now: float) -> str:
        """Cut the newest slice file of an operator in half, and mend it later."""
        path = self._newest_file(fault.target)
        if path is None:
            return ""
        whole = path.read_bytes()
        os.truncate(path, len(whole) // 2)

        def mend() -> None:
            # Trimmed meanwhile: then nobody needs it any more.
            if path.exists():
                path.write_bytes(whole)

        self._endings.append((now + fault.duration_s, mend))
        return str(path.relative_to(self._run.run_dir))

    def _damage(self, fault: Fault) -> str:
        """Cut a slice file in half, or delete it, for good: the newest are those still to be read.

        Of sources only where it is said, as nobody repairs what all have read, and `verify` reads
        it again.
        """
        deployment = read_spec(self._run.run_dir).deployment
        inner = [item.name for item in deployment.segments if item.kind == "inner"]
        operator = fault.target or (
            inner[int(self._rng.integers(len(inner)))] if inner else deployment.segments[0].name
        )
        path = self._newest_file(operator, slices=DAMAGED_SLICES)
        if path is None:
            return ""
        if fault.kind == "lose-slice":
            path.unlink(missing_ok=True)
        else:
            os.truncate(path, path.stat().st_size // 2)
        return str(path.relative_to(self._run.run_dir))

    def _newest_file(self, operator: str, slices: int = 1) -> Path | None:
        files = newest_files(self._run.run_dir, operator, slices)
        there = [path for path in files if path.is_file() and path.stat().st_size > 1]
        return there[int(self._rng.integers(len(there)))] if there else None

    def _scale(self, fault: Fault) -> str:
        """Give an operator another number of shards, whatever else goes on."""
        deployment = read_spec(self._run.run_dir).deployment
        able = [segment for segment in deployment.segments if segment.scales]
        if not able and not fault.target:
            raise BadInputError("no operator declares max_shards", where="scale")
        segment = (
            scalable(deployment, fault.target)
            if fault.target
            else able[int(self._rng.integers(len(able)))]
        )
        # One that declares none, and is named, goes through Spark's repartitioning.
        most = max(2, segment.max_shards)
        shards = int(fault.text or self._rng.integers(1, most + 1))
        log = SliceLog(self._run.run_dir)
        announce(log, rescale(log, segment, shards, reason="a fault schedule"))
        return f"{segment.name}={shards}"

    def _sabotage(self, fault: Fault, now: float) -> str:
        """Have the functions of a path fail, in whichever process they run."""
        split, _, path = fault.target.partition(":")
        splits = self._run.status().splits
        found = [item for item in splits if split in ("", item.split)]
        if path:
            found = [item for item in found if path in {one.path for one in item.paths}]
        else:
            found = [item for item in found if item.active]
        if not found:
            return ""
        split, path = found[0].split, path or found[0].active or ""
        place = sabotage_path(self._run.run_dir, split, path)
        place.parent.mkdir(exist_ok=True)
        amount = float(fault.text or DEFAULT_AMOUNT)
        temporary = place.with_suffix(".tmp")
        temporary.write_text(
            json.dumps({"fault": fault.kind, "ms": amount, "mb_s": amount}), encoding="utf-8"
        )
        temporary.rename(place)

        def end() -> None:
            place.unlink(missing_ok=True)
            for node in self._run.status().nodes:
                wake_stopped(self._processes(node.node))

        self._endings.append((now + fault.duration_s, end))
        return f"{split}:{path}"

    def _poison(self, fault: Fault) -> str:
        """Put one more file into the directory a source reads."""
        source = self._pipeline.operator(fault.target).source if self._pipeline else None
        if not isinstance(source, Files):
            raise BadInputError(f"{fault.target!r} does not read files", where="poison")
        folder = Path(source.path)
        if not folder.is_absolute():
            folder = app_folder(read_spec(self._run.run_dir).app) / folder
        path = folder / f"poison-{len(self.history):04d}.{source.format}"
        temporary = folder / f".{path.name}.tmp"
        temporary.write_text(fault.text + "\n", encoding="utf-8")
        temporary.rename(path)
        return path.name
