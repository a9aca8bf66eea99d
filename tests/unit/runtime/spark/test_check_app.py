"""The process that checks an application: what it answers, and that it goes with whoever asked."""

import json
import os
import select
import subprocess
import sys

import pytest

from holdfast.errors import BadInputError
from holdfast.runtime.spark import check_app

pytestmark = pytest.mark.unit

APP = """
from holdfast import Console, Pipeline, Rate

pipeline = Pipeline("two")
rows = pipeline.source("rows", Rate(1))
unread = rows.where("valu > 1")
pipeline.sink("out", rows, Console())
"""
COLUMN = BadInputError("unknown column 'valu'", where="rows-where", hint="did you mean value?")
ENDLESS = """
import pathlib, threading
told = pathlib.Path({fifo!r}).open("w")
told.write("here")
told.flush()
threading.Event().wait(300)
"""
ASK = "from holdfast.runtime.checking import _ask; "
DEADLINE_S = 60.0


def test_a_place_with_two_mistakes_has_two_lines(tmp_path, monkeypatch, capsys):
    """That nobody reads an operator hides nothing of what is wrong in it; nothing comes twice."""
    from holdfast.pipeline import inspect_pipeline

    app = tmp_path / "app.py"
    app.write_text(APP)
    (unread,) = inspect_pipeline(app)[1]
    monkeypatch.setattr(sys, "argv", ["check_app", str(app)])
    monkeypatch.setattr(check_app, "_analyse", lambda pipeline: ([unread, COLUMN], ()))
    monkeypatch.chdir(tmp_path)
    check_app.main()
    problems = json.loads(capsys.readouterr().out.splitlines()[-1])["problems"]
    assert [(where, what) for what, where, _ in problems] == [
        ("rows-where", "nothing reads its output"),
        ("rows-where", "unknown column 'valu'"),
    ]


def test_a_check_ends_with_whoever_asked_for_it(tmp_path):
    """Killed, or its terminal closed: the check, in a session of its own, does not stay behind."""
    fifo, app = tmp_path / "fifo", tmp_path / "app.py"
    os.mkfifo(fifo)
    app.write_text(ENDLESS.format(fifo=str(fifo)))
    heard = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    asker = subprocess.Popen([sys.executable, "-c", f"{ASK}_ask({str(app)!r})"])
    assert _next(heard) == b"here"
    asker.kill()
    asker.wait()
    assert _next(heard) == b""  # whoever held the other end is gone
    os.close(heard)


def _next(heard):
    """What comes next; fails when nothing does."""
    ready, _, _ = select.select([heard], [], [], DEADLINE_S)
    assert ready, "nothing was heard of the check"
    return os.read(heard, 100)
