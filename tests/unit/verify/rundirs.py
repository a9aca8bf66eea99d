"""Run directories written by hand, for checkers to read."""

from __future__ import annotations

import json
import sqlite3
import zlib
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.pipeline import Generator, Parquet, Pipeline, Sqlite

EPOCHS = 12
WINDOW = 3


def rows_of(epoch, seed):
    """Two rows per epoch."""
    at = datetime.fromtimestamp(epoch, UTC)
    return [(at, f"k{epoch % 2}", epoch), (at + timedelta(milliseconds=500), "k9", epoch + 100)]


def make_pipeline(kind="append", max_shards=None):
    """One source and one sink: all rows, sums per key, or sums per window."""
    p = Pipeline("checked", event_time=("ts", "1s"))
    made = Generator(rows_of, "ts timestamp, key string, n bigint")
    source = p.source("s", made, max_shards=max_shards)
    if kind == "append":
        p.sink("out", source.map("m", lambda frame: frame), Parquet("out"))
        p.expected("out")(lambda rows: rows["s"])
    elif kind == "upsert":
        sums = source.aggregate("sum", lambda frame: frame, key="key", output="upsert")
        p.sink("out", sums, Sqlite("out.db"))
        p.expected("out")(sums_by_key)
    else:
        p.sink("out", source.aggregate("sum", lambda frame: frame), Parquet("out"))
        p.expected("out", closes="ts")(sums_by_window)
    return p


def sums_by_key(rows):
    sums = {}
    for row in rows["s"]:
        sums[row["key"]] = sums.get(row["key"], 0) + row["n"]
    return [{"key": key, "n": n} for key, n in sums.items()]


def sums_by_window(rows):
    sums = {}
    for row in rows["s"]:
        window = int(row["ts"].timestamp() // WINDOW)
        sums[window] = sums.get(window, 0) + row["n"]
    end = timedelta(seconds=WINDOW, microseconds=-1)
    return [
        {"ts": datetime.fromtimestamp(window * WINDOW, UTC) + end, "n": n}
        for window, n in sums.items()
    ]


def write_record(path, kind, body):
    data = json.dumps(body).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f"holdfast-record 2 {kind} {len(data)} {zlib.crc32(data):08x}\n".encode()
    path.write_bytes(head + data)


def write_stream(path, table):
    with path.open("wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)


def write_slice(
    run,
    boundary,
    epoch,
    rows,
    *,
    watermark_us=None,
    schema=None,
    shard=0,
    skip="",
    change=0,
    first=0,
):
    """The slice of one epoch, of a unit whose first one is that of epoch `first`."""
    number = epoch - first
    unit = run / "units" / f"{boundary.partition('@')[0]}.{change}#{shard}"
    data = unit / "data" / boundary
    data.mkdir(parents=True, exist_ok=True)
    files = []
    if rows:
        table = pa.Table.from_pylist(rows, schema=schema)
        name = f"{number:010d}-g0.arrow"
        write_stream(data / name, table)
        files.append({"name": name, "parts": [{"rows": table.num_rows}]})
    body = {"after": epoch - 1, "upto": epoch, "files": {boundary: files}}
    body["watermark_us"], body["skip"] = watermark_us, skip
    write_record(unit / "slices" / f"{number:010d}", "slice", body)


def write_run(run, kind="append", *, undelivered=0):
    """A run of EPOCHS epochs, right in every row; the last batches may be undelivered."""
    p = make_pipeline(kind)
    operator = p.sinks[0].inputs[0]
    kept = []
    for epoch in range(EPOCHS):
        rows = p.operator("s").source.table(epoch, epoch_s=1.0).to_pylist()
        kept += rows
        watermark = (epoch - 1) * 1_000_000 + 500_000
        write_slice(run, "s", epoch, rows, watermark_us=watermark)
        write_slice(run, operator, epoch, [], watermark_us=watermark)
    for number in range(EPOCHS):
        body = {"after": number - 1, "upto": number, "turn": None}
        write_record(run / "units" / "out.0#0" / "ranges" / f"{number:010d}", "range", body)
    deliver(run, kind, kept, EPOCHS - undelivered)
    return p


def deliver(run, kind, kept, batches):
    """What a right exporter would have written after that many batches, one per epoch."""
    if kind == "upsert":
        sums = sums_by_key({"s": kept[: 2 * batches]})
        with closing(sqlite3.connect(run / "out.db")) as base, base:
            base.execute("CREATE TABLE results (key TEXT PRIMARY KEY, n INTEGER)")
            base.execute(
                "CREATE TABLE holdfast_progress "
                "(table_name TEXT PRIMARY KEY COLLATE NOCASE, sink TEXT, run TEXT, batch INTEGER)"
            )
            base.executemany("INSERT INTO results VALUES (:key, :n)", sums)
            progress = ("results", "out", "a1", batches - 1)
            base.execute("INSERT INTO holdfast_progress VALUES (?, ?, ?, ?)", progress)
        return
    given = 0
    for number in range(batches):
        if kind == "append":
            rows = kept[2 * number : 2 * number + 2]
        else:
            watermark = datetime.fromtimestamp(number - 1, UTC) + timedelta(milliseconds=500)
            due = [row for row in sums_by_window({"s": kept}) if row["ts"] < watermark]
            rows, given = due[given:], len(due)
        if rows:
            write_part(run, number, rows)


def write_part(run, number, rows):
    folder = run / "out"
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / f"part-{number:010d}.parquet")


def read_part(run, number):
    return pq.read_table(run / "out" / f"part-{number:010d}.parquet").to_pylist()


def write_run_of_app(folder):
    """A run directory that names its application, and that application."""
    run, app = folder / "run", folder / "app.py"
    run.mkdir()
    write_run(run)
    app.write_text(
        "from tests.unit.verify.rundirs import make_pipeline\npipeline = make_pipeline()\n"
    )
    (run / "run.json").write_text(json.dumps({"app": str(app)}))
    return run
