"""Pathway: snapshots of its input every second; each start writes a file of its own."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pathway as pw

OUTPUT = Path(os.environ["OUTPUT"])


@pw.udf  # type: ignore[untyped-decorator]
def split(line: str) -> list[str]:
    second, *words = line.split(" ")
    return [f"{second},{word}" for word in words]


def main() -> None:
    lines = pw.io.fs.read(
        os.environ["INPUT"],
        format="plaintext",
        mode="streaming",
        autocommit_duration_ms=200,
        name="lines",
    )
    keys = lines.select(key=split(lines.data)).flatten(pw.this.key)
    counts = keys.groupby(keys.key).reduce(keys.key, count=pw.reducers.count())
    pw.io.jsonlines.write(counts, str(OUTPUT / f"part-{time.time_ns()}.jsonl"))
    backend = pw.persistence.Backend.filesystem(os.environ["STATE"])
    pw.run(
        persistence_config=pw.persistence.Config(backend, snapshot_interval_ms=1000),
        monitoring_level=pw.MonitoringLevel.NONE,
    )


if __name__ == "__main__":
    main()
