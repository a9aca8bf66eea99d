"""What `holdfast run` refuses before anything starts: other results, a host nobody knows."""

import pytest

pytestmark = pytest.mark.unit

APP = """
from holdfast.pipeline import Parquet, Pipeline, Rate

pipeline = Pipeline("again")
pipeline.sink("out", pipeline.source("rows", Rate(1)), Parquet({path!r}))
"""


def test_results_of_another_run_are_refused_in_one_line(holdfast, tmp_path):
    """Exit code 2, what is in the way and what to do about it; nothing is written."""
    place = tmp_path / "shared"
    place.mkdir()
    (place / "part-0000000000.parquet").write_bytes(b"")
    (place / "_holdfast.json").write_text('{"sink": "out", "run": "a1"}')
    app = tmp_path / "app.py"
    app.write_text(APP.format(path=str(place)))
    said = holdfast("run", app, "--run-dir", tmp_path / "run")
    assert said.code == 2
    (line,) = said.err.strip().splitlines()
    assert f"out: {place} holds results of another run" in line
    assert "move or delete them, or give the sink another path" in line
    assert not (tmp_path / "run").exists()


def test_a_host_that_does_not_exist_is_refused_in_one_line(holdfast, tmp_path):
    """Exit code 2 and those that there are, before a node tries it and gives up."""
    app = tmp_path / "app.py"
    app.write_text(APP.format(path=str(tmp_path / "out")))
    said = holdfast("run", app, "--host", "mars", "--run-dir", tmp_path / "run")
    assert (said.code, said.err.strip()) == (
        2,
        "holdfast: --host: unknown host 'mars'; one of spark, fake or module:function",
    )
    assert not (tmp_path / "run").exists()
