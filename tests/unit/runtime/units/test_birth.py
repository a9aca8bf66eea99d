"""Units that are to take over: they are ready before anyone hands over to them."""

import pytest

from holdfast.deployment import Boundary, Deployment, Segment, UnitId
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog, SupersededError
from holdfast.runtime.log.trim import Trimmer
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.rescale import rescale
from holdfast.runtime.units.birth import PATIENCE_S, await_birth, is_awaited
from holdfast.runtime.units.progress import Progress
from holdfast.runtime.units.threads import UnitContext
from holdfast.storage.memory import MemoryStorage
from holdfast.streams.records import Range
from holdfast.streams.steps import Put, ranges

pytestmark = pytest.mark.unit

LINES = Segment(
    name="lines",
    kind="source",
    operators=("lines",),
    outputs=(Boundary(operator="lines", key=("word",)),),
)
COUNT = Segment(
    name="count",
    kind="inner",
    operators=("count",),
    inputs=("lines@word",),
    outputs=(Boundary(operator="count"),),
    max_shards=4,
    stateful=True,
)
DEPLOYMENT = Deployment(pipeline="p", epoch_s=1.0, segments=(LINES, COUNT), fingerprints={})
PARENT, FIRST, SECOND = "count.0#0", "count.1#0", "count.1#1"


class Clock:
    """Stands still unless it is told not to."""

    def __init__(self):
        self.at = 0.0

    def now(self):
        return self.at


class Stopping:
    """What happens while a unit waits, one thing a look; then it is told to stop."""

    def __init__(self, *happens):
        self.left = list(happens)

    def wait(self, timeout_s):
        if not self.left:
            return True
        self.left.pop(0)()
        return False


@pytest.fixture
def log():
    made = SliceLog("run", MemoryStorage())
    begin(made, DEPLOYMENT)
    item = Range(unit=PARENT, number=0, after=-1, upto=3)
    made.records.execute(Put(ranges(PARENT), 0, item))
    rescale(made, COUNT, 2, reason="test")
    return made


def context(log, unit, clock=None):
    return UnitContext(
        unit=UnitId.parse(unit),
        generation=1,
        segment=COUNT,
        deployment=DEPLOYMENT,
        log=log,
        trimmer=Trimmer(log, DEPLOYMENT),
        crash=Crash(),
        clock=clock or Clock(),
    )


def turned(log):
    return log.run(log.steps().turn_of(PARENT)) is not None


def wait(log, *happens, clock=None):
    """The first child waits; gives its birth, None if it was stopped before."""
    made = context(log, FIRST, clock)
    log.claim(FIRST, 1)
    progress = Progress(made.unit, 1)
    try:
        return await_birth(made, log.steps(), progress, Stopping(*happens))
    except SupersededError:
        return None


def hand_over(log):
    """The parent has committed what it was at, and looks what is next."""
    steps = log.steps()
    position = log.run(steps.position_at(PARENT, 1))
    log.run(steps.next_step(PARENT, position, (), lambda *_: None))


def test_who_is_to_take_over_is_awaited(log):
    """Not those that the run began with, and not once the parents have handed over."""
    assert not is_awaited(context(log, PARENT), log.steps())
    assert is_awaited(context(log, FIRST), log.steps())
    log.claim(SECOND, 1)
    assert wait(log, lambda: hand_over(log)).epoch == 3
    assert not is_awaited(context(log, FIRST), log.steps())


def test_parents_go_on_until_all_are_ready(log):
    """Nobody turns before every child has claimed what is to be its own."""
    seen = []
    assert wait(log, lambda: seen.append(turned(log)), lambda: seen.append(turned(log))) is None
    assert seen == [False, False]
    assert not turned(log)
    log.claim(SECOND, 1)
    assert wait(log, lambda: hand_over(log)).parents == ((PARENT, 0),)


def test_one_that_never_gets_ready_does_not_hold_up_the_change(log):
    """After a while the parents turn all the same."""
    clock = Clock()

    def pass_time():
        clock.at += PATIENCE_S

    wait(log, pass_time, clock=clock)
    assert turned(log)
