"""Takeovers keep to the time of a profile, and say how long is left."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from holdfast.predict.statistics import REFERENCE_MACHINE, OperatorStatistics, Statistics
from holdfast.profile import launch
from holdfast.profile.budget import budget_for
from holdfast.profile.cpu import DISTURBED
from holdfast.profile.spark import takeovers
from holdfast.profile.taken import Takeover

pytestmark = pytest.mark.unit

NAMES = ("split", "count", "best")


@pytest.fixture
def watched(monkeypatch):
    """Takes over three queries, ten seconds each; gives what was watched and what was said."""
    clock = [0.0]
    segments = [SimpleNamespace(name=name, kind="inner") for name in NAMES]
    monkeypatch.setattr(takeovers, "cut_everywhere", lambda _: SimpleNamespace(segments=segments))
    monkeypatch.setattr(takeovers, "pinned", lambda plain: plain)
    monkeypatch.setattr(takeovers, "SparkUnitHost", Mock())
    monkeypatch.setattr(takeovers, "SliceLog", Mock())
    monkeypatch.setattr(takeovers.time, "monotonic", lambda: clock[0])

    def take_over(unit):
        clock[0] += 10.0
        return Takeover(
            operator=unit.segment,
            build_s=1.0,
            build_cpu_s=1.0,
            first_s=1.0,
            first_cpu_s=1.0,
            input_s=1.0,
        )

    monkeypatch.setattr(takeovers, "_Bench", lambda *_: Mock(take_over=take_over))

    def run(limit_s, tmp_path):
        said = []
        found = takeovers.measure_takeovers(None, tmp_path, said.append, limit_s)
        return [one.operator for one in found], said

    return run


def test_with_time_all_are_watched_and_the_time_left_is_told(watched, tmp_path):
    """How long those done have taken tells how long the others will."""
    found, said = watched(math.inf, tmp_path)
    assert found == list(NAMES)
    assert said[-1] == "taking over best, 3 of 3, about 10 s left"


def test_without_time_the_rest_is_left_out_and_that_is_said(watched, tmp_path):
    """The first is watched in any case."""
    found, said = watched(5.0, tmp_path)
    assert found == ["split"]
    assert said[-1] == "no time is left for 2 of 3 takeovers"


@pytest.mark.parametrize(
    ("thorough", "known", "limited"),
    [(False, True, True), (False, False, False), (True, True, False)],
)
def test_a_profile_of_a_known_machine_hands_on_what_is_left(monkeypatch, thorough, known, limited):
    """Only there: who measures the machine, or takes more care, takes its time."""
    now = iter([100.0, 220.0, 230.0])
    found = Statistics(operators={name: OperatorStatistics() for name in NAMES})
    given = []
    monkeypatch.setattr(launch.time, "monotonic", lambda: next(now, 240.0))
    monkeypatch.setattr(launch, "is_known", lambda: known)
    monkeypatch.setattr(launch, "absolute_app", lambda app: app)
    monkeypatch.setattr(launch, "_apart", lambda *_, **__: {})
    monkeypatch.setattr(launch, "_statistics", lambda _: found)
    monkeypatch.setattr(
        launch, "_watched", lambda _app, _folder, left_s, _say: given.append(left_s) or []
    )
    monkeypatch.setattr(launch, "measure_recoveries", lambda machine, *_, **__: machine)
    monkeypatch.setattr(launch, "save_machine", lambda _: None)
    launch.measure("app.py", 20.0, quick=False, thorough=thorough, say=lambda _: None)
    assert given == [budget_for(3).total_s - 120.0 if limited else math.inf]


@pytest.mark.parametrize(("how", "kept"), [("calm", 1), (f"empty batches, {DISTURBED}", 0)])
def test_a_machine_that_was_measured_while_busy_is_not_remembered(monkeypatch, how, kept):
    """Or every later profile would rest on one busy hour."""
    floor = replace(REFERENCE_MACHINE.batch_floor, how=how)
    found = Statistics(machine=replace(REFERENCE_MACHINE, batch_floor=floor))
    saved, said = [], []
    monkeypatch.setattr(launch, "is_known", lambda: False)
    monkeypatch.setattr(launch, "absolute_app", lambda app: app)
    monkeypatch.setattr(launch, "_apart", lambda *_, **__: {})
    monkeypatch.setattr(launch, "_statistics", lambda _: found)
    monkeypatch.setattr(launch, "_watched", lambda *_: [])
    monkeypatch.setattr(launch, "measure_recoveries", lambda machine, *_, **__: machine)
    monkeypatch.setattr(launch, "save_machine", saved.append)
    launch.measure("app.py", 20.0, quick=False, say=said.append)
    assert len(saved) == kept
    assert any("measures the machine again" in line for line in said) == (not kept)
