"""How promises are summed up."""

from __future__ import annotations

import json

import pytest
from benchmarks import promises

pytestmark = pytest.mark.unit


def segment(name, predicted, measured, *, n=8, broken=0):
    error = (predicted - measured) / measured
    return {
        "segment": name,
        "predicted": {"median": predicted, "p95": 2 * predicted, "phases": None},
        "measured": {"n": n, "median": measured, "p95": 2 * measured, "phases": None},
        "error": error,
        "broken": broken,
    }


@pytest.fixture
def subject(tmp_path):
    """A pipeline that was proved: one segment is near, one far off."""
    proof = {
        "exact": True,
        "note": "",
        "segments": [segment("near", 1.1, 1.0), segment("far", 0.4, 1.0, broken=4)],
        "results": segment("all results", 1.0, 1.0),
    }
    (tmp_path / "proof.json").write_text(json.dumps(proof))
    return promises.Subject(name="p", app=tmp_path / "app.py", folder=tmp_path)


def test_segments_are_counted_and_all_results_are_not(subject):
    """The bars are about segments; all results stand beside them."""
    found = promises.read(subject)
    whole = promises.summary([found])
    assert [row["segment"] for row in found["segments"]] == ["near", "far"]
    assert found["results"]["segment"] == "all results"
    assert whole["segments"] == 2
    assert whole["recoveries"] == 16
    assert whole["within_25"] == 0.5
    assert whole["within_50"] == 0.5
    assert whole["broken"] == 4 / 16
    assert whole["p95_ratio"] == pytest.approx((1.1 + 0.4) / 2)


def test_nothing_proved_is_nothing_claimed():
    """Without a proof there are no shares."""
    whole = promises.summary([])
    assert whole["pipelines"] == 0
    assert whole["within_25"] is None
    assert whole["p95_ratio"] is None


def test_steps_are_taken_once(subject, capsys):
    """What a step has left behind is not made again."""
    for made, _ in subject.steps[:2]:
        made.write_text("{}")
    left = [made.name for made, _ in subject.steps if not made.exists()]
    assert left == []
    (subject.folder / "plan.json").unlink()
    assert [made.name for made, _ in subject.steps if not made.exists()] == ["plan.json"]
    promises.show([promises.read(subject)], promises.summary([promises.read(subject)]))
    assert "4 beyond the predicted p95" in capsys.readouterr().out


def test_generated_pipelines_have_folders_of_their_own(tmp_path):
    """A seed names the same pipeline each time."""
    found = list(promises.make_subjects(tmp_path, "101-102", examples=True))
    assert [one.name for one in found[:3]] == ["random-101", "random-102", "word_count"]
    assert "random_pipeline(101" in found[0].app.read_text()
