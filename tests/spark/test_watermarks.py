"""Watermarks come from the records alone: rows that are ahead never make others late.

One pipeline, two sources whose event times lie ten seconds apart with two seconds of delay allowed,
and behind them everything that looks at a watermark. Plain Python says what must come out, under
every plan.
"""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial

import pandas as pd
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from holdfast.pipeline import Generator, Parquet, Pipeline, deploy
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.spark.host import SparkUnitHost
from holdfast.runtime.spark.start.session import start_session
from holdfast.runtime.units.sources import epoch_tick

pytestmark = pytest.mark.spark

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SCHEMA = "ts timestamp, key string, n bigint"
FAST = 1_000_000
"""Rows of the source that is ahead are numbered from here."""
AHEAD_S = 10
DELAY_S = 2
WINDOW_S = 4
EPOCHS = 24
"""Rows of these epochs must all have come through."""
DEADLINE_S = 300.0
CLOSED_S = 12
"""Windows and sessions that end by then must have closed."""
KNOWN_S = 60
"""Those that end later are not looked at."""


@pytest.fixture(scope="module")
def spark():
    session = start_session("test-watermarks", memory_mb=1024)
    yield session
    session.stop()


def behind(epoch, seed):
    """Three rows a second; no rows in every fifth epoch, then one exactly as old as allowed."""
    if epoch % 5 == 4:
        return []
    offsets = [0.0, 0.25, 0.5]
    if epoch % 5 == 0 and epoch:
        offsets.append(-1.5 - DELAY_S)  # the watermark that the epoch before the last has left
    if epoch % 5 == 2:
        offsets.append(-0.7 - DELAY_S)  # late
    name = "ab"[seed]
    return [
        (
            START + dt.timedelta(seconds=epoch + offset + seed * AHEAD_S),
            f"{name}{(3 * epoch + index) % 15}" if index < 3 else f"{name}-old",
            FAST * seed + 10 * epoch + index,
        )
        for index, offset in enumerate(offsets)
    ]


def in_time(seed, epochs):
    """Rows that are not late, by epoch, and the watermark that every epoch leaves behind."""
    watermark, rows, marks = None, [], []
    for epoch in range(epochs):
        made = behind(epoch, seed)
        rows.append([row for row in made if watermark is None or row[0] >= watermark])
        newest = max((row[0] for row in made), default=None)
        if newest is not None:
            reached = newest - dt.timedelta(seconds=DELAY_S)
            watermark = reached if watermark is None else max(watermark, reached)
        marks.append(watermark)
    return rows, marks


def per_window(frame):
    counted = frame.groupBy(F.window("ts", f"{WINDOW_S} seconds")).agg(F.count("*").alias("n"))
    return counted.select(F.window_time("window").alias("ts"), "n")


def per_session(frame):
    source = F.substring("key", 1, 1).alias("source")
    counted = frame.groupBy(F.session_window("ts", "600 milliseconds"), source).agg(
        F.count("*").alias("n"), F.min("ts").alias("first")
    )
    return counted.select(F.col("session_window.end").alias("end"), "source", "first", "n")


def named(frame):
    """A filter that a tick row, which has no key, would not pass."""
    return frame.where(F.col("key") != "nobody")


def unique(frame):
    return frame.dropDuplicatesWithinWatermark(["key"])


def exact(frame):
    return frame.dropDuplicates(["ts", "key", "n"])


def pipeline():
    p = Pipeline("skewed", event_time=("ts", f"{DELAY_S} seconds"), epoch="0.25s")
    slow, fast = (
        p.source(name, Generator(behind, SCHEMA, seed=seed))
        for seed, name in enumerate(["slow", "fast"])
    )
    both = slow.union("both", fast)
    windows = both.aggregate("window", per_window)
    p.sink("windows", windows, Parquet("windows"))
    p.sink("sessions", both.aggregate("session", per_session), Parquet("sessions"))
    p.sink("exact", both.stateful("all", exact, key="key"), Parquet("exact"))
    return p


def fused():
    """Nothing but the windows, which a plan may compute where the sources meet."""
    p = Pipeline("skewed", event_time=("ts", f"{DELAY_S} seconds"), epoch="0.25s")
    slow, fast = (
        p.source(name, Generator(behind, SCHEMA, seed=seed))
        for seed, name in enumerate(["slow", "fast"])
    )
    both = slow.union("both", fast).map("kept", named)
    p.sink("windows", both.aggregate("window", per_window), Parquet("windows"))
    return p


