"""Faults in the functions of a path."""

import json
from types import SimpleNamespace

import pytest

from holdfast.pipeline.operators import PipelineOperator
from holdfast.pipeline.paths import Path, Paths, paths_of, taking
from holdfast.rundir.contents import sabotage_path
from holdfast.runtime.spark.frames import sabotage
from holdfast.runtime.spark.frames.sabotage import SabotageError, Saboteur, sabotaged

pytestmark = pytest.mark.unit


@pytest.fixture
def suffer(tmp_path):
    """Pass three rows on while something is wrong, or nothing."""
    place = tmp_path / "fault"
    made = Saboteur(place=str(place))

    def run(**fault):
        place.unlink(missing_ok=True)
        if fault:
            place.write_text(json.dumps(fault))
        return list(made._pass_on([SimpleNamespace(num_rows=3)]))

    return run


def test_rows_pass_on_unless_something_is_wrong(suffer, monkeypatch):
    """It raises, or takes its time for every row."""
    assert len(suffer()) == 1
    with pytest.raises(SabotageError):
        suffer(fault="err")
    slept = []
    now = SimpleNamespace(at=0.0)
    monkeypatch.setattr(sabotage.time, "monotonic", lambda: now.at)
    monkeypatch.setattr(
        sabotage.time, "sleep", lambda s: (slept.append(s), setattr(now, "at", now.at + s))
    )
    assert len(suffer(fault="thr", ms=200.0)) == 1
    assert sum(slept) == pytest.approx(0.6)


def test_memory_leaks_by_time_and_comes_back(suffer, monkeypatch):
    """So much a second, however often it is called; all of it is let go when the fault ends."""
    now = SimpleNamespace(at=0.0)
    monkeypatch.setattr(sabotage.time, "monotonic", lambda: now.at)
    for _ in range(4):
        suffer(fault="mem", mb_s=1.0)
        now.at += 0.25
    assert sum(map(len, sabotage._LEAKED)) == pytest.approx(0.85 * 2**20, rel=0.01)
    suffer()
    assert sabotage._LEAKED == []


def test_only_the_path_that_is_taken_is_broken(tmp_path):
    """Its last map is the way in; the others stay as they are."""
    one = PipelineOperator(name="m", kind="map", inputs=("a",), function=lambda frame: frame)
    split = PipelineOperator(
        name="score",
        kind="map",
        inputs=("a",),
        function=Paths(
            paths=(Path(name="model", operators=(one,)), Path(name="rules", operators=(one,)))
        ),
    )
    changed = sabotaged(taking("score", "rules"), "score", "rules", tmp_path)
    found = paths_of(changed(split))
    assert found.taken == "rules"
    assert [len(path.operators) for path in found.paths] == [1, 2]
    assert found.paths[1].operators[-1].function.place == str(
        sabotage_path(tmp_path, "score", "rules")
    )
    assert changed(one) is one


def test_what_keeps_state_is_broken_before_it(tmp_path):
    """It may give out nothing for a while, so a way in behind it would not be passed."""
    kinds = ("map", "aggregate", "map")
    chain = tuple(
        PipelineOperator(name=f"{kind}{i}", kind=kind, inputs=("a",), function=lambda frame: frame)
        for i, kind in enumerate(kinds)
    )
    split = PipelineOperator(
        name="score",
        kind="stateful",
        inputs=("a",),
        function=Paths(paths=(Path(name="model", operators=chain),)),
    )
    changed = sabotaged(taking("score", "model"), "score", "model", tmp_path)(split)
    names = [one.name for one in paths_of(changed).paths[0].operators]
    assert names == ["map0", "sabotage", "aggregate1", "map2"]
