"""Whether a run directory can be resumed: what cannot begin is refused before anything starts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache

import pytest

from holdfast.cli.resume import (
    Starts,
    announced,
    check_resume,
    require_unchanged,
    reset_operators,
)
from holdfast.errors import BadInputError
from holdfast.health.policy import Policy
from holdfast.pipeline import Parquet, Pipeline, Rate, deploy
from holdfast.rundir.spec import RunSpec, write_spec
from holdfast.runtime.launch.children import ProcessList, ProcessRecord
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.trim import Trimmer
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.node.processes import ProcessId
from holdfast.streams.records import Range, Slice
from holdfast.streams.steps import Put, ranges

pytestmark = pytest.mark.unit

BATCHES = 40


def same(frame):
    return frame


def make_pipeline(*, late="", most=None):
    """With a sink added behind an operator, if one is given, and `most` shards of the counts."""
    pipeline = Pipeline("p", epoch="1s")
    mapped = pipeline.source("numbers", Rate(rows_per_second=1)).map("double", same)
    counted = mapped.aggregate("count", same, key="value", max_shards=most)
    pipeline.sink("out", counted, Parquet("out"))
    if late:
        pipeline.sink("late", {"double": mapped, "count": counted}[late], Parquet("late"))
    return pipeline


def make_spec(*, late="", cuts="all", most=None):
    deployment = deploy(make_pipeline(late=late, most=most), cuts=cuts)
    return RunSpec(app="", host="spark", deployment=deployment, policy=Policy(), options={})


@pytest.fixture
def sleeper():
    """A process that a run directory lists as its own."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:

        def listed(run_dir):
            started = ProcessId.of(process.pid).started
            told = {"kind": "node", "name": "n0", "launch": "sleeper", "started": started}
            ProcessList(run_dir).add(ProcessRecord(pid=process.pid, **told))

        yield listed
        process.communicate(b"\n")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of forty batches, trimmed as units would; `keep_input` as given. Made once each."""

    @cache
    def build(keep_input, trim):
        folder = tmp_path_factory.mktemp("run")
        spec = make_spec()
        write_spec(folder, spec)
        log = SliceLog(folder)
        begin(log, spec.deployment)
        for number in range(BATCHES):
            for segment in spec.deployment.segments:
                unit = f"{segment.name}.0#0"
                told = {"unit": unit, "number": number, "after": number - 1, "upto": number}
                log.records.execute(Put(ranges(unit), number, Range(**told)))
                if segment.outputs:
                    log.publish(Slice(**told))
        trimmer = Trimmer(log, spec.deployment, keep_input=keep_input)
        for segment in spec.deployment.segments if trim else ():
            trimmer.trim(f"{segment.name}.0#0")
        for unit in ("double.0#0", "count.0#0"):
            checkpoint(folder / "checkpoints" / unit / "000001", BATCHES - 1)
        return folder

    return build


@pytest.fixture
def run(tmp_path, runs):
    """A run that the test may change."""

    def copied(*, keep_input=False, trim=True):
        return shutil.copytree(runs(keep_input, trim), tmp_path, dirs_exist_ok=True)

    return copied


def checkpoint(path, committed):
    """What Spark keeps of a query with one task that has committed a batch."""
    for folder in ("commits", "offsets"):
        (path / folder).mkdir(parents=True)
    (path / "commits" / str(committed)).write_text("v1\n{}")
    (path / "offsets" / str(committed)).write_text(
        "v1\n{}\n" + json.dumps({"offset": committed + 1, "timestamp": 0})
    )


def refused(run_dir, spec, reset=(), starts=()):
    with pytest.raises(BadInputError) as found:
        check_resume(run_dir, spec, reset, Starts.parse(starts))
    assert "\n" not in str(found.value)
    return str(found.value)


def test_a_trimmed_run_is_resumed(run):
    """Nothing is in the way of what goes on from its checkpoint or its records."""
    assert check_resume(run(), make_spec(), ())


def test_a_reset_of_trimmed_input_is_refused(run):
    """It says which epoch it could begin with, and how to ask for that."""
    where = run()
    line = refused(where, make_spec(), ["count"])
    assert "--from 29" in refused(where, make_spec(), ["count"], ["28"])
    assert line.startswith("count.0#0: cannot begin at epoch 0: the first slices of its input ")
    assert "all of its input is there from epoch 29 on; run with --from 29" in line
    assert "choose another --run-dir" in line


@pytest.mark.parametrize(
    ("words", "epoch"), [(["29"], 29), (["earliest"], 29), (["now"], 40), (["count=33"], 33)]
)
def test_what_is_reset_begins_where_it_is_told(run, words, epoch):
    """With all that read from it; what it read is there from that epoch on."""
    where = run()
    found = check_resume(where, make_spec(), ["count"], Starts.parse(words))
    assert found.fresh == {"count": epoch, "out": epoch}
    spec = reset_operators(where, found).spec
    assert [str(unit) for unit in spec.deployment.units()] == [
        "numbers.0#0",
        "double.0#0",
        "count.1#0",
        "out.1#0",
    ]
    write_spec(where, spec)
    again = check_resume(where, make_spec(), ())
    assert again.spec.deployment == spec.deployment


@pytest.mark.parametrize(
    ("reset", "starts", "said"),
    [
        ((), ["now"], "--from: nothing is reset or added there"),
        ((), ["count=3"], "--from count=: nothing is reset or added there"),
        ((), ["out=3"], "--from out=: nothing is reset or added there; the run has it already"),
        (["count"], ["soon"], "--from soon: is not an epoch, now or earliest"),
        (["count"], ["3", "4"], "--from: is said twice"),
        (["count"], ["nobody=3"], "--from nobody: no such operator"),
        (["nobody"], [], "--reset nobody: no such operator"),
        (["double", "count"], ["count=35", "30"], "count: would begin at epochs 30 and 35"),
    ],
)
def test_what_makes_no_sense_is_refused(run, reset, starts, said):
    """In one line, before anything is put."""
    where = run()
    with pytest.raises(BadInputError) as error:
        check_resume(where, make_spec(), reset, Starts.parse(starts))
    assert str(error.value).startswith(said) or "would begin at epochs" in str(error.value)


def test_what_went_on_since_the_look_is_looked_at_again(run):
    """A run that was stopped a moment ago may have published more: the decision counts that in."""
    where = run()
    found = check_resume(where, make_spec(), ["count"], Starts.parse(["now"]))
    log = SliceLog(where)
    for unit in ("numbers.0#0", "double.0#0"):
        told = {"unit": unit, "number": BATCHES, "after": BATCHES - 1, "upto": BATCHES}
        log.records.execute(Put(ranges(unit), BATCHES, Range(**told)))
        log.publish(Slice(**told))
    assert found.fresh == {"count": 40, "out": 40}
    assert reset_operators(where, found).fresh == {"count": 41, "out": 41}


def test_nothing_is_looked_at_or_decided_while_the_run_is_alive(run, sleeper):
    """What its units have would move on; and the next `run` waits while one decides."""
    where = run()
    found = check_resume(where, make_spec(), ["count"], Starts.parse(["now"]))
    sleeper(where)
    for act in (
        lambda: check_resume(where, make_spec(), ()),
        lambda: reset_operators(where, found),
    ):
        with pytest.raises(BadInputError, match=r"is in use by processes \d+; stop that run first"):
            act()
    assert SliceLog(where).run(SliceLog(where).steps().newest_restart()) is None


def test_other_cuts_take_over_and_it_is_said_what(run):
    """A segment of the new plan goes on with the state of its operator; the old stream ends."""
    where = run(trim=False)
    spec, operators = make_spec(cuts="none"), make_pipeline().operators
    found = check_resume(where, spec, (), operators=operators)
    told = (
        "other cuts take over: count goes on from epoch 40 with the state of count, "
        "double is no stream any more"
    )
    assert announced(found) == told
    made = reset_operators(where, found)
    assert announced(made) == told
    assert [str(unit) for unit in made.spec.deployment.units()] == [
        "numbers.0#0",
        "count.1#0",
        "out.0#0",
    ]
    again = check_resume(where, spec, (), operators=operators)
    assert not again.recut


def test_who_looked_before_others_decided_does_not_start(run):
    """Two start a run at once: what the second knows of it is no longer true."""
    where = run(trim=False)
    second = check_resume(where, make_spec(), ())
    require_unchanged(where, second.spec.deployment)
    first = check_resume(where, make_spec(cuts="none"), (), operators=make_pipeline().operators)
    first = reset_operators(where, first)
    require_unchanged(where, first.spec.deployment)
    with pytest.raises(BadInputError, match="cut otherwise by somebody else meanwhile; start it"):
        require_unchanged(where, second.spec.deployment)


def test_other_cuts_can_be_refused(run):
    """As `run --no-recut` does; and not together with a reset."""
    where, spec = run(trim=False), make_spec(cuts="none")
    assert refused(where, spec) == (
        "count: the plan cuts or shards it otherwise than when this run began; "
        "use the same plan, leave out --no-recut, --reset double, or another --run-dir"
    )
    with pytest.raises(BadInputError, match="reset at one start, and change the cuts at another"):
        check_resume(where, spec, ["out"], operators=make_pipeline().operators)


def test_changed_code_is_told_how_to_begin_where_its_input_is_there(run):
    """With all that must be said: an epoch alone resets nothing."""
    where, spec = run(), make_spec()
    prints = {**spec.deployment.fingerprints, "count": "other"}
    changed = replace(spec, deployment=replace(spec.deployment, fingerprints=prints))
    line = refused(where, changed)
    assert "use the same code, or run with --reset count --from 29, or" in line
    assert check_resume(where, changed, ["count"], Starts.parse(["29"])).fresh["count"] == 29


def test_other_max_shards_are_no_other_code(run):
    """State goes over to them, and it is said that Spark has work to do; not with --no-recut."""
    where, spec = run(trim=False), make_spec(most=4)
    found = check_resume(where, spec, (), operators=make_pipeline(most=4).operators)
    assert announced(found) == (
        "other cuts take over: count goes on from epoch 40 with the state of count, "
        "which Spark repartitions into 4"
    )
    write_spec(where, reset_operators(where, found).spec)
    for most, said in ((4, ""), (2, "which Spark repartitions into 2"), (1, "into 1")):
        spec, operators = make_spec(most=most), make_pipeline(most=most).operators
        again = check_resume(where, spec, (), operators=operators)
        assert announced(again).endswith(said)
        assert bool(again.recut) == (most != 4)
    assert "its code or options have changed" in refused(where, make_spec(most=2))


def test_a_sink_that_is_added_says_where_it_begins(run):
    """Then it is no change of the run's code, and everything else goes on."""
    where = run()
    found = check_resume(where, make_spec(late="count"), (), Starts.parse(["late=now"]))
    assert found.fresh == {"late": 40}
    made = reset_operators(where, found).spec.deployment
    assert "late.0#0" in map(str, made.units())
    change = SliceLog(where).run(SliceLog(where).steps().changes_of("late"))[0]
    assert (change.start, change.number, change.how) == (39, 0, "run")