def read(folder):
    return [
        row for file in sorted(folder.glob("*.parquet")) for row in pq.read_table(file).to_pylist()
    ]


def run(
    spark, p, folder, done, *, epochs=EPOCHS, generation=0, single=False, fails=False, **options
):
    """Run all units until every exporter has delivered an epoch and `done` says so.

    With `single`, no batch spans several epochs: then a wrong watermark shows for certain. A unit
    that `fails` ends it too, and its report is returned.
    """
    deployment = deploy(p, **options)
    if single:
        segments = [replace(item, one_epoch_per_batch=True) for item in deployment.segments]
        deployment = replace(deployment, segments=tuple(segments))
    host = SparkUnitHost(deployment, p, folder, keep_input=True, spark=spark)
    exporters = {item.name for item in deployment.segments if item.kind == "exporter"}
    try:
        for unit in deployment.units():
            host.start(unit, generation, generation - 1 if generation else None)
        deadline = time.monotonic() + DEADLINE_S
        while True:
            found = host.poll()
            failed = [item for item in found if item.state == "failed"]
            if failed and fails:
                return failed[0]
            assert not failed, f"{failed[0].unit} {failed[0].error}"
            reached = [item.epoch for item in found if item.unit.segment in exporters]
            if min(reached) >= epochs and done(folder):
                return None
            assert time.monotonic() < deadline, f"not done: {found}"
            time.sleep(0.05)
    finally:
        host.close()


def seconds(time_):
    return (time_ - START).total_seconds()


def closed(folder, sink, column, by=CLOSED_S):
    """Whether what ends by some time, seconds, is in a sink."""
    times = [seconds(row[column]) for row in read(folder / sink)]
    return max(times, default=0) >= by - 0.001


def early(number):
    """Whether a row is of the epochs that must have come through."""
    return number % FAST < 10 * (EPOCHS + 1)


def all_rows():
    rows = [in_time(seed, KNOWN_S + 10)[0] for seed in (0, 1)]
    return [row for of_source in rows for epoch in of_source for row in epoch]


