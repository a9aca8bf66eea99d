"""Each kind of fault at least once on real Spark, and what it must look like from outside."""

import os
import shutil
import signal
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from holdfast.cli.live import failures
from holdfast.clock import SystemClock
from holdfast.faults.campaign import Campaign, run_campaign
from holdfast.faults.inject import Injector
from holdfast.faults.schedule import Fault, Schedule
from holdfast.health.policy import Policy
from holdfast.pipeline import deploy, load_pipeline
from holdfast.pipeline.claims import claims
from holdfast.rundir.contents import node_log_path, scratch_path
from holdfast.rundir.spec import RunSpec
from holdfast.runtime.launch.local import LaunchSettings
from holdfast.runtime.launch.run import LocalRun, all_running
from holdfast.runtime.node.processes import session_members
from holdfast.verify.check import verify
from holdfast.verify.slice_log import dead_rows, numbered, read_record

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.full, pytest.mark.timeout(600)]

DEADLINE_S = 180.0


def campaign(name, *faults, **options):
    app = f"examples/{name}.py"
    pipeline = load_pipeline(app)
    return Campaign(
        app=app,
        pipeline=pipeline,
        deployment=deploy(pipeline, cuts=options.pop("cuts", "none")),
        schedule=Schedule(faults=tuple(faults), seed=1),
        **options,
    )


@pytest.fixture
def start(tmp_path):
    """Start a run with kept input; whatever happens, it is stopped and has left nothing."""
    runs = []

    def begin(app, *, cuts="none", spares=0):
        pipeline = load_pipeline(app)
        spec = RunSpec(
            app=app,
            host="spark",
            deployment=deploy(pipeline, cuts=cuts),
            policy=Policy(),
            options={"keep_input": True},
        )
        run = LocalRun(tmp_path / "run", spec, LaunchSettings(nodes=1, spares=spares))
        runs.append(run)
        run.start()
        run.wait_for(all_running, DEADLINE_S, "the start")
        return run, pipeline

    yield begin
    for run in runs:
        assert run.stop().left == ()


def wait_until(condition, what):
    end = time.monotonic() + DEADLINE_S
    pause = threading.Event()
    while not (found := condition()):
        assert time.monotonic() < end, f"{what} did not happen in time"
        pause.wait(0.02)
    return found


def stop_and_verify(run, pipeline):
    assert run.stop().left == ()
    verdict = verify(run.run_dir, claims(pipeline))
    assert verdict.ok, verdict.to_json()
    return verdict


def unit(view, name):
    return next(item for item in view.units if item.unit == name)


def test_a_full_disk_is_survived(tmp_path):
    """Nothing of a node can write for a while: its units fail, and go on when there is room."""
    outcome = run_campaign(
        campaign("word_count", Fault(at_s=3.0, kind="disk", duration_s=5.0), cuts={"filter"}),
        tmp_path / "run",
    )
    assert all(item.done for item in outcome.injected), outcome.to_json()
    assert outcome.recoveries, "a node that cannot write must be noticed"
    assert outcome.ok, outcome.to_json()


def test_a_zombie_publishes_nothing_twice(tmp_path):
    """A node that hangs past its detection wakes up among its successors, and is sent away."""
    outcome = run_campaign(
        campaign("word_count", Fault(at_s=4.0, kind="suspend", duration_s=12.0), cuts={"filter"}),
        tmp_path / "run",
    )
    (item,) = outcome.injected
    assert item.done
    assert any(recovery.from_node == item.done for recovery in outcome.recoveries)
    # It was alive when it woke: it heard that it had been replaced.
    assert "ending: fenced" in node_log_path(outcome.run_dir, item.done).read_text()
    assert outcome.ok, outcome.to_json()


def test_a_node_without_its_java_is_replaced(start):
    """Out of memory, Java dies alone: nothing can ever run on such a node again, so it goes too."""
    run, pipeline = start("examples/word_count.py", cuts={"filter"})
    os.kill(java_of(run, "n0"), signal.SIGKILL)
    view = run.wait_for(
        lambda now: all_running(now) and all(item.node != "n0" for item in now.units), DEADLINE_S
    )
    epoch = unit(view, "counts.0#0").epoch
    run.wait_for(
        lambda now: all_running(now) and unit(now, "counts.0#0").epoch > epoch + 5, DEADLINE_S
    )
    assert all(item.phase == "running" for item in run.status().units)
    stop_and_verify(run, pipeline)


