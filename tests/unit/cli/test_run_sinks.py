"""`holdfast run` refuses to deliver among the results of another run, before anything starts."""

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
