"""What people are shown says what the coordinator knows, and can be drawn."""

import json

import pytest
from rich.console import Console
from tests.unit.control.test_replication import hot
from tests.unit.control.world import A, B, started

from holdfast.cli.live import busy, failures, live_view, retries, tracebacks
from holdfast.control import codec
from holdfast.control import events as e
from holdfast.control.shell.lines import to_line
from holdfast.control.status import summary
from holdfast.control.view import view

pytestmark = pytest.mark.unit


def shown(world):
    return view(world.coordinator, world.now)


def drawn(world):
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(live_view(shown(world), epoch_s=0.5))
    return console.export_text()


def test_a_running_pipeline():
    """Units with node, epoch and rates; a spare is called one; the view is JSON."""
    world = started()
    world.set("n0", A, rows_in=1000, waiting=3, state_bytes=2_500_000)
    world.now += 1.0
    world.beat("n0")
    data = json.loads(json.dumps(shown(world).to_json()))
    assert data["status"] == "running"
    unit = data["units"][0]
    assert (unit["unit"], unit["node"], unit["epoch"], unit["waiting"]) == ("a.0#0", "n0", 2, 3)
    assert unit["rate_in"] == pytest.approx(200.0)
    text = drawn(world)
    assert "1.5 s" in text
    assert "2 MB" in text
    assert "spare" in text


def test_replicas_say_who_leads():
    """One publishes, the other follows; a unit alone has no part to tell."""
    world = hot()
    world.set(world.where(A), A, leads=True)
    for node in ("n0", "n1"):
        world.beat(node)
    lines = {line.split()[0]: line for line in drawn(world).splitlines() if line.strip()}
    assert "running, leads" in lines["a.0#0"]
    assert "running, follows" in lines["a.0#0~1"]
    assert "running," not in lines["b.0#0"]


def test_trouble_of_the_launcher_is_shown_until_it_is_over():
    """Told twice it is one fact; a restarted coordinator still knows; a new launch forgets."""
    world = started()
    for _ in range(2):
        world.do(e.LauncherTroubled(cause=world.cause(), trouble="cannot start a node: no room"))
    assert shown(world).trouble == "cannot start a node: no room"
    assert "warning: cannot start a node: no room" in drawn(world)
    told = [fact for fact in shown(world).timeline if fact.kind == "launch_trouble"]
    assert len(told) == 1
    world.restart_coordinator()
    assert shown(world).trouble == "cannot start a node: no room"
    world.do(e.LauncherTroubled(cause=world.cause(), trouble=""))
    assert shown(world).trouble is None
    assert "warning" not in drawn(world)
    world.do(e.LauncherTroubled(cause=world.cause(), trouble="again"))
    world.do(e.LaunchOpened(cause=world.cause(), launch="L2"))
    assert shown(world).trouble is None


def test_what_the_autoscaler_says_is_in_the_timeline_of_the_next_coordinator_too():
    """It is a fact like others, with a time and a cause, and changes nothing else."""
    world = started()
    before = shown(world)
    world.do(e.ScalingSaid(cause="scaling-1", text="count cannot be scaled further"))
    world.restart_coordinator()
    (noted,) = (fact for fact in shown(world).timeline if fact.kind == "scaling_noted")
    assert (noted.cause, noted.text) == ("scaling-1", "count cannot be scaled further")
    assert [unit.unit for unit in shown(world).units] == [unit.unit for unit in before.units]


def test_a_recovery_shows_its_phases():
    """Durations of the phases add up to the total."""
    world = started()
    world.exit("n0")
    assert shown(world).status == "recovering"
    for _ in range(2):
        world.now += 0.5
        world.run("s0")
    (recovery,) = shown(world).recoveries
    assert recovery.outcome == "caught up"
    phases = recovery.detect_s + recovery.restore_s + recovery.catch_up_s
    assert phases == pytest.approx(recovery.total_s) == pytest.approx(1.0)
    assert "node lost" in drawn(world)


def test_a_held_unit_names_operator_and_error():
    """One line per held unit, with the last line of its traceback."""
    world = started(nodes=("n0",), spares=())
    for _ in range(3):
        world.set("n0", B, state="failed", operator="parse", error="Traceback\nValueError: boom")
        world.beat("n0")
        world.advance(2.0)
    data = shown(world)
    assert data.status == "failed"
    assert failures(data) == ["b.0#0 is held (operator parse): ValueError: boom"]


def test_a_failure_is_summed_up_by_its_exception():
    """Not by what follows it, such as a Java stack or a note."""
    spark = (
        "Traceback (most recent call last):\n  File x\nValueError: poor\n\n"
        "The above exception was the direct cause\n\n"
        "pyspark.errors.exceptions.captured.PythonException: bad row\n\tat java.base/x\nat y\n"
    )
    assert summary(spark) == "pyspark.errors.exceptions.captured.PythonException: bad row"
    java = (
        "py4j.protocol.Py4JJavaError: An error occurred while calling None.X\n"
        ": org.apache.spark.SparkIllegalArgumentException: too little memory\nPlease increase\n"
    )
    assert summary(java) == "org.apache.spark.SparkIllegalArgumentException: too little memory"
    assert summary("no exception\nhere\n\n") == "here"
    assert summary("") == ""


def test_a_retry_and_a_traceback_are_shown():
    """A unit that is tried again is told apart from one that is held."""
    world = started(nodes=("n0",), spares=())
    error = "Traceback\n  deep\nValueError: boom"
    world.set("n0", B, state="failed", operator="parse", error=error)
    world.beat("n0")
    data = shown(world)
    assert retries(data) == ["b.0#0 failed and is tried again (operator parse): ValueError: boom"]
    assert failures(data) == tracebacks(data) == []
    for _ in range(3):
        world.set("n0", B, state="failed", operator="parse", error=error)
        world.beat("n0")
        world.advance(2.0)
    data = shown(world)
    assert tracebacks(data) == [f"b.0#0, operator parse:\n{error}"]
    assert retries(data) == []


def test_a_search_for_rows_shows_how_far_it_is():
    """A unit that makes no batch meanwhile says what it does, and no more once it runs again."""
    world = started(nodes=("n0",), spares=())
    doing = "looking for rows that parse fails on: 1 found, 20 of 64 left to look at"
    world.set("n0", B, state="starting", doing=doing)
    world.beat("n0")
    assert busy(shown(world)) == [f"b.0#0 is {doing}"]
    world.set("n0", B, state="running", doing=None)
    world.beat("n0")
    assert busy(shown(world)) == []


def test_a_stopping_run_says_so():
    """After a stop request the status is stopping."""
    world = started()
    world.do(e.StopRequested(cause="x"))
    assert shown(world).status == "stopping"


def test_messages_survive_the_wire():
    """Hello, heartbeat and every command are read back equal."""
    report = e.UnitReport(unit=A, generation=2, state="failed", operator="x", error="y")
    beat = e.Heartbeat(
        cause="c", node="n", incarnation="i", reports=(report,), gauges=e.Gauges(cpu=0.5)
    )
    assert codec.message_from_json(json.loads(to_line(codec.message_to_json(beat)))) == beat
    for command in started().exit("n0"):
        if command.kind == "start_unit":
            data = json.loads(to_line(codec.order_to_json(3, command)))
            assert data["command"]["unit"] == "a.0#0"
            assert codec.order_from_json(data) == (3, command)