@pytest.mark.parametrize("start", ["now", "earliest", "36"])
def test_a_sink_is_added_behind_a_fused_operator_at_one_start(run, start):
    """The stream appears and the sink begins in one restart; a second start changes nothing."""
    where = run(trim=False)
    fused = check_resume(where, make_spec(cuts="none"), (), operators=make_pipeline().operators)
    write_spec(where, reset_operators(where, fused).spec)
    spec, operators = make_spec(late="double", cuts="none"), make_pipeline(late="double").operators
    begin = Starts.parse([f"late={start}"])
    found = check_resume(where, spec, (), begin, operators=operators)
    epoch = {"now": 40, "earliest": 0, "36": 36}[start]
    assert announced(found) == (
        f"late begins at epoch {epoch}; other cuts take over: count goes on from epoch 40 with the "
        f"state of count, double goes on from epoch {epoch}"
    )
    made = reset_operators(where, found).spec
    units = ["numbers.0#0", "double.2#0", "count.2#0", "out.0#0", "late.0#0"]
    assert [str(unit) for unit in made.deployment.units()] == units
    write_spec(where, made)
    again = check_resume(where, spec, (), operators=operators)
    assert (again.recut, again.fresh) == ((), {})
    assert [str(unit) for unit in again.spec.deployment.units()] == units


