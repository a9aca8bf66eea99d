"""`holdfast init`: what it writes can be loaded, and nothing is overwritten."""

import pytest

from holdfast.cli.init import FILES
from holdfast.pipeline import inspect_pipeline

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("folder", "name"), [("shop", "shop"), ("my shop!", "my-shop"), ("7", "p-7")]
)
def test_the_project_has_a_pipeline_without_mistakes(holdfast, tmp_path, folder, name):
    """Named after its folder, with everything its README names."""
    said = holdfast("init", tmp_path / folder)
    assert said.code == 0
    assert {path.name for path in (tmp_path / folder).iterdir()} == {*FILES, "input"}
    pipeline, problems = inspect_pipeline(tmp_path / folder / "app.py")
    assert problems == []
    assert pipeline.name == name
    assert [one.name for one in pipeline.operators] == [
        "lines",
        "split",
        "no-blanks",
        "count",
        "counts",
    ]


def test_what_is_there_is_left_alone(holdfast, tmp_path):
    """Exit code 2, and not a single file is written."""
    (tmp_path / "app.py").write_text("mine")
    said = holdfast("init", tmp_path)
    assert said.code == 2
    assert "has app.py already; name a new folder" in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["app.py"]
    assert (tmp_path / "app.py").read_text() == "mine"


def test_what_to_type_next_can_be_typed(holdfast, tmp_path, monkeypatch):
    """Also where the name of the folder has a space."""
    monkeypatch.chdir(tmp_path)
    assert "cd 'my job' && holdfast check" in holdfast("init", "my job").out
