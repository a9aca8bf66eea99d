"""What one event costs the coordinator, at 100, 1,000 and 10,000 units on a tenth as many nodes.

The machine: `handle(event)` alone. The shell: reading a heartbeat off the wire, making facts
durable, making the view that `status` shows. Every node hosts ten units and one node in twenty is a
spare. All events of a size come in one process, mixed as they would. Each cell is the mean and the
99th percentile of the processor time in microseconds, Python's own cleaning up included; waiting
for the disk is not, since that is the disk's.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from holdfast.control import codec
from holdfast.control import commands as c
from holdfast.control import events as e
from holdfast.control import facts as f
from holdfast.control.coordinator import Coordinator
from holdfast.control.shell.journal import Journal
from holdfast.control.shell.lines import to_line
from holdfast.control.shell.seat import Seat
from holdfast.control.shell.server import Shell
from holdfast.control.view import view
from holdfast.deployment import UnitId
from holdfast.health.budget import RestartBudget
from holdfast.health.policy import Policy
from holdfast.rundir.endpoint import read_endpoint

UNITS_PER_NODE = 10
SPARES = 20
"""One node in so many has no unit."""
BAR_US = 1000.0
BEAT_S = 0.25
FAULTS = 5
"""Failed units and dead nodes in a round."""
FORGIVING = RestartBudget(limit=3, window_s=0.001, delay_s=0.0)
"""Faults come far more often here than they would; no unit is to be held for that."""


class Fleet:
    """A coordinator with all its units running, and what its nodes would say."""

    def __init__(self, units: int) -> None:
        self.units = tuple(UnitId(segment=f"s{n // 4}", shard=n % 4) for n in range(units))
        self.now = 1000.0
        self.count = 0
        workers = max(1, units // UNITS_PER_NODE)
        self.coordinator = Coordinator(
            pipeline="bench",
            units=self.units,
            policy=Policy(workers=workers, retries=FORGIVING, crashes=FORGIVING),
        )
        self.reports: dict[str, dict[UnitId, e.UnitReport]] = {}
        self.took: dict[str, list[float]] = {}
        self._begin(workers)

    def _begin(self, workers: int) -> None:
        """As after a restart from a journal: placing everything is measured on its own."""
        stamp = {"at": self.now, "cause": "begin"}
        facts: list[f.Fact] = [
            f.Deployed(**stamp, units=self.units),  # type: ignore[arg-type]
            f.Opened(**stamp, launch="L"),  # type: ignore[arg-type]
        ]
        names = [f"n{n}" for n in range(workers)] + [f"x{n}" for n in range(workers // SPARES + 1)]
        for index, name in enumerate(names):
            facts.append(
                f.NodeJoined(
                    **stamp,  # type: ignore[arg-type]
                    node=name,
                    incarnation=name,
                    launch="L",
                    domain=f"d{index % 8}",
                    pid=index + 2,
                    spare=name[0] == "x",
                )
            )
            self.reports[name] = {}
        for index, unit in enumerate(self.units):
            name = f"n{index % workers}"
            facts.append(
                f.UnitPlaced(
                    **stamp,  # type: ignore[arg-type]
                    unit=unit,
                    generation=1,
                    node=name,
                    incarnation=name,
                    reason="first start",
                )
            )
            facts.append(f.UnitRunning(**stamp, unit=unit, generation=1))  # type: ignore[arg-type]
            self.reports[name][unit] = e.UnitReport(unit=unit, generation=1, state="running")
        self.coordinator.replay(None, facts)
        self.feed("", e.LaunchOpened(cause="launch", launch="L"))
        for name in names:
            self.hello(name, "")

    def feed(self, kind: str, event: e.Event) -> list[c.Command]:
        """Time one event; what it says to nodes happens at once."""
        start = time.thread_time()
        decided = self.coordinator.handle(event, self.now)
        if kind:
            self.took.setdefault(kind, []).append(time.thread_time() - start)
        for command in decided:
            if isinstance(command, c.StartUnit):
                self.reports[command.node][command.unit] = e.UnitReport(
                    unit=command.unit, generation=command.generation, state="running"
                )
        return decided

    def cause(self) -> str:
        self.count += 1
        return f"e{self.count}"

    def hello(self, name: str, kind: str = "node joins", incarnation: str = "") -> None:
        self.feed(
            kind,
            e.NodeHello(
                cause=self.cause(),
                node=name,
                incarnation=incarnation or name,
                launch="L",
                domain=f"d{self.count % 8}",
                spare=True,
                pid=self.count + 100_000,
                reports=tuple(self.reports[name].values()),
            ),
        )

    def beat(self, name: str) -> e.Heartbeat:
        incarnation = self.coordinator.state.nodes[name].incarnation
        return e.Heartbeat(
            cause=self.cause(),
            node=name,
            incarnation=incarnation,
            reports=tuple(self.reports[name].values()),
        )

    def news(self, name: str) -> e.Heartbeat:
        """Each unit of the node has ended a batch."""
        for unit, report in self.reports[name].items():
            self.reports[name][unit] = replace(
                report,
                batch=report.batch + 1,
                epoch=report.epoch + 1,
                rows_in=report.rows_in + 100,
                batch_ms=200.0,
                waiting=1 - report.waiting,
            )
        return self.beat(name)

    def round(self, fault: int) -> None:
        """A quarter of a second of the whole fleet, with some failed units and dead nodes."""
        names = list(self.coordinator.state.nodes)
        ticks = max(1, len(names) // 5)
        for index, name in enumerate(names):
            self.now += BEAT_S / len(names)
            if index % 2:
                self.feed("heartbeat, news", self.news(name))
            else:
                self.feed("heartbeat, no news", self.beat(name))
            if index % ticks == 0:
                self.feed("tick", e.Tick(cause=self.cause()))
        for number in range(FAULTS * fault, FAULTS * (fault + 1)):
            busy = [name for name in self.coordinator.state.nodes if self.reports[name]]
            self._fail(busy[number % len(busy)])
            self._die(busy[(7 * number + 3) % len(busy)])

    def _fail(self, name: str) -> None:
        unit, report = next(iter(self.reports[name].items()))
        self.reports[name][unit] = replace(report, state="failed", error="Traceback\nError: x")
        self.feed("unit fails", self.beat(name))

    def _die(self, name: str) -> None:
        pid = self.coordinator.state.nodes[name].pid
        del self.reports[name]
        self.feed("node dies", e.NodeExited(cause=self.cause(), node=name, pid=pid))
        fresh = f"y{self.count}"
        self.reports[fresh] = {}
        self.hello(fresh)

    # The shell around it

    def shell(self, rounds: int) -> None:
        """What a heartbeat and a status cost besides the machine."""
        names = [name for name in self.coordinator.state.nodes if self.reports[name]]
        with tempfile.TemporaryDirectory() as folder:
            journal = Journal(Path(folder) / "journal", self.coordinator.state)
            for index in range(rounds):
                line = to_line(codec.message_to_json(self.news(names[index % len(names)])))
                self._time("read a heartbeat", lambda line=line: _decode(line))  # type: ignore[misc]
                fact = f.UnitRunning(at=self.now, cause="x", unit=self.units[0], generation=1)
                self._time("append a fact", lambda fact=fact: journal.append([fact]))  # type: ignore[misc]
            for _ in range(3):
                self._time("snapshot", lambda: journal.compact(self.coordinator.state))
                self._time("view", lambda: to_line(view(self.coordinator, self.now).to_json()))
            journal.close()

    def serve(self, beats: int) -> None:
        """A heartbeat through the whole coordinator process, from the socket on."""
        name = next(name for name in self.coordinator.state.nodes if self.reports[name])
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(self._serve(name, Path(folder), beats))

    async def _serve(self, name: str, folder: Path, beats: int) -> None:
        seat = Seat(folder, pipeline="p", holder="c0")
        seat.take()
        shell = Shell(
            coordinator=self.coordinator, seat=seat, run_dir=folder, launch="L", name="c0"
        )
        serving = asyncio.create_task(shell.serve())
        while (endpoint := read_endpoint(folder)) is None:  # noqa: ASYNC110 - a file tells
            await asyncio.sleep(0.01)
        record = self.coordinator.state.nodes[name]
        hello = e.NodeHello(
            cause="hello",
            node=name,
            incarnation=record.incarnation,
            launch="L",
            pid=record.pid,
            reports=tuple(self.reports[name].values()),
        )
        lines = [to_line(codec.message_to_json(self.news(name))) for _ in range(beats)]
        greeting = {"role": "node", "token": endpoint.token}
        first = [to_line(greeting), to_line(codec.message_to_json(hello))]
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.write(b"\n".join([*first, b""]))
        await reader.readline()
        epoch = self.coordinator.vitals.epoch
        last = next(iter(self.reports[name].values()))
        start = time.thread_time()
        for line in lines:
            writer.write(line + b"\n")
            await asyncio.sleep(0)
        while epoch(last.unit) < last.epoch:  # noqa: ASYNC110 - nothing to wait on
            await asyncio.sleep(0)
        self.took["heartbeat, whole process"] = [(time.thread_time() - start) / beats]
        writer.close()
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving

    def _time(self, kind: str, action: Callable[[], object]) -> None:
        start = time.thread_time()
        action()
        self.took.setdefault(kind, []).append(time.thread_time() - start)


def _decode(line: bytes) -> object:
    return codec.message_from_line(line)


def first_placement(units: int) -> float:
    """Seconds of the one event that places everything for the first time."""
    workers = max(1, units // UNITS_PER_NODE)
    ids = tuple(UnitId(segment=f"s{n // 4}", shard=n % 4) for n in range(units))
    coordinator = Coordinator(pipeline="bench", units=ids, policy=Policy(workers=workers))
    coordinator.handle(e.LaunchOpened(cause="launch", launch="L"), 0.0)
    took = 0.0
    for index in range(workers):
        hello = e.NodeHello(cause=f"h{index}", node=f"n{index}", incarnation=f"n{index}", pid=index)
        start = time.thread_time()
        coordinator.handle(hello, 0.0)
        took = time.thread_time() - start
    return took


def measure(units: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Kind of event to mean and 99th percentile, microseconds."""
    fleet = Fleet(units)
    for fault in range(rounds):
        fleet.round(fault)
    fleet.shell(50)
    fleet.serve(2000)
    found = {kind: _summary(times) for kind, times in fleet.took.items()}
    found["first placement"] = _summary([first_placement(units)])
    return found


def _summary(times: list[float]) -> tuple[float, float]:
    ranked = sorted(times)
    return (
        1e6 * sum(ranked) / len(ranked),
        1e6 * ranked[min(len(ranked) - 1, int(0.99 * len(ranked)))],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="up to 1,000 units")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    sizes = (100, 1000) if args.quick else (100, 1000, 10_000)
    found = {size: measure(size, max(8, 40_000 // size)) for size in sizes}
    print(
        f"{'mean / p99, microseconds':26}" + "".join(f"{f'{size:,} units':>20}" for size in sizes)
    )
    for kind in found[sizes[0]]:
        cells = [found[size][kind] for size in sizes]
        print(f"{kind:26}" + "".join(f"{mean:>10,.0f} /{p99:>8,.0f}" for mean, p99 in cells))
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
