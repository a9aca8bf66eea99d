"""Plan files: what planners write is what everybody else reads, and nothing else is a plan."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.clock import SystemClock
from holdfast.errors import BadInputError
from holdfast.plan import (
    FORMAT,
    CheckpointedSegment,
    FastRecoverPlan,
    FtcPlan,
    JointPlan,
    Latency,
    PlannedNode,
    PlannedSegment,
    RecoveryPhases,
    RecoveryPlan,
    ReplicationPlan,
)
from holdfast.plan.document import load_plan, parse_plan
from holdfast.planners.interface import PlanRequest
from holdfast.planners.planning import plan_topology
from holdfast.topology.files import load_topology

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
KINDS = (FtcPlan, FastRecoverPlan, JointPlan, ReplicationPlan, RecoveryPlan)
PLAN = FtcPlan(algorithm="exact", feasible=True, backups=("split.0",), count=1)


def written(plan):
    """A plan's JSON as another program would read it."""
    return json.loads(json.dumps(plan.to_json(), allow_nan=False))


@pytest.mark.parametrize(
    ("file", "method", "asked"),
    [
        ("trending", "ftc", {"max_recovery": 6.0}),
        ("trending", "ftc", {"max_recovery": 0.1}),
        ("fastrecover-chain", "fastrecover", {"max_overhead": 0.4}),
        ("trending", "joint", {"max_recovery": 9.0}),
        ("trending", "joint", {"max_recovery": 0.01}),
        ("q2-incidents", "ppa", {"replicas": 3.0}),
        ("q2-incidents", "ppa", {"recover": True}),
    ],
)
def test_what_a_planner_says_is_read_back_whole(file, method, asked):
    """Of every method, feasible and not: the same frozen value comes out of the file."""
    topology = load_topology(ROOT / "examples" / "topologies" / f"{file}.yaml")
    asking = PlanRequest(**asked)
    plan = plan_topology(topology, asking, clock=SystemClock(), method=method, time_limit_s=2.0)
    assert type(plan) in KINDS
    assert parse_plan(written(plan)) == plan


NAMES = st.text(min_size=1, max_size=4)
LISTS = st.lists(NAMES, max_size=3).map(tuple)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
SOME = st.none() | NUMBERS
COMMON = {
    "algorithm": NAMES,
    "feasible": st.booleans(),
    "optimal": st.booleans(),
    "objective": SOME,
    "bound": SOME,
    "solve_ms": NUMBERS,
    "note": st.text(max_size=9),
    "explanation": st.none() | LISTS,
}
LATENCIES = st.builds(Latency, median=NUMBERS, p95=NUMBERS)
PLANS = st.one_of(
    st.builds(
        FtcPlan,
        **COMMON,
        backups=LISTS,
        recovery_latency=st.dictionaries(NAMES, NUMBERS),
        overall=SOME,
        count=st.none() | st.integers(0, 9),
    ),
    st.builds(
        FastRecoverPlan,
        **COMMON,
        anchors=LISTS,
        segments=st.lists(
            st.builds(
                CheckpointedSegment,
                head=NAMES,
                heads=LISTS,
                operators=LISTS,
                frequency=SOME,
                frequencies=st.dictionaries(NAMES, SOME),
            ),
            max_size=2,
        ).map(tuple),
        worst_case=st.dictionaries(NAMES, SOME),
    ),
    st.builds(
        JointPlan,
        **COMMON,
        boundaries=LISTS,
        segments=st.lists(
            st.builds(
                PlannedSegment,
                name=NAMES,
                operators=LISTS,
                batch_interval=NUMBERS,
                snapshot_interval=SOME,
                batch_epochs=st.integers(),
                snapshot_batches=st.integers(),
                batch_time=NUMBERS,
            ),
            max_size=2,
        ).map(tuple),
        spares=st.none() | st.integers(0, 9),
        recovery_latency=st.dictionaries(NAMES, LATENCIES, max_size=2),
        recovery_phases=st.dictionaries(
            NAMES,
            st.builds(
                RecoveryPhases,
                detection=NUMBERS,
                restore=NUMBERS,
                load=NUMBERS,
                replay=NUMBERS,
                catch_up=NUMBERS,
            ),
            max_size=2,
        ),
        results_recovery=st.none() | LATENCIES,
        nearest=st.dictionaries(NAMES, SOME, max_size=2),
    ),
    st.builds(
        ReplicationPlan,
        **COMMON,
        replicas=LISTS,
        fidelity_per_query=st.dictionaries(NAMES, NUMBERS),
    ),
    st.builds(RecoveryPlan, **COMMON, order=LISTS, times=st.lists(NUMBERS).map(tuple)),
)