def test_a_torn_slice_is_made_again(start):
    """A redo that meets half a file has its source make it again: nothing fails, or is skipped."""
    run, pipeline = start("examples/word_count.py", spares=1)
    wait_until(lambda: not spare_is_cold(run.status()), "a warm spare")
    slices = run.run_dir / "units" / "lines.0#0" / "slices"
    scratch = scratch_path(run.run_dir, "n0")
    kinds = {path.name.partition("-")[0] for path in scratch.iterdir()}
    assert {"blockmgr", "spark"} <= kinds
    # The source goes on without Java; its reader cannot have committed what comes from then on.
    os.kill(java_of(run, "n0"), signal.SIGSTOP)
    newest = max(numbered(slices))
    number = wait_until(
        lambda: next((n for n in numbered(slices) if n > newest), None), "another slice"
    )
    run.kill_node("n0")
    ((boundary, (file,)),) = read_record(numbered(slices)[number], "slice")["files"].items()
    path = slices.parent / "data" / boundary / file["name"]
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    told = f"lines.0#0: slice {number} was lost, and made again"
    log = node_log_path(run.run_dir, "s0")
    wait_until(lambda: told in log.read_text(), "healing")
    epoch = unit(run.status(), "counts.0#0").epoch
    run.wait_for(
        lambda now: all_running(now) and unit(now, "counts.0#0").epoch > epoch + 10, DEADLINE_S
    )
    assert not scratch.exists()
    stop_and_verify(run, pipeline)


def java_of(run, node):
    members = session_members(run.launcher.node(node).pid, run.launcher.launch)
    (java,) = [pid for pid in members if Path(f"/proc/{pid}/comm").read_text().strip() == "java"]
    return java


def spare_is_cold(view):
    return not any(node.spare and node.ready for node in view.nodes)


@pytest.fixture
def poisoned(tmp_path, monkeypatch, start):
    """A run over files, and a function that adds one more through the injector."""

    def begin(on_error):
        app = tmp_path / "app" / "poison_app.py"
        app.parent.mkdir()
        shutil.copy(Path(__file__).with_name("poison_app.py"), app)
        (app.parent / "in").mkdir()
        # A name that Spark would take for a pattern.
        (app.parent / "in" / "first[1]{2}.text").write_text("1\n2\n3\n")
        monkeypatch.setenv("POISON_ON_ERROR", on_error)
        run, pipeline = start(str(app))

        def add(text):
            fault = Fault(at_s=0.0, kind="poison", target="lines", text=text)
            injector = Injector(run, Schedule(faults=(fault,)), SystemClock(), pipeline=pipeline)
            assert not injector.step()
            (app.parent / "in" / "poison-0000.text").rename(
                app.parent / "in" / f"{len(list((app.parent / 'in').iterdir()))}.text"
            )

        return run, pipeline, add

    return begin


def delivered(run):
    folder = run.run_dir / "out"
    return sorted(
        n for path in folder.glob("*.parquet") for n in pq.read_table(path)["n"].to_pylist()
    )


def test_a_poison_record_holds_its_unit_and_names_the_operator(poisoned):
    """With on_error=fail the unit is tried, then held with the operator and its traceback."""
    run, pipeline, add = poisoned("fail")
    wait_until(lambda: delivered(run) == [2, 4, 6], "the first file")
    add("seven")
    view = run.wait_for(
        lambda now: unit(now, "twice.0#0").phase == "held", DEADLINE_S, "a held unit"
    )
    held = unit(view, "twice.0#0")
    assert held.operator == "parse"
    assert "in to_number" in held.error
    (line,) = failures(view)
    assert line.startswith("twice.0#0 is held (operator parse): ")
    assert "invalid literal for int() with base 10: 'seven'" in held.error
    assert unit(view, "lines.0#0").phase == unit(view, "out.0#0").phase == "running"
    verdict = stop_and_verify(run, pipeline)
    assert verdict.compared == 3
    assert delivered(run) == [2, 4, 6]


def test_a_quarantined_poison_record_is_put_aside_for_good(poisoned):
    """With on_error=quarantine the others go on, and a takeover skips the same row."""
    run, pipeline, add = poisoned("quarantine")
    wait_until(lambda: delivered(run) == [2, 4, 6], "the first file")
    add("4\nseven\n5")
    wait_until(lambda: delivered(run) == [2, 4, 6, 8, 10], "the good rows")
    assert dead_rows(run.run_dir) == {("twice", "lines"): [{"value": "seven"}]}
    run.kill_node("n0")
    add("6")
    wait_until(lambda: delivered(run) == [2, 4, 6, 8, 10, 12], "the last file")
    run.wait_for(all_running, DEADLINE_S)
    assert dead_rows(run.run_dir) == {("twice", "lines"): [{"value": "seven"}]}
    stop_and_verify(run, pipeline)
