"""Runs that go on with other cuts: what is decided, and what is refused in one line."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from tests.unit.runtime.log.test_anew import KilledError, Mortal

from holdfast.errors import BadInputError
from holdfast.pipeline import Generator, Parquet, Pipeline, deploy
from holdfast.pipeline.stream import Stream
from holdfast.runtime.checkpoint.clone import make_checkpoint
from holdfast.runtime.log.anew import begin_anew, finish_restart, restart, with_changes
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.recut import Keeping, Recut, forget_vanished, restated, unlike
from holdfast.runtime.rescale import rescale
from holdfast.streams.handover import Birth
from holdfast.streams.records import Change, Child, Floor, Range, Slice
from holdfast.streams.steps import Put, RaiseFloor, changes, ranges, slices

pytestmark = pytest.mark.unit

STATEFUL = ("sum", "top")
ENDS = tuple(range(3, 24, 4))


def same(frame):
    return frame


def pipeline(**settings):
    made = Pipeline("recut", event_time=("ts", "1 second"))
    source = made.source("events", Generator(lambda *_: [], "ts timestamp, key string, n bigint"))
    double = source.map("double", same)
    summed = double.aggregate("sum", same, key="key", output="upsert", **settings)
    made.sink("out", summed.map("label", same, takes_upserts=True), Parquet("out"))
    return made


ALL, NONE = (deploy(pipeline(), cuts=cuts) for cuts in ("all", "none"))


def ran(deployment, *, ahead=(), commits=6, log=None):
    """A run in which all units have published these ends; some one more than the others."""
    log = log or SliceLog("/none", Mortal())
    begin(log, deployment)
    for segment in deployment.segments:
        unit = f"{segment.name}.0#0"
        ends = ENDS if segment.name in ahead else ENDS[:-1]
        for number, end in enumerate(ends):
            after = (-1, *ends)[number]
            record = Range(unit=unit, number=number, after=after, upto=end, watermark_us=end)
            log.records.execute(Put(ranges(unit), number, record))
            if segment.outputs:
                log.publish(Slice(unit=unit, number=number, after=after, upto=end))
        if segment.stateful:
            home = log.store.below(log.layout.checkpoints(unit))
            make_checkpoint(home, 0, next_batch=min(commits, len(ends)), rows=1)
    return log


def recut(log, before, after, **keeping):
    return Recut(log, before, after, Keeping(**keeping)).changes()


def asked(log, before, after):
    return {item.stream: item for item in recut(log, before, after, stateful=STATEFUL)}


def test_segments_that_fuse_take_the_state_along():
    """The stream that is left goes on from its end, with the commit that the operator has there."""
    log = ran(ALL, ahead=("events", "double", "sum"), commits=5)
    found = asked(log, ALL, NONE)
    assert list(found) == ["label", "sum", "double"]
    label = found["label"]
    assert [child.unit for child in label.children] == ["label.1#0"]
    assert (label.since, label.state, label.watermark_us) == (19, (("sum.0#0", 4),), 19)
    assert not found["sum"].children
    made = restart(log, NONE, list(found.values()))
    assert [str(unit) for unit in made.units()] == ["events.0#0", "label.1#0", "out.0#0"]
    born = log.run(log.steps().birth("label.1#0"))
    assert born == Birth(epoch=19, parents=(("sum.0#0", 4),), watermark_us=19)
    assert log.run(log.steps().ends("label", 11)) == [15, 19]


def test_segments_that_split_begin_where_they_are_read():
    """A stream that appears has what its reader needs, from the commit on that there is."""
    log = ran(NONE, ahead=("events",), commits=4)
    found = asked(log, NONE, ALL)
    assert found["sum"].since == 15
    assert found["sum"].state == (("label.0#0", 3),)
    assert (found["sum"].start, found["label"].since) == (19, 19)
    assert (found["double"].start, found["double"].since) == (15, 15)
    restart(log, ALL, list(found.values()))
    steps = log.steps()
    assert log.run(steps.birth("sum.0#0")) == Birth(
        epoch=15, parents=(("label.0#0", 3),), watermark_us=15
    )
    assert log.run(steps._stops("sum.0#0")) == (19,)
    # It stops at 19, so what it reads must have an end there.
    assert log.run(steps._stops("double.0#0")) == (15, 19)
    # What it publishes on the way was published before it, as part of the old segment.
    log.publish(Slice(unit="double.0#0", number=0, after=15, upto=23))
    log.publish(Slice(unit="sum.0#0", number=0, after=15, upto=19))
    log.publish(Slice(unit="sum.0#0", number=1, after=19, upto=23))
    assert [item.upto for item in log.run(log.steps().read("sum", 19, 23))] == [23]


def test_cuts_may_change_again_and_again():
    """A stream that vanished and appears again is carried by units of a new name."""
    log = ran(ALL)
    one = restart(log, NONE, recut(log, ALL, NONE, stateful=STATEFUL))
    home = log.store.below(log.layout.checkpoints("label.1#0"))
    record = Range(unit="label.1#0", number=0, after=19, upto=23)
    log.records.execute(Put(ranges("label.1#0"), 0, record))
    log.publish(Slice(unit="events.0#0", number=5, after=19, upto=23))
    log.publish(Slice(unit="label.1#0", number=0, after=19, upto=23))
    make_checkpoint(home, 0, next_batch=1, rows=1)
    two = restart(log, ALL, recut(log, one, ALL, stateful=STATEFUL))
    names = [str(unit) for unit in two.units()]
    assert names == ["events.0#0", "double.2#0", "sum.2#0", "label.2#0", "out.0#0"]
    assert log.run(log.steps().birth("sum.2#0")).parents == (("label.1#0", 0),)


def test_cuts_that_turned_out_badly_are_taken_back():
    """Who has committed nothing hands on what it was given, whatever it has recorded."""
    log = ran(ALL)
    made = restart(log, NONE, recut(log, ALL, NONE, stateful=STATEFUL))
    record = Range(unit="label.1#0", number=0, after=19, upto=23)
    log.records.execute(Put(ranges("label.1#0"), 0, record))
    found = asked(log, made, ALL)
    assert (found["sum"].since, found["sum"].state) == (19, (("sum.0#0", 4),))
    assert found["label"].since == 19


def test_what_a_stream_that_vanished_had_goes_when_its_heirs_have_begun():
    """Not before: their state is made of it."""
    log = ran(ALL)
    made = restart(log, NONE, recut(log, ALL, NONE, stateful=STATEFUL))
    home = log.layout.checkpoints("sum.0#0")
    forget_vanished(log, made)
    assert log.store.checkpoints(home)
    record = Range(unit="label.1#0", number=0, after=19, upto=23)
    log.records.execute(Put(ranges("label.1#0"), 0, record))
    forget_vanished(log, made)
    assert not log.store.checkpoints(home)


def test_whoever_takes_over_may_be_killed_at_any_step():
    """Before it is decided nothing has changed; from then on whoever comes next carries it out."""
    for steps in itertools.count():
        log = ran(ALL)
        changes = recut(log, ALL, NONE, stateful=STATEFUL)
        log.store.left = steps
        try:
            restart(log, NONE, changes)
        except KilledError:
            log.store.left = None
        else:
            break
        finish_restart(log, lambda _: None)
        made = with_changes(log, NONE if steps else ALL)
        assert made.segment("label").change == (1 if steps else 0)
        assert bool(log.carriers("sum")) == (not steps)
    assert steps > 9


def test_other_intervals_are_not_other_cuts():
    """Batch and snapshot intervals may change from start to start."""
    assert unlike(ALL, deploy(pipeline(), cuts="all", batch_epochs=4)) == []


def trimmed(log):
    log.records.execute(RaiseFloor(slices("events.0#0"), Floor(number=6, epoch=23)))


def forgotten(log):
    """Its only commit is later, and it was given its state by one that is gone."""
    change = Change(
        stream="sum",
        number=1,
        how="halt",
        children=(Child(unit="sum.1#0", segment="sum", groups=(0, 128)),),
        since=19,
        state=(("gone.0#0", 4),),
    )
    log.run(log.steps().decide(change))
    log.run(log.steps().carry_out("sum"))


@pytest.mark.parametrize(
    ("spoil", "commits", "line"),
    [
        (trimmed, 5, "what it needs of events after epoch 19 is trimmed"),
        (lambda _: None, 4, "it may leave out other rows after epoch 15 than it did"),
        (forgotten, 6, "no state of sum at or before epoch 19 is left"),
    ],
)
def test_what_cannot_go_on_is_refused_with_the_reason(spoil, commits, line):
    """And with what can be done instead."""
    log = ran(ALL, ahead=("events", "double", "sum"), commits=commits)
    spoil(log)
    with pytest.raises(BadInputError, match=line) as found:
        recut(log, ALL, NONE, stateful=STATEFUL, quarantining=["sum"])
    assert "the cuts it had" in str(found.value)


def test_state_that_a_second_restart_hands_on_is_kept():
    """Units that end before they have begun leave the commit that they were to begin with."""
    log = ran(ALL)
    first = restart(log, NONE, recut(log, ALL, NONE, stateful=STATEFUL))
    second = deploy(pipeline(), cuts=["double"])
    made = restart(log, second, recut(log, first, second, stateful=STATEFUL))
    home = log.layout.checkpoints("sum.0#0")
    forget_vanished(log, made)
    assert log.store.checkpoints(home)


def test_paths_that_share_state_are_not_taken_over():
    """One that is left before it has caught up would have no state for the next."""
    log = ran(ALL)
    split = [replace(item, shared_state="sum" in item.operators) for item in ALL.segments]
    with pytest.raises(BadInputError, match="the paths of sum share their state"):
        recut(log, replace(ALL, segments=tuple(split)), NONE, stateful=STATEFUL)


@pytest.mark.parametrize("settings", [{"shards": 2}, {"max_shards": 4}])
def test_other_partitions_of_an_operator_with_state_take_it_over(settings):
    """Whatever shards are asked for now, all of them get the state; Spark lays it out for them."""
    log = ran(ALL)
    after = deploy(pipeline(**settings), cuts="all")
    found = asked(log, ALL, after)["sum"]
    of = settings.get("max_shards", 1)
    assert [child.of for child in found.children] == [of] * settings.get("shards", 1)
    assert found.state == (("sum.0#0", 4),)
    assert restated(log, ALL.segment("sum"), after.segment("sum"))
    assert not restated(log, ALL.segment("sum"), ALL.segment("sum"))


@pytest.mark.parametrize("settings", [{"shards": 2}, {"max_shards": 4}, {}])
def test_what_was_asked_for_and_nobody_has_begun_is_taken_back(settings):
    """Shards that could never take over hold nobody up: those before them have the state."""
    log = ran(ALL)
    for shards in (3, 5):
        rescale(log, ALL.segment("sum"), shards, reason="test")
    after = deploy(pipeline(**settings), cuts="all" if settings else "none")
    found = asked(log, ALL, after)["sum" if settings else "label"]
    assert found.state == (("sum.0#0", 4),)
    restart(log, after, recut(log, ALL, after, stateful=STATEFUL))
    steps = log.steps()
    assert log.run(steps.birth("sum.1#0")) == log.run(steps.birth("sum.2#0")) == "void"
    born = log.run(steps.birth(found.children[0].unit))
    assert born == Birth(epoch=19, parents=(("sum.0#0", 4),), watermark_us=19)


def test_who_has_made_way_is_not_gone_on_from():
    """It runs on to where it hands over first, with the cuts it had."""
    log = ran(ALL)
    rescale(log, ALL.segment("sum"), 3, reason="test")
    log.run(log.steps().carry_out("sum"))
    with pytest.raises(BadInputError, match="no state of sum at or before epoch 19 is left"):
        recut(log, ALL, deploy(pipeline(max_shards=4), cuts="all"), stateful=STATEFUL)


def test_other_partitions_are_refused_where_state_cannot_be_laid_out():
    """Its key is not in it, its rows do not come by a key, or nobody noted how it lies now."""
    after = deploy(pipeline(max_shards=4), cuts="all")
    log = ran(ALL)
    home = log.layout.checkpoints("sum.0#0")
    schema = b'\x00{"type":"struct","fields":[{"name":"upper(key)","type":"string"}]}'
    log.store.replace(f"{home}/000000/state/0/0/_metadata/schema", schema)
    with pytest.raises(BadInputError, match=r"sum.* is kept by upper\(key\), .*holdfast scale"):
        recut(log, ALL, after, stateful=STATEFUL)
    keyless = [replace(item, key=()) for item in after.segments]
    with pytest.raises(BadInputError, match=r"sum has other shards; .*holdfast scale"):
        recut(ran(ALL), ALL, replace(after, segments=tuple(keyless)), stateful=STATEFUL)
    log = ran(ALL)
    (first,) = log.run(log.steps().changes_of("sum"))
    former = replace(first, children=tuple(replace(child, of=None) for child in first.children))
    log = SliceLog("/none", Mortal())
    log.records.execute(Put(changes("sum"), 0, former))
    with pytest.raises(BadInputError, match=r"sum has other shards; .*holdfast scale"):
        recut(ran(ALL, log=log), ALL, after, stateful=STATEFUL)


def test_an_operator_with_state_reads_as_many_logs_as_before():
    """Spark knows its state by them, so it is said what to do instead."""
    made = Pipeline("recut", event_time=("ts", "1 second"))
    one, two = (
        made.source(name, Generator(lambda *_: [], "ts timestamp, key string, n bigint"))
        for name in ("one", "two")
    )
    made.sink("out", one.union("both", two).aggregate("sum", same, key="key"), Parquet("out"))
    before, after = (deploy(made, cuts=cuts) for cuts in ("all", "none"))
    log = ran(before)
    with pytest.raises(BadInputError) as found:
        recut(log, before, after, stateful=STATEFUL)
    assert str(found.value) == (
        "sum: the plan cuts it otherwise than the run, and sum would read 2 logs and has read 1, "
        "by which Spark knows its state; use the cuts it had, --reset both, or another --run-dir"
    )


def lated(on):
    """The pipeline with a sink added behind one of its operators, with as few cuts as can be."""
    made = pipeline()
    made.sink("late", Stream(made, on), Parquet("late"))
    return deploy(made, cuts="none")


def added(log, before, after, start, **keeping):
    """What is decided if a sink is added: the epoch it begins at, and the changes by stream."""
    cuts = Recut(log, before, after, Keeping(**{"stateful": STATEFUL, **keeping}))
    epoch = cuts.first_epoch([after.segment("late")], start)
    return epoch, {item.stream: item for item in cuts.changes({"late": epoch})}


def committed(log, unit, *batches):
    """Further checkpoints of a unit, each with a commit."""
    home = log.store.below(log.layout.checkpoints(unit))
    for generation, batch in enumerate(batches, 1):
        make_checkpoint(home, generation, next_batch=batch + 1, rows=1)


def test_a_sink_added_to_a_stream_that_appears_begins_now():
    """The stream appears where its other reader goes on, which is where the sink begins too."""
    log, after = ran(NONE, ahead=("events",)), lated("sum")
    epoch, found = added(log, NONE, after, "now")
    assert epoch == 20
    assert (found["sum"].start, found["sum"].since, found["sum"].ends) == (19, 19, ())
    assert found["sum"].state == (("label.0#0", 4),)
    assert found["label"].since == 19
    made = begin_anew(log, after, {"late": epoch}, besides=list(found.values()))
    assert [str(unit) for unit in made.units()] == [
        "events.0#0",
        "sum.0#0",
        "label.1#0",
        "out.0#0",
        "late.0#0",
    ]
    assert log.run(log.steps().birth("late.0#0")) == Birth(epoch=19)


@pytest.mark.parametrize(
    ("start", "begins", "since"), [(12, 12, 11), (16, 16, 11), (8, 8, 7), ("earliest", 8, 7)]
)
def test_a_sink_added_earlier_gets_what_was_in_no_log(start, begins, since):
    """It is made again from the commit before, and those who have read it go on where they were."""
    log, after = ran(NONE, ahead=("events",), commits=5), lated("sum")
    committed(log, "label.0#0", 2, 1)
    log.records.execute(RaiseFloor(slices("events.0#0"), Floor(number=1, epoch=3)))
    epoch, found = added(log, NONE, after, start)
    assert epoch == begins
    assert (found["sum"].start, found["sum"].since) == (begins - 1, since)
    assert (found["sum"].ends, found["label"].since) == ((19,), 19)
    begin_anew(log, after, {"late": epoch}, besides=list(found.values()))
    steps = log.steps()
    assert log.run(steps._stops("sum.0#0")) == (begins - 1, 19)
    assert log.run(steps.birth("late.0#0")).epoch == begins - 1
    assert log.run(steps.birth("label.1#0")).epoch == 19


def test_a_sink_added_behind_an_operator_without_state_needs_its_input_only():
    """As far back as that is there; what keeps state behind it goes on as it was."""
    log, after = ran(NONE, ahead=("events",)), lated("double")
    log.records.execute(RaiseFloor(slices("events.0#0"), Floor(number=2, epoch=7)))
    epoch, found = added(log, NONE, after, "earliest")
    assert (epoch, found["double"].start, found["double"].ends) == (8, 7, (19,))
    assert (found["label"].since, found["label"].state) == (19, (("label.0#0", 4),))


@pytest.mark.parametrize(
    ("start", "line"),
    [
        (
            4,
            "late: cannot begin at epoch 4: so far sum is in no log, and what it needs of events "
            "after epoch -1 is trimmed; --from 8",
        ),
        (10, "late: epoch 10 is not the first after an end of events; --from 8 or --from 12"),
        (21, "late: epoch 21 lies beyond its end; --from 20"),
    ],
)
def test_an_epoch_at_which_a_sink_cannot_be_added_is_refused(start, line):
    """With one at which it can; that of the input which lies beyond its stream is no end of it."""
    log = ran(NONE, ahead=("events",), commits=5)
    committed(log, "label.0#0", 2, 1)
    log.records.execute(RaiseFloor(slices("events.0#0"), Floor(number=1, epoch=3)))
    with pytest.raises(BadInputError) as found:
        added(log, NONE, lated("sum"), start)
    assert str(found.value) == line


def test_a_sink_added_with_whole_input_begins_at_the_first_epoch():
    """Then no state is needed: what the run began with was none."""
    epoch, found = added(ran(NONE), NONE, lated("sum"), "earliest")
    assert (epoch, found["sum"].since, found["sum"].state) == (0, -1, ())
    assert (found["sum"].ends, found["label"].since) == ((19,), 19)


def test_a_sink_that_cannot_be_added_says_what_can_be_done():
    """Two states were kept as one, and the sink would take them apart."""
    with pytest.raises(BadInputError) as found:
        added(ran(NONE), NONE, lated("sum"), "now", stateful=("sum", "label"))
    assert str(found.value) == (
        "late: cannot begin at epoch 20: so far sum is in no log, and the states of sum and label "
        "were kept as one; leave it out, --reset double, or another --run-dir"
    )


def test_rows_that_were_left_out_are_not_made_again():
    """Others might be; a sink that begins now needs none of them."""
    log, after = ran(NONE, ahead=("events",)), lated("double")
    assert added(log, NONE, after, "now", quarantining=["double"])[0] == 20
    with pytest.raises(BadInputError, match=r"leave out other rows after epoch 15 .*; --from 20$"):
        added(log, NONE, after, 16, quarantining=["double"])


def test_whoever_adds_a_sink_to_a_stream_that_appears_may_be_killed_at_any_step():
    """Nothing of it, or all: the sink is never born without the stream, nor that without it."""
    after = lated("sum")
    for steps in itertools.count():
        log = ran(NONE)
        epoch, found = added(log, NONE, after, 16)
        log.store.left = steps
        try:
            begin_anew(log, after, {"late": epoch}, besides=list(found.values()))
        except KilledError:
            log.store.left = None
        else:
            break
        finish_restart(log, lambda _: None)
        assert bool(log.carriers("late")) == bool(log.carriers("sum")) == bool(steps)
        if steps:
            assert log.run(log.steps().birth("late.0#0")) == Birth(epoch=15)
    assert steps > 5


def test_what_is_divided_for_other_readers_is_not_taken_over():
    """Slices before hold rows by other keys than those that the plan's readers ask for."""
    log = ran(ALL)
    spread = [replace(item, key=("key",)) for item in ALL.segment("label").outputs]
    other = [
        replace(item, outputs=tuple(spread)) if item.name == "label" else item
        for item in ALL.segments
    ]
    with pytest.raises(BadInputError, match="what it has published is divided for other readers"):
        recut(log, ALL, replace(ALL, segments=tuple(other[:-1])), stateful=STATEFUL)
