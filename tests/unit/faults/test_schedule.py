"""Fault schedules: files, seeds and their mistakes."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import BadInputError
from holdfast.faults.schedule import (
    DRAWN,
    FAULT_KINDS,
    Fault,
    draw_schedule,
    parse_schedule,
    read_schedule,
)

pytestmark = pytest.mark.unit

TEXT = """
seed: 7
faults:
  - {at: 9s, fault: suspend, target: n1, for: 6s}
  - {at: 500ms, fault: kill}
  - {at: 12, fault: domain, target: d0}
  - {at: 1min, fault: poison, target: lines, text: '{"n": "x"}'}
"""


def test_a_file_is_read_in_the_order_of_time(tmp_path):
    """Times have units, targets may be left open."""
    path = tmp_path / "faults.yaml"
    path.write_text(TEXT)
    schedule = read_schedule(path)
    assert schedule.seed == 7
    assert [fault.kind for fault in schedule.faults] == ["kill", "suspend", "domain", "poison"]
    assert schedule.faults[0] == Fault(at_s=0.5, kind="kill")
    assert schedule.faults[1] == Fault(at_s=9.0, kind="suspend", target="n1", duration_s=6.0)


@settings(deadline=None)
@given(seed=st.integers(0, 2**40), faults=st.integers(0, 20))
def test_a_drawn_schedule_is_the_same_again_and_survives_a_file(tmp_path_factory, seed, faults):
    """A seed alone reproduces a schedule; written and read back it is equal."""
    schedule = draw_schedule(seed, faults=faults)
    assert schedule == draw_schedule(seed, faults=faults)
    assert parse_schedule(schedule.to_json()) == schedule
    path = tmp_path_factory.mktemp("faults") / "f.json"
    path.write_text(json.dumps(schedule.to_json()))
    assert read_schedule(path) == schedule


@settings(deadline=None)
@given(seed=st.integers(0, 2**40))
def test_drawn_faults_are_in_order_and_outlast_detection(seed):
    """A suspended node must have been given up by the time it wakes."""
    schedule = draw_schedule(seed, faults=6, detection_s=2.0, start_s=1.0, gap_s=4.0)
    times = [fault.at_s for fault in schedule.faults]
    assert times == sorted(times)
    for fault in schedule.faults:
        assert fault.kind in DRAWN
        if fault.kind == "suspend":
            assert fault.duration_s > 2.0


def test_seeds_reach_every_kind():
    """Twenty seeds are enough to see all that can be drawn."""
    seen = {fault.kind for seed in range(20) for fault in draw_schedule(seed).faults}
    assert seen == set(DRAWN)


def test_kinds_can_be_chosen():
    """Only what is asked for is drawn."""
    schedule = draw_schedule(1, faults=9, kinds=("kill",))
    assert {fault.kind for fault in schedule.faults} == {"kill"}
    with pytest.raises(BadInputError, match="unknown fault 'boom'"):
        draw_schedule(1, kinds=("boom",))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "has no list of faults"),
        ({"faults": ["kill"]}, "faults[0]: is not a fault"),
        ({"faults": [{"at": 1, "fault": "boom"}]}, "faults[0]: unknown fault 'boom'"),
        ({"faults": [{"fault": "kill"}]}, "faults[0]: has no time"),
        ({"faults": [{"at": 1, "fault": "kill", "who": "n0"}]}, "unknown field 'who'"),
        ({"faults": [{"at": "soon", "fault": "kill"}]}, "faults[0]: 'soon'"),
        ({"faults": [{"at": 1, "fault": "kill", "for": "3s"}]}, "a kill with for: 3"),
        ({"faults": [{"at": 1, "fault": "suspend"}]}, "a suspend with for: 0"),
        ({"faults": [{"at": 1, "fault": "poison"}]}, "a poison record needs"),
        ({"faults": [{"at": 1, "fault": "thr", "for": 1, "text": "slow"}]}, "text is 'slow'"),
        ({"faults": [{"at": 1, "fault": "mem", "for": 1, "text": -5}]}, "text is '-5'"),
        (
            {"faults": [{"at": 1, "fault": "kill", "target": "boss:count"}]},
            "target 'boss:count' names no replica",
        ),
        ({"faults": [], "seed": -1}, "seed -1"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(data, message):
    """What cannot be injected is refused when the file is read."""
    with pytest.raises(BadInputError) as error:
        parse_schedule(data)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_unreadable_files_are_named(tmp_path):
    """Neither a missing file nor broken YAML is a traceback."""
    with pytest.raises(BadInputError, match="cannot be read"):
        read_schedule(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("faults: [")
    with pytest.raises(BadInputError, match="is not YAML"):
        read_schedule(tmp_path / "bad.yaml")


def test_kinds_are_told_by_name():
    """A fault reads well in a report."""
    assert str(Fault(at_s=1, kind="suspend", target="n0", duration_s=3)) == "suspend n0 for 3 s"
    assert set(DRAWN) < set(FAULT_KINDS)