def check_windows(folder):
    expected = Counter(int(seconds(ts) // WINDOW_S) for ts, _, _ in all_rows())
    found = Counter()
    for row in read(folder / "windows"):
        window = int(seconds(row["ts"]) // WINDOW_S)
        assert window not in found
        if (window + 1) * WINDOW_S <= KNOWN_S:
            found[window] = row["n"]
    assert found == {window: expected[window] for window in found}
    due = {window for window in expected if (window + 1) * WINDOW_S <= CLOSED_S}
    assert due <= set(found)


def check_sessions(folder):
    expected = {}
    for source in "ab":
        times = sorted(seconds(ts) for ts, key, _ in all_rows() if key[0] == source)
        first, number = times[0], 0
        for at, after in zip(times, [*times[1:], float("inf")], strict=True):
            number += 1
            if after - at > 0.6:
                expected[source, first] = (round(at + 0.6, 3), number)
                first, number = after, 0
    rows = [row for row in read(folder / "sessions") if seconds(row["end"]) <= KNOWN_S]
    found = {
        (row["source"], seconds(row["first"])): (round(seconds(row["end"]), 3), row["n"])
        for row in rows
    }
    assert len(found) == len(rows)
    assert found == {first: expected[first] for first in found}
    assert {at for at, (end, _) in expected.items() if end <= CLOSED_S} <= set(found)


def check_unique(folder):
    """One batch per epoch: a key is known until the joint watermark has passed time and delay."""
    sources = [in_time(seed, EPOCHS + 1) for seed in (0, 1)]
    remembered, expected = {}, []
    for epoch in range(EPOCHS + 1):
        for rows, _ in sources:
            for ts, key, n in rows[epoch]:
                if key not in remembered:
                    remembered[key] = ts + dt.timedelta(seconds=DELAY_S)
                    expected.append(n)
        before = [marks[epoch - 1] if epoch else None for _, marks in sources]
        if None not in before:
            remembered = {key: end for key, end in remembered.items() if end >= min(before)}
    found = sorted(
        row["n"] for row in read(folder / "unique") if row["n"] % 1000 <= 10 * EPOCHS + 9
    )
    assert found == sorted(expected)


def check_exact(folder):
    expected = sorted(n for _, _, n in all_rows() if early(n))
    assert sorted(row["n"] for row in read(folder / "exact") if early(row["n"])) == expected


@pytest.mark.parametrize(
    "options",
    [
        {"cuts": "all", "shards": {"all": 2}},
        {"cuts": {"both"}, "shards": {"slow": 2, "fast": 2}, "batch_epochs": 4},
    ],
    ids=["cut", "sharded sources"],
)
def test_sources_far_apart_in_time_lose_no_rows(spark, tmp_path, options):
    """Windows, sessions and distinct rows over united sources equal plain Python."""

    def done(folder):
        return closed(folder, "windows", "ts") and closed(folder, "sessions", "end")

    run(spark, pipeline(), tmp_path, done, **options)
    check_windows(tmp_path)
    check_sessions(tmp_path)
    check_exact(tmp_path)


def deduplicating():
    p = Pipeline("unique", event_time=("ts", f"{DELAY_S} seconds"), epoch="0.25s")
    slow, fast = (
        p.source(name, Generator(behind, SCHEMA, seed=seed))
        for seed, name in enumerate(["slow", "fast"])
    )
    both = slow.union("both", fast).map("kept", named)
    once = both.stateful("once", unique, key="key", one_epoch_per_batch=True)
    p.sink("unique", once, Parquet("unique"))
    return p


@pytest.mark.parametrize("cuts", [pytest.param("none", marks=pytest.mark.full), "all"])
def test_a_pause_does_not_change_what_deduplication_keeps(spark, tmp_path, cuts):
    """Epochs missed while everything stood still are made up for one by one, in all units."""
    run(spark, deduplicating(), tmp_path, lambda _: True, epochs=3, cuts=cuts)
    origin = SliceLog(tmp_path).origin()
    deadline = time.monotonic() + DEADLINE_S
    while epoch_tick(origin, 0.25, time.time()) < EPOCHS:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    run(spark, deduplicating(), tmp_path, lambda _: True, generation=1, cuts=cuts)
    check_unique(tmp_path)


@pytest.mark.parametrize(
    "options",
    [pytest.param({"cuts": "none"}, marks=pytest.mark.full), {"cuts": {"both"}}],
    ids=["fused", "apart"],
)
def test_a_window_where_sources_meet_and_behind_that_are_the_same(spark, tmp_path, options):
    """A windowed count of united sources, fused with the union and cut from it."""
    done = partial(closed, sink="windows", column="ts")
    run(spark, fused(), tmp_path, done, single=True, epochs=0, **options)
    check_windows(tmp_path)


def on_the_grid(epoch, seed):
    """A row a second, so that watermarks are the ends of windows."""
    return [(START + dt.timedelta(seconds=epoch), "a", epoch)]


def test_a_window_closes_at_the_watermark_that_is_its_end(spark, tmp_path):
    """The batch after the one that says so gives it out, and no later one."""
    p = Pipeline("grid", event_time=("ts", f"{DELAY_S} seconds"), epoch="0.25s")
    rows = p.source("rows", Generator(on_the_grid, SCHEMA))
    p.sink("windows", rows.aggregate("window", per_window), Parquet("windows"))
    done = partial(closed, sink="windows", column="ts")
    run(spark, p, tmp_path, done, single=True)
    log = SliceLog(tmp_path)
    ends = [log.range("window.0#0", number) for number in range(200)]  # the oldest are trimmed
    start_us = round(START.timestamp() * 1e6)
    windows = {
        item.number: max(0, (item.watermark_us - start_us) // (WINDOW_S * 1_000_000))
        for item in ends
        if item is not None and item.watermark_us is not None
    }
    seen = []
    for number, ended in windows.items():
        found = log.slice("window.0#0", number + 2)
        if found is not None and number + 1 in windows:
            assert found.rows == windows[number + 1] - ended, f"batch {number + 2}"
            seen.append(found.rows)
    assert 0 in seen
    assert 1 in seen


def joined():
    p = Pipeline("joined", event_time=("ts", f"{DELAY_S} seconds"), epoch="0.25s")
    slow, fast = (
        p.source(name, Generator(parity, SCHEMA + ", odd bigint", seed=seed))
        for seed, name in enumerate(["slow", "fast"])
    )
    pairs = slow.join("pair", fast, near, key="odd")
    p.sink("pairs", pairs, Parquet("pairs"))
    p.sink("windows", pairs.aggregate("window", per_window), Parquet("windows"))
    return p


def parity(epoch, seed):
    return [(*row, row[2] % 2) for row in behind(epoch, seed)]


def near(left, right):
    """Rows with those that are ahead of them by eight to eighteen seconds."""
    right = right.select(
        F.col("ts").alias("ahead"), F.col("n").alias("other"), F.col("odd").alias("other_odd")
    )
    when = F.col("ahead").between(
        F.col("ts") + F.expr("interval 8 seconds"), F.col("ts") + F.expr("interval 18 seconds")
    )
    return left.join(right, when & (F.col("odd") == F.col("other_odd"))).select("ts", "n", "other")


@pytest.mark.parametrize("shards", [1, pytest.param(2, marks=pytest.mark.full)])
def test_a_join_of_sources_far_apart_and_a_window_behind_it(spark, tmp_path, shards):
    """All pairs within the span come out, and are counted in the windows of the older row."""
    done = partial(closed, sink="windows", column="ts", by=WINDOW_S)
    run(spark, joined(), tmp_path, done, single=True, shards={"pair": shards})
    left, right = (
        [row for epoch in in_time(seed, KNOWN_S + 10)[0] for row in epoch] for seed in (0, 1)
    )
    pairs = [
        (ts, n, other)
        for ts, _, n in left
        for ahead, _, other in right
        if 8 <= (ahead - ts).total_seconds() <= 18 and n % 2 == other % 2
    ]
    found = sorted((row["n"], row["other"]) for row in read(tmp_path / "pairs"))
    assert [item for item in found if all(map(early, item))] == sorted(
        (n, other) for _, n, other in pairs if early(n) and early(other)
    )
    expected = defaultdict(int)
    for ts, _, _ in pairs:
        expected[int(seconds(ts) // WINDOW_S)] += 1
    rows = {int(seconds(row["ts"]) // WINDOW_S): row["n"] for row in read(tmp_path / "windows")}
    rows = {window: n for window, n in rows.items() if (window + 1) * WINDOW_S <= KNOWN_S}
    assert rows == {window: expected[window] for window in rows}


def follow(key, batches, state):
    """Keep the oldest time of a key; a row for each new one, with that time if `key` says so."""
    times = sorted(ts for batch in batches for ts in batch["ts"])
    oldest = pd.Timestamp(state.get[0], unit="us", tz="UTC") if state.exists else times[0]
    state.update((oldest.value // 1000,))
    given = [oldest if key[0] == "first" else ts for ts in times]
    yield pd.DataFrame({"ts": given, "key": [key[0]] * len(given)})


def custom(which):
    """Custom state that gives out the time of each row, or of the first, and windows behind it."""

    def own(frame):
        return frame.groupBy("key").applyInPandasWithState(
            follow, "ts timestamp, key string", "oldest bigint", "append", "NoTimeout"
        )

    p = Pipeline("custom", event_time=("ts", f"{DELAY_S} seconds"), epoch="0.25s")
    rows = p.source("rows", Generator(behind, SCHEMA))
    named = rows.map("named", lambda frame: frame.select("ts", F.lit(which).alias("key")))
    followed = named.stateful("own", own, key="key")
    p.sink("windows", followed.aggregate("window", per_window), Parquet("windows"))
    return p


@pytest.mark.parametrize("cuts", ["none", pytest.param("all", marks=pytest.mark.full)])
def test_custom_state_that_gives_out_late_rows_says_so(spark, tmp_path, cuts):
    """Rows behind the promised watermark would be dropped unseen: the unit fails and names them."""
    never = partial(run, done=lambda _: False, single=True, fails=True, cuts=cuts)
    report = never(spark, custom("first"), tmp_path)
    assert (report.unit.segment, report.operator) == ("own", "own")
    assert "gave out a row with ts = 2026-01-01 00:00:00 UTC, after its earlier" in report.error
    assert "so 'window' would drop it" in report.error


@pytest.mark.parametrize("cuts", [pytest.param("none", marks=pytest.mark.full), "all"])
def test_custom_state_within_the_watermark_loses_nothing(spark, tmp_path, cuts):
    """Rows with times as they came in are all counted in the windows behind."""
    done = partial(closed, sink="windows", column="ts")
    run(spark, custom("each"), tmp_path, done, single=True, epochs=0, cuts=cuts)
    expected = Counter(
        int(seconds(ts) // WINDOW_S) for epoch in in_time(0, KNOWN_S + 10)[0] for ts, *_ in epoch
    )
    for row in read(tmp_path / "windows"):
        window = int(seconds(row["ts"]) // WINDOW_S)
        if (window + 1) * WINDOW_S <= KNOWN_S:
            assert row["n"] == expected[window], window
