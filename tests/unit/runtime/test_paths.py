"""Splits that take another path, on the records of a run directory."""

import contextlib
from dataclasses import replace

import pytest
from tests.unit.runtime.deployments import a_sink, deployed

from holdfast.deployment import Boundary, Segment
from holdfast.errors import BadInputError
from holdfast.runtime.log.slicelog import EndedError, SliceLog
from holdfast.runtime.log.wiring import DeploymentWiring, begin
from holdfast.runtime.paths import carried, path_of, splits, take
from holdfast.streams.handover import Birth
from holdfast.streams.records import Range, Slice
from holdfast.streams.steps import Put, ranges

pytestmark = pytest.mark.unit

DEPLOYMENT = deployed(
    Segment(name="rows", kind="source", operators=("rows",), outputs=(Boundary(operator="rows"),)),
    Segment(
        name="score",
        kind="inner",
        operators=("score",),
        inputs=("rows",),
        outputs=(Boundary(operator="score"),),
        paths=("model", "rules"),
    ),
    a_sink("out", reads="score"),
)
SPLIT = DEPLOYMENT.segment("score")


@pytest.fixture
def log(tmp_path):
    made = SliceLog(tmp_path)
    begin(made, DEPLOYMENT)
    return made


def published(log, unit, number, *, after, upto, watermark_us=None):
    """A batch: its range, then its slice."""
    record = Range(unit=unit, number=number, after=after, upto=upto, watermark_us=watermark_us)
    log.records.execute(Put(ranges(unit), number, record))
    return log.publish(Slice(unit=unit, number=number, after=after, upto=upto))


def birth(log, unit):
    return log.run(log.steps().birth(unit))


def test_a_split_begins_on_its_first_path(log):
    """The unit of the first change runs it, though that says nothing of paths."""
    assert splits(DEPLOYMENT) == (SPLIT,)
    now = carried(log, SPLIT)
    assert (now.path, now.change) == ("model", 0)
    assert path_of(log.child("score.0#0"), SPLIT) == "model"
    assert take(log, SPLIT, "model", reason="no change") is None
    assert carried(log, SPLIT).change == 0


def test_another_path_begins_where_the_one_before_was_stopped(log):
    """Whatever it still computes cannot be published; its unit is told who goes on."""
    for number in range(3):
        published(log, "score.0#0", number, after=2 * number - 1, upto=2 * number + 1)
    taken = take(log, SPLIT, "rules", reason="model hangs")
    assert (taken.change, taken.units) == (1, ("score.1#0",))
    assert birth(log, "score.1#0") == Birth(epoch=5)
    assert path_of(log.child("score.1#0"), SPLIT) == "rules"
    now = carried(log, SPLIT)
    assert (now.path, now.change, now.reason) == ("rules", 1, "model hangs")
    with pytest.raises(EndedError) as ended:
        published(log, "score.0#0", 3, after=5, upto=7)
    assert ended.value.heirs == ("score.1#0",)


def test_a_path_that_never_ran_can_be_left_again(log):
    """It is sealed where it was born, so nothing is skipped and nothing waits for it."""
    published(log, "score.0#0", 0, after=-1, upto=4)
    take(log, SPLIT, "rules", reason="there")
    take(log, SPLIT, "model", reason="and back")
    assert birth(log, "score.1#0") == birth(log, "score.2#0") == Birth(epoch=4)
    assert carried(log, SPLIT).path == "model"
    with pytest.raises(EndedError) as ended:
        published(log, "score.1#0", 0, after=4, upto=6)
    assert ended.value.heirs == ("score.2#0",)


def test_who_comes_second_changes_nothing(log, tmp_path):
    """Two that ask for the same path at once make one change."""
    other = SliceLog(tmp_path)
    assert take(log, SPLIT, "rules", reason="first").change == 1
    assert take(other, SPLIT, "rules", reason="second") is None
    assert carried(other, SPLIT).reason == "first"


def test_the_input_of_all_paths_is_pinned(log):
    """Who trims asks what a unit on another path reads."""
    wiring = DeploymentWiring(deployment=DEPLOYMENT)
    take(log, SPLIT, "rules", reason="there")
    assert list(wiring.inputs(log.child("score.1#0").segment)) == ["rows"]


def test_unknown_paths_are_refused(log):
    """With the names there are."""
    with pytest.raises(BadInputError, match="score: no path 'x'; there are: model, rules"):
        take(log, SPLIT, "x", reason="typo")


def test_paths_that_share_state_go_on_with_that_of_the_last_batch_published(log):
    """The unit that has it, and the batch, follow from the records; it may not be committed."""
    shared = replace(SPLIT, stateful=True, shared_state=True)
    published(log, "score.0#0", 0, after=-1, upto=3)
    published(log, "score.0#0", 1, after=3, upto=5)
    log.records.execute(
        Put(ranges("score.0#0"), 2, Range(unit="score.0#0", number=2, after=5, upto=8))
    )
    take(log, shared, "rules", reason="test")
    assert birth(log, "score.1#0") == Birth(epoch=5, parents=(("score.0#0", 1),), shared=True)
    # Left before it has run anything, it may not even have taken over the state: so others do.
    take(log, shared, "model", reason="test")
    take(log, shared, "rules", reason="test")
    assert birth(log, "score.3#0") == Birth(epoch=5, parents=(("score.0#0", 1),), shared=True)


def test_paths_that_share_state_know_its_watermark(log):
    """That of the last batch published: their first slice promises what was promised before."""
    shared = replace(SPLIT, stateful=True, shared_state=True)
    published(log, "score.0#0", 0, after=-1, upto=3, watermark_us=30)
    published(log, "score.0#0", 1, after=3, upto=5, watermark_us=50)
    take(log, shared, "rules", reason="test")
    assert birth(log, "score.1#0").watermark_us == 50
    # Whoever was left before it had run anything knew it as well.
    take(log, shared, "model", reason="test")
    assert birth(log, "score.2#0").watermark_us == 50


@pytest.mark.parametrize("shards", [1, 2])
def test_births_of_paths_left_in_quick_succession_stay_cheap(log, shards):
    """Each switch before any path has run adds as many questions as the one before, not twice."""

    def asked_after(switches):
        """How many operations the birth of the newest unit takes."""
        shared = replace(SPLIT, stateful=True, shared_state=True, shards=shards)
        for number in range(switches):
            take(log, shared, ("rules", "model")[number % 2], reason="test")
        newest = carried(log, shared).change
        steps, count, answer = log.steps().birth(f"score.{newest}#0"), 0, None
        with contextlib.suppress(StopIteration):
            while True:
                answer = log.records.execute(steps.send(answer))
                count += 1
        return count

    first, second, third = (asked_after(8) for _ in range(3))
    assert third - second <= 2 * (second - first)