def test_a_sink_that_needs_another_cut_says_so_where_cuts_must_stay(run):
    """With `--no-recut`; and where it is not said where it begins, that is asked first."""
    where = run(trim=False)
    spec = make_spec(cuts="none")
    write_spec(
        where,
        reset_operators(
            where, check_resume(where, spec, (), operators=make_pipeline().operators)
        ).spec,
    )
    line = refused(where, make_spec(late="double", cuts="none"), (), ["late=now"])
    assert line.startswith("double: the plan cuts or shards it otherwise")
    assert "leave out --no-recut" in line
    assert "--from late=now" in refused(where, make_spec(late="double", cuts="none"))


@pytest.mark.parametrize("streams", [(), ("out", "count")])
@pytest.mark.parametrize("words", [["late=now"], ["late=earliest"], ["late=0"]])
def test_a_run_that_was_killed_while_it_began_is_gone_on_with(tmp_path, streams, words):
    """What it was to begin with is put first, whatever is asked for then."""
    spec = make_spec(cuts="none")
    write_spec(tmp_path, spec)
    kept = [item for item in spec.deployment.segments if item.name in streams]
    begin(SliceLog(tmp_path), replace(spec.deployment, segments=tuple(kept)))
    late, operators = make_spec(late="double", cuts="none"), make_pipeline(late="double").operators
    found = check_resume(tmp_path, late, (), Starts.parse(words), operators=operators)
    assert found.fresh == {"late": 0}
    assert [change.start for change in found.recut] == [None, -1]
    made = reset_operators(tmp_path, found).spec.deployment
    assert [str(unit) for unit in made.units()][1:3] == ["double.0#0", "count.1#0"]


