"""Mistakes are one line each, before anything starts, through the whole command."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

APP = """
from holdfast import Console, Pipeline, Rate

def pick(df):
    return df.select("valu")

pipeline = Pipeline("wrong")
rows = pipeline.source("rows", Rate(1))
pipeline.sink("a", rows.map(pick), Console())
pipeline.sink("b", rows.where("kye > 1"), Console())
"""


def test_a_wrong_column_is_one_line_and_nothing_starts(tmp_path):
    """`check` and `run` say the same two lines, exit with 2 and show no traceback."""
    (tmp_path / "app.py").write_text(APP)
    for command in ("check", "run"):
        said = subprocess.run(
            [sys.executable, "-m", "holdfast", command, "app.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert said.returncode == 2
        assert [line for line in said.stderr.splitlines() if line != "checking the pipeline"] == [
            "holdfast: pick: unknown column 'valu'; did you mean value?",
            "holdfast: rows-where: unknown column 'kye'; did you mean key?",
        ]
        assert not (tmp_path / "runs").exists()
