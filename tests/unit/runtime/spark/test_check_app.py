"""What `holdfast check` asks Spark, without one: what the operators look like is made up."""

import json
import sys
from types import SimpleNamespace

import pytest

from holdfast.errors import BadInputError
from holdfast.runtime.spark import check_app
from holdfast.runtime.spark.frames import check as frames
from holdfast.runtime.spark.start import session

pytestmark = pytest.mark.unit

APP = """
from holdfast import Parquet, Pipeline, Rate

p = Pipeline("p")
rows = p.source("rows", Rate(5))
p.sink("a", rows.map("one", lambda frame: frame), Parquet("out"))
p.sink("b", rows.map("two", lambda frame: frame), Parquet("out"))
p.sink("c", rows, Parquet("out/below"))
rows.map("three", lambda frame: frame)
"""


def test_a_rule_of_the_whole_hides_no_mistake_of_an_operator(tmp_path, monkeypatch, capsys):
    """All of them are told at once, each once."""
    (tmp_path / "app.py").write_text(APP)

    def look(pipeline, operator, *_):
        if operator.kind == "map":
            raise BadInputError("no column 'x'", where=operator.name)

    monkeypatch.setattr(session, "start_session", lambda *_, **__: SimpleNamespace(stop=int))
    monkeypatch.setattr(frames, "_check", look)
    monkeypatch.setattr(sys, "argv", ["check", str(tmp_path / "app.py")])
    monkeypatch.chdir(tmp_path)
    check_app.main()
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["problems"]
    assert [(where, what.split()[0]) for what, where, _ in found] == [
        ("three", "nothing"),
        ("b", "its"),
        ("c", "its"),
        ("one", "no"),
        ("two", "no"),
    ]