def test_intervals_may_change_from_start_to_start(run):
    """Records decide what a batch reads, whatever the interval was."""
    where = run()
    spec = make_spec()
    slower = [
        replace(item, batch_epochs=4, snapshot_batches=3) for item in spec.deployment.segments
    ]
    deployment = replace(spec.deployment, segments=tuple(slower))
    assert check_resume(where, replace(spec, deployment=deployment), ())


def test_a_late_sink_with_trimmed_input_is_refused(run):
    """Also when it is asked for with --reset, as a new operator must be."""
    line = refused(run(), make_spec(late="count"), ["late"])
    assert line.startswith("late.0#0: cannot begin at epoch 0: the first slices of its input count")


def test_a_late_sink_is_asked_where_it_begins(run):
    """Nothing is guessed."""
    line = refused(run(), make_spec(late="count"))
    assert line == (
        "late: is new since this run began; say where it begins: --from late=now, earliest or an "
        "epoch; or choose another --run-dir"
    )


def test_kept_input_offers_the_reset_that_works(run):
    """What is trimmed further down is made again from the kept source on."""
    where = run(keep_input=True)
    line = refused(where, make_spec(), ["count"])
    assert "run with --reset double, whose input is whole" in line
    found = check_resume(where, make_spec(), ["double"])
    assert found.fresh == {"double": 0, "count": 0, "out": 0}
    write_spec(where, reset_operators(where, found).spec)
    assert check_resume(where, make_spec(), ())


def test_a_reset_reads_static_tables_anew(run):
    """Those of the operators that are reset; others keep what the run began with."""
    where = run(keep_input=True, trim=False)
    for operator in ("numbers", "double"):
        (where / "tables" / operator).mkdir(parents=True)
    reset_operators(where, check_resume(where, make_spec(), ["double"]))
    assert (where / "tables" / "numbers").exists()
    assert not (where / "tables" / "double").exists()


def test_a_vanished_checkpoint_is_refused(run):
    """Unless it can be rebuilt, because nothing is trimmed."""
    where = run()
    shutil.rmtree(where / "checkpoints" / "count.0#0")
    line = refused(where, make_spec())
    assert line.startswith("count.0#0: its checkpoint is gone, and it cannot begin with batch 0")
    assert "put checkpoints/count.0#0 back" in line
    checkpoint(where / "checkpoints" / "count.0#0" / "000001", 5)
    assert "its checkpoint is too old, and it" in refused(where, make_spec())


def test_a_vanished_checkpoint_without_state_is_rebuilt(run):
    """Its next batch follows from the records, whatever is trimmed."""
    where = run()
    shutil.rmtree(where / "checkpoints" / "double.0#0")
    assert check_resume(where, make_spec(), ())
    checkpoint(where / "checkpoints" / "double.0#0" / "000001", 5)
    assert check_resume(where, make_spec(), ())


def test_a_vanished_checkpoint_of_a_whole_log_is_rebuilt(run):
    """All ranges and slices are there from batch 0 on."""
    where = run(trim=False)
    assert "--from late=now" in refused(where, make_spec(late="count"))
    shutil.rmtree(where / "checkpoints")
    assert check_resume(where, make_spec(), ())
    assert check_resume(where, make_spec(late="count"), ["late"])


@pytest.mark.parametrize(("offset", "refused"), [("7", True), (None, False)])
def test_a_source_of_sparks_own_needs_its_checkpoint(run, offset, refused):
    """Records say how far it had read; only a checkpoint takes Spark there."""
    folder = run()
    log = SliceLog(folder)
    position = {"offset": offset, "start": None, "batch": 1, "watermark_us": None}
    record = Range(unit="numbers.0#0", number=BATCHES, after=39, upto=40, source=position)
    log.records.execute(Put(ranges(record.unit), BATCHES, record))
    if not refused:
        assert check_resume(folder, make_spec(), [])
        return
    with pytest.raises(BadInputError, match="only that can tell Spark where") as error:
        check_resume(folder, make_spec(), [])
    assert "checkpoints/numbers.0#0 back" in str(error.value)
    checkpoint(folder / "checkpoints" / "numbers.0#0" / "000001", 3)
    assert check_resume(folder, make_spec(), [])


@pytest.mark.parametrize("words", [["²"], ["9" * 5000], ["count=²"], ["count=1", "count=2"]])
def test_words_that_are_no_epoch_are_refused_in_one_line(words):
    """Digits of other scripts, more than any clock counts, and one operator twice."""
    with pytest.raises(BadInputError):
        Starts.parse(words)
