"""Pathfinder's figures from runs as they may come out."""

from dataclasses import replace

import pytest
from tests.unit.reproduce.test_reproduce import EFFORT

from holdfast.errors import BadInputError
from holdfast.reproduce import find
from holdfast.testing.adaptations import Adapted, Phase

pytestmark = pytest.mark.unit

ADAPT_S = {"slp": 1.1, "thr": 1.6, "mem": 1.9}


def lab(kinds):
    return tuple(
        Adapted(
            kind=kind,
            why="no output",
            detect_s=ADAPT_S[kind] - 0.5,
            switch_s=0.1,
            start_s=0.4,
            adapt_s=ADAPT_S[kind],
            return_s=2.5,
            bad_probes=1,
            phases=(
                Phase(what="fault", start_s=0.0, end_s=6.0),
                Phase(what="no path", start_s=0.0, end_s=1.1),
                Phase(what="P6", start_s=1.1, end_s=12.0),
                Phase(what="probe 1", start_s=5.0, end_s=6.0),
            ),
        )
        for kind in kinds
    )


def made(figure, effort):
    (item,) = find("pathfinder", figure)
    return item.make(effort)


def test_phases_of_a_run():
    """A bar a phase, and what the paper says beside it."""
    found = made("7", replace(EFFORT, paths_lab=lab))
    assert found.rows[1] == ("no path", 0.0, 1.1)
    ours, papers = found.panels
    assert [bar.label for bar in ours.bars] == ["fault", "no path", "P6", "probe 1"]
    assert [bar.label for bar in papers.bars] == ["fault", "no path", "P6", "P3"]
    assert [claim.verdict for claim in found.claims] == ["differs", "not comparable", "differs"]


def test_time_to_adapt_by_kind():
    """A box a kind; which one is detected soonest is the paper's claim."""
    found = made("8", replace(EFFORT, paths_lab=lab))
    boxes = found.panels[0].boxes
    assert {box.group for box in boxes if box.label == "here"} == {"SLP", "MEM", "THR"}
    assert {box.group for box in boxes if box.label == "the paper"} == {"SLP", "MEM"}
    assert found.claims[-1].verdict == "holds"
    assert len(found.rows) == 6


def test_nothing_is_run_where_nothing_may_be():
    """It says so."""
    with pytest.raises(BadInputError, match="measured on Spark"):
        made("8", EFFORT)
