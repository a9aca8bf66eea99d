"""Bytewax: one worker, snapshots every second; its file sink truncates what it cannot vouch for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import bytewax.operators as op
from bytewax.connectors.files import FileSink
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition

INPUT, OUTPUT = Path(os.environ["INPUT"]), Path(os.environ["OUTPUT"]) / "counts.csv"


class Part(StatefulSourcePartition[str, int]):  # type: ignore[misc]
    """Files by name, one after the other; the state is how many were read."""

    def __init__(self, done: int) -> None:
        self.done = done
        self.awake: datetime | None = None

    def next_batch(self) -> Iterable[str]:
        names = sorted(path for path in INPUT.glob("*.txt"))
        if len(names) <= self.done:
            self.awake = datetime.now(UTC) + timedelta(milliseconds=50)
            return []
        self.awake = None
        self.done += 1
        return names[self.done - 1].read_text().splitlines()

    def next_awake(self) -> datetime | None:
        return self.awake

    def snapshot(self) -> int:
        return self.done


class Source(FixedPartitionedSource[str, int]):  # type: ignore[misc]
    """One partition: the directory."""

    def list_parts(self) -> list[str]:
        return ["all"]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> Part:
        del step_id, for_part
        return Part(resume_state or 0)


def split(line: str) -> list[tuple[str, int]]:
    second, *words = line.split(" ")
    return [(f"{second},{word}", 1) for word in words]


def add(state: int | None, one: int) -> tuple[int, int]:
    total = (state or 0) + one
    return total, total


OUTPUT.parent.mkdir(parents=True, exist_ok=True)
OUTPUT.touch()
flow = Dataflow("peer")
words = op.flat_map("split", op.input("lines", flow, Source()), split)
counts = op.stateful_map("count", words, add)
rows = op.map("format", counts, lambda item: ("all", f"{item[0]},{item[1]}"))
op.output("out", rows, FileSink(OUTPUT))
