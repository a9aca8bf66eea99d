"""`holdfast paths` on a run directory."""

import json

import pytest
from tests.unit.runtime.test_paths import DEPLOYMENT, SPLIT
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.errors import BadInputError
from holdfast.health.policy import Policy
from holdfast.rundir.spec import RunSpec, write_spec
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.paths import carried

pytestmark = pytest.mark.unit


@pytest.fixture
def ask(tmp_path):
    """A function that runs the command on a run that has begun."""
    write_spec(tmp_path, RunSpec(app="", host="fake", deployment=DEPLOYMENT, policy=Policy()))
    begin(SliceLog(tmp_path), DEPLOYMENT)

    def run(*words):
        done = CliRunner().invoke(app, ["paths", *words, "--run-dir", str(tmp_path)])
        if isinstance(done.exception, BadInputError):
            raise done.exception
        return done.stdout

    return run


def test_paths_are_shown_and_taken(ask, tmp_path):
    """In words and as JSON; what was asked for is on record when the command ends."""
    assert ask() == "score: model since the run began; others: rules\n"
    said = ask("score:rules", "--reason", "the model is down")
    assert said == "score: rules since change 1: the model is down; others: model\n"
    assert carried(SliceLog(tmp_path), SPLIT).path == "rules"
    assert json.loads(ask("--json")) == {
        "splits": [
            {
                "split": "score",
                "path": "rules",
                "change": 1,
                "reason": "the model is down",
                "paths": ["model", "rules"],
            }
        ]
    }


@pytest.mark.parametrize("words", ["score", "score:", "score:x", "other:model"])
def test_what_there_is_not_is_refused(ask, words):
    """In one line, with what there is."""
    with pytest.raises(BadInputError, match=r"no path .*there are: .*rules"):
        ask(words)
