"""Killed with SIGKILL at every named point, restarted as a new generation: exactly once."""

from __future__ import annotations

import datetime as dt
import importlib.util
import signal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.spark.drivers import run_driver

from holdfast.runtime.log.crash import CRASH_POINTS
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.spark.start.native import VARIABLE

HERE = Path(__file__).parent
APP = HERE / "crash_app.py"


def load_app():
    spec = importlib.util.spec_from_file_location("crash_app_reference", APP)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(folder: Path, generation: int, epoch: int, crash_at: str = "") -> int:
    """Exit code of a driver; a killed one has the negative signal number."""
    log = folder.parent / f"driver-{generation}.log"
    words = (APP, folder, generation, epoch)
    return run_driver("unit_driver.py", *words, log=log, crash_at=crash_at)


def rows_of(folder: Path) -> list[dict]:
    files = sorted(folder.glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def last_range(log: SliceLog, unit: str):
    return log.range(unit, log.newest_batch(unit))


def check(folder: Path) -> None:
    """Everything delivered equals a plain Python computation over the same epochs."""
    app = load_app()
    log = SliceLog(folder)
    values, late, _ = app.expected(last_range(log, "rows.0#0").upto)
    assert sorted(row["value"] for row in rows_of(folder / "rows")) == sorted(values)
    assert late > 0
    assert kept_late_rows(log) >= late

    *_, windows = app.expected(last_range(log, "events.0#0").upto)
    delivered = rows_of(folder / "windows")
    keys = [(row["start"], row["key"]) for row in delivered]
    assert len(keys) == len(set(keys)), "a window was delivered twice"
    for row in delivered:
        assert windows[row["start"], row["key"]] == [row["rows"], row["total"]]
    watermark = last_range(log, "windows.0#0").watermark_us
    width = dt.timedelta(seconds=app.WINDOW_S)
    closed = {
        (start, key) for start, key in windows if (start + width).timestamp() * 1e6 <= watermark
    }
    assert closed
    assert closed <= set(keys), "a closed window is missing"


def kept_late_rows(log: SliceLog) -> int:
    return sum(item.late_rows for item in log.slices_from("events.0#0", 0))


@pytest.mark.spark
@pytest.mark.sample(sides=("native", "python"))
@pytest.mark.parametrize("sides", [("native", "python"), ("native",), ("python",)], ids=str)
def test_one_run_survives_every_crash_point_in_turn(tmp_path, monkeypatch, sides):
    """A stateful unit is killed at each point in turn; nothing is lost and nothing doubled.

    Neither if every other generation reads and writes slices the other way.
    """
    folder = tmp_path / "run"
    for generation, point in enumerate(p for p in CRASH_POINTS if p != "during-clone"):
        monkeypatch.setenv(VARIABLE, sides[generation % len(sides)])
        crash_at = f"{point}:count.0#0@{1 + 2 * generation}"
        assert run(folder, generation, 10_000, crash_at) == -signal.SIGKILL
    assert run(folder, 4, 10_000, "during-clone:count.0#0") == -signal.SIGKILL
    assert not (folder / "checkpoints" / "count.0#0" / "000004").exists()
    newest = last_range(SliceLog(folder), "windows.0#0")
    assert run(folder, 5, newest.upto + 12) == 0
    check(folder)


@pytest.mark.chaos
@pytest.mark.sample(point="after-slice-record", unit="double.0#0")
@pytest.mark.sample(point="during-clone", unit="double.0#0")
@pytest.mark.parametrize("unit", ["double.0#0", "events.0#0", "windows.0#0"])
@pytest.mark.parametrize("point", CRASH_POINTS)
def test_a_unit_survives_a_crash_point(tmp_path, unit, point):
    """Each kind of unit is killed at each point it has, and the result is exact."""
    if point == "during-clone" and unit != "double.0#0":
        pytest.skip("this unit has no checkpoint to clone")
    if point in ("after-data-files", "after-slice-record") and unit == "windows.0#0":
        pytest.skip("an exporter writes no slice")
    folder = tmp_path / "run"
    generation = 0
    if point == "during-clone":
        assert run(folder, 0, 3, "") == 0
        generation = 1
    where = f"{point}:{unit}" if point == "during-clone" else f"{point}:{unit}@2"
    assert run(folder, generation, 10_000, where) == -signal.SIGKILL
    newest = last_range(SliceLog(folder), "events.0#0")
    assert run(folder, generation + 1, newest.upto + 12) == 0
    check(folder)
