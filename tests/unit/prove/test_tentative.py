"""What a proof tells of results that went on without an input."""

from dataclasses import replace

import pytest
from tests.unit.runtime.deployments import a_sink, deployed

from holdfast.control.status import ForkUnitView, ForkView
from holdfast.deployment import Boundary, Segment
from holdfast.prove.tentative import Fork, ForkWatch, Piece, Worth, words, worth_of
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.streams.records import Floor, Slice
from holdfast.streams.steps import RaiseFloor, slices

pytestmark = pytest.mark.unit

DEPLOYMENT = deployed(
    Segment(
        name="count",
        kind="inner",
        operators=("count",),
        inputs=("lines",),
        outputs=(Boundary(operator="count"),),
    ),
    a_sink("out", reads="count"),
)
FORK = ForkView(
    fork=1,
    began_at=1002.0,
    ended_at=None,
    reason="lines.0#1 gone for 2.0 s",
    why="",
    silent=("lines.0#1",),
    fidelity={"out": 0.5},
    units=tuple(
        ForkUnitView(unit=f"{name}+1.0#0", node="n1", generation=1, running=True, epoch=None)
        for name in ("count", "out")
    ),
)


def piece(after, upto, rows, *, missing=("lines.0#1",), put_at=0.0):
    return Piece(after=after, upto=upto, rows=rows, missing=missing, put_at=put_at)


def test_a_fork_is_worth_the_share_of_the_exact_rows_that_it_had():
    """Over the epochs in which it lacked something, however either side divides them."""
    tentative = [piece(3, 4, 9, missing=()), piece(4, 6, 4), piece(6, 8, 6)]
    exact = [piece(3, 4, 9, missing=())] + [piece(n, n + 1, 5, missing=()) for n in range(4, 10)]
    assert worth_of(0.5, tentative, exact) == Worth(predicted=0.5, measured=0.5)


def test_what_gave_no_rows_is_worth_nothing_known():
    """Neither a fork that lacked nothing, nor one whose epochs have no exact rows."""
    assert worth_of(None, [piece(3, 4, 9, missing=())], [piece(3, 4, 9)]).measured is None
    assert worth_of(0.5, [piece(3, 4, 9)], []).measured is None


def test_forks_are_watched_while_they_live(tmp_path):
    """Their slices, and the exact ones that come later; a fork before the fault is another's."""
    log = SliceLog(tmp_path)
    watch = ForkWatch(tmp_path, DEPLOYMENT)

    def put(unit, number, rows, missing=()):
        item = Slice(
            unit=unit, number=number, after=number - 1, upto=number, rows=rows, missing=missing
        )
        log.publish(replace(item, digest=f"{unit} {number}"))

    put("count.0#0", 0, 10)
    old = replace(FORK, fork=0, began_at=900.0)
    watch.poll([old], 0, 1000.0)
    # A fork numbers its batches as its exact unit does.
    log.records.execute(RaiseFloor(slices("count+1.0#0"), Floor(number=1, epoch=0)))
    put("count+1.0#0", 1, 4, missing=("lines.0#1",))
    watch.poll([old, FORK], 0, 1000.0)
    put("count.0#0", 1, 10)
    watch.poll([replace(FORK, ended_at=1009.0)], 0, 1000.0)
    (found,) = watch.found()
    assert (found.fault, found.number, found.missing) == (0, 1, ("lines.0#1",))
    assert (found.began, found.exact) == (2.0, 9.0)
    assert found.first is not None
    assert found.sinks == {"out": Worth(predicted=0.5, measured=0.4)}
    assert found.to_json()["sinks"] == {"out": {"predicted": 0.5, "measured": 0.4}}


def test_forks_are_told_in_a_line():
    """Medians, and prediction beside measurement."""
    one = Fork(
        fault=0,
        number=1,
        missing=("a",),
        began=0.5,
        first=1.5,
        exact=9.0,
        sinks={"out": Worth(predicted=0.5, measured=0.4), "x": Worth(predicted=None, measured=1)},
    )
    assert words([one, replace(one, first=None, exact=11.0)]) == (
        "tentative results after 2 faults: the first after 1.50 s, all exact after 10.00 s in the "
        "median; fidelity 0.50 predicted, 0.40 of the rows"
    )