@given(PLANS)
def test_every_plan_survives_its_file(plan):
    """Whatever its fields hold."""
    assert parse_plan(written(plan)) == plan


def test_a_file_names_its_format_first():
    """So that a reader, and a person, sees at once what it is."""
    assert list(PLAN.to_json())[:2] == ["format", "method"]
    assert PLAN.to_json()["format"] == FORMAT == "holdfast-plan-1"


def test_a_file_from_before_the_format_had_a_name_is_read():
    """Its fields are those of version 1."""
    data = written(PLAN)
    del data["format"]
    assert parse_plan(data) == PLAN


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "holdfast-plan-2"}, "plan of format holdfast-plan-2, and this version of"),
        ({"format": "holdfast-statistics-1"}, "is not a plan: its format is 'holdfast-statistics"),
        ({"format": 1}, "is not a plan: its format is 1"),
        ({"format": None}, "is not a plan: its format is None"),
        ({"method": "magic"}, "the method 'magic' is not known"),
        ({"method": ["ftc"]}, "the method ['ftc'] is not known"),
        ({"method": None}, "names no method"),
        ({"bakups": []}, "p.json: bakups: unknown field; remove it, or plan again"),
        ({"segments": []}, "p.json: segments: unknown field"),
        ({"feasible": "yes"}, "p.json: feasible: should be a boolean"),
        ({"backups": "split"}, "p.json: backups: should be an array"),
        ({"backups": [1]}, "p.json: backups.0: should be a string"),
        ({"overall": "soon"}, "p.json: overall: should be a number"),
        ({"overall": float("nan")}, "p.json: overall: should be a finite number"),
        ({"points": []}, "is a trade-off curve, not a plan"),
    ],
)
def test_what_is_no_plan_is_refused_in_one_line(tmp_path, change, said):
    """Where, what is wrong and what to do; an unknown field may be a decision not carried out."""
    path = tmp_path / "p.json"
    path.write_text(json.dumps({**written(PLAN), **change}))
    with pytest.raises(BadInputError) as found:
        load_plan(path)
    assert said in str(found.value).replace(str(tmp_path) + "/", "")
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("name", ["algorithm", "feasible"])
def test_what_every_plan_says_is_required(name):
    """Whether it is feasible is not to be guessed."""
    data = written(PLAN)
    del data[name]
    with pytest.raises(BadInputError, match=f"'{name}' is missing"):
        parse_plan(data)


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "is not JSON"), ("[1]", "is not a plan"), ("[" * 100_000, "nested too deeply")],
)
def test_a_file_that_is_no_object_is_refused(tmp_path, text, said):
    """Neither what is not JSON nor what is no object."""
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(BadInputError, match=said) as found:
        load_plan(path)
    assert str(path) in str(found.value)


def test_a_missing_file_is_one_clear_line(tmp_path):
    """As for every file."""
    with pytest.raises(BadInputError, match="there is no such file"):
        load_plan(tmp_path / "none.json")


def test_reading_a_plan_loads_no_solver():
    """Whoever runs, draws or proves a plan starts as fast as before."""
    code = (
        "import sys, holdfast.plan; light = sorted(set(sys.modules) & {'pydantic', 'numpy'}); "
        "import holdfast.plan.document; "
        "print(light, sorted(set(sys.modules) & {'numpy', 'scipy', 'highspy'}))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[] []"


def test_the_reference_page_names_every_field():
    """Neither more nor less than there is."""
    page = (ROOT / "docs" / "reference" / "plan-file.md").read_text()
    parts = (CheckpointedSegment, PlannedNode, PlannedSegment, Latency, RecoveryPhases)
    known = {f.name for kind in (*KINDS, *parts) for f in fields(kind)} | {"format", "method"}
    rows = re.findall(r"^\| (`[^|]*`) \|", page, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == known
