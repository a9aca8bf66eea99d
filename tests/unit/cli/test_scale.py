"""`holdfast scale`: what it refuses, and what it says of what is not done yet."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.deployment import Boundary, Deployment, Segment
from holdfast.errors import BadInputError, CheckFailedError
from holdfast.health.policy import Policy
from holdfast.rundir.spec import RunSpec, write_spec
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.rescale import shape_of
from holdfast.streams.records import Seal
from holdfast.streams.steps import Put, slices

pytestmark = pytest.mark.unit

COUNT = Segment(name="count", kind="inner", operators=("count",), max_shards=4, stateful=True)
OTHER = Segment(name="best", kind="inner", operators=("rate", "best"), max_shards=8, stateful=True)
FIXED = Segment(name="sum", kind="inner", operators=("sum",), stateful=True)
KEYED = Segment(
    name="fixed",
    kind="inner",
    operators=("fixed",),
    inputs=(),
    stateful=True,
    key=("word",),
    outputs=(Boundary(operator="fixed"),),
)
READ = replace(KEYED, name="read", operators=("read",), inputs=("fixed",), outputs=())
ALSO = replace(READ, name="also", operators=("also",))
SEGMENTS = (COUNT, OTHER, FIXED, KEYED, READ, ALSO)
DEPLOYMENT = Deployment(pipeline="p", epoch_s=1.0, segments=SEGMENTS, fingerprints={})


@pytest.fixture
def scale(tmp_path):
    """The command on a run directory whose units do not run."""
    write_spec(tmp_path, RunSpec(app="", host="fake", deployment=DEPLOYMENT, policy=Policy()))
    begin(SliceLog(tmp_path), DEPLOYMENT)

    def run(*words):
        done = CliRunner().invoke(app, ["scale", *words, "--run-dir", str(tmp_path)])
        run.said = done.stderr
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    run.folder = tmp_path
    return run


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["count"], "OPERATOR=SHARDS"),
        (["count=two"], "OPERATOR=SHARDS"),
        (["count=8"], "1 to 4"),
        (["sum=2"], "its rows are not laid out by a key before it; one that may scale declares"),
        (["fixed#0=2"], "cannot be split one by one; fixed=N, or declare max_shards"),
        (["fixed=129"], "1 to 128"),
        (["read=100"], "128 shards could wait .* 64 task slots; declare max_shards=128 or more"),
        (
            ["read=32", "also=32"],
            "also: 32 shards could wait .* in 64 tasks at once, and the nodes",
        ),
        (["cuont=2"], "scalable: count"),
        (["count#3=2"], "no such shard"),
        (["count.0#0=8"], "it has 4 state partitions"),
        (["count=²"], "OPERATOR=SHARDS"),
        (["count=2", "best=16"], "1 to 8"),
        (["count=2", "best#3=2"], "no such shard"),
        (["count=2", "count#1=2"], "count=2, count#1=2 are one operator"),
        (["best=2", "rate=4"], "are one operator"),
        (["count#0=2", "count.0#0=4"], "meant more than once"),
    ],
)
def test_what_cannot_be_done_is_refused(scale, words, message):
    """Nothing is put then."""
    with pytest.raises(BadInputError, match=message):
        scale(*words)
    assert len(shape_of(SliceLog(scale.folder), COUNT)) == 1


def test_what_is_asked_is_on_record_though_nothing_runs(scale):
    """The command ends in time and says so; whoever runs the units next carries it out."""
    with pytest.raises(CheckFailedError, match="not done yet"):
        scale("count=4", "--timeout", "200ms")
    assert len(shape_of(SliceLog(scale.folder), COUNT)) == 4


def test_shards_that_were_asked_for_before_take_their_room(scale):
    """Two operators that fit one by one may wait for each other for ever in the same slots."""
    with pytest.raises(CheckFailedError, match="not done yet"):
        scale("read=32", "--timeout", "1ms")
    with pytest.raises(BadInputError, match="also: 32 shards could wait"):
        scale("also=32")
    with pytest.raises(CheckFailedError, match="not done yet"):
        scale("also=4", "--timeout", "1ms")


def test_a_shape_that_is_there_already_needs_nothing(scale):
    """With --json, stdout is one object."""
    done = scale("count=1", "--json")
    assert json.loads(done.stdout) == {"changes": [], "asked": 0}


def test_several_shards_are_split_as_they_are_called_now(scale):
    """Also by their numbers, though the first split makes another shard number one."""
    for words in (["count=2"], ["count#0=2", "count#1=2", "best=2"]):
        with pytest.raises(CheckFailedError, match="not done yet"):
            scale(*words, "--timeout", "1ms")
    log = SliceLog(scale.folder)
    assert (len(shape_of(log, COUNT)), len(shape_of(log, OTHER))) == (4, 2)


def test_what_is_under_way_already_is_not_done(scale):
    """Asked again, it is waited for again: nothing new is put, and it is not said to be there."""
    for _ in range(2):
        with pytest.raises(CheckFailedError, match="not done yet"):
            scale("count=2", "--timeout", "1ms")
    log = SliceLog(scale.folder)
    assert len(log.run(log.steps().changes_of("count"))) == 2


def test_what_takes_longer_is_said_beforehand(scale):
    """And what would have avoided it; of splits by links nothing."""
    for words, said in ((["count=2"], False), (["fixed=3"], True), (["fixed=2"], False)):
        with pytest.raises(CheckFailedError, match="not done yet"):
            scale(*words, "--timeout", "1ms")
        assert ("so Spark repartitions it: all its shards hand over" in scale.said) == said
        assert ("max_shards=4 or more, declared before it is needed" in scale.said) == said
    log = SliceLog(scale.folder)
    assert [child.of for child in log.carriers("fixed")] == [4, 4]


class Coordinator:
    """Says that some units are held, and notes which are tried again."""

    def __init__(self, *held):
        self.held, self.retried = list(held), []

    def __call__(self, directory):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def hand_over(self, **_):
        pass

    def status(self):
        units = [
            SimpleNamespace(
                unit=unit,
                phase="held",
                error="Traceback\nholdfast.errors.BadInputError: it moves rows\n",
            )
            for unit in self.held
        ]
        return SimpleNamespace(units=units)

    def retry(self, unit):
        self.retried.append(unit)


def test_why_heirs_cannot_take_over_is_said_at_once(scale, monkeypatch):
    """With what takes it back; asked for that, those who are held are let try again."""
    there = Coordinator("fixed.1#1", "count.0#0")
    monkeypatch.setattr("holdfast.control.client.ControlClient", there)
    monkeypatch.setattr("holdfast.runtime.rescale.ControlClient", there)
    took = "fixed.1#1 cannot take over: it moves rows; holdfast retry fixed.1#1 tries"
    with pytest.raises(CheckFailedError, match=f"{took} .*, holdfast scale fixed=1 takes back"):
        scale("fixed=3", "--timeout", "60s")
    with pytest.raises(CheckFailedError, match=took):
        scale("fixed=3", "--timeout", "60s")
    assert there.retried == ["fixed.1#1"]  # when it was put
    log = SliceLog(scale.folder)
    log.run(log.steps().carry_out("fixed"))
    seal = Seal(unit="fixed.0#0", number=0, change=1, how="run", end=-1, batch=-1)
    log.records.execute(Put(slices("fixed.0#0"), 0, seal))
    with pytest.raises(CheckFailedError, match="it moves rows"):
        scale("fixed=1", "--timeout", "1ms")
    assert there.retried == ["fixed.1#1"] * 2  # its parents have ended, so only this one names it
    (last,) = log.carriers("fixed")
    assert (last.unit, last.groups, last.of) == ("fixed.2#0", (0, 128), 1)
