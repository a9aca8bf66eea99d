"""`holdfast paths` on a run directory."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import pytest
from tests.unit.runtime.test_paths import DEPLOYMENT
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.cli.breakers import own_nodes, with_paths
from holdfast.cli.paths import paths as paths_command
from holdfast.control.status import PathView, SplitView
from holdfast.errors import BadInputError
from holdfast.health.policy import Policy
from holdfast.rundir.spec import RunSpec, write_spec

pytestmark = pytest.mark.unit


def path(name, state="closed", **more):
    return PathView(
        path=name,
        state=state,
        for_s=3.0,
        why=more.get("why", ""),
        by_hand=False,
        on_probation=False,
        bad_probes=more.get("bad_probes", 0),
        probe_in_s=more.get("probe_in_s"),
    )


SPLIT = SplitView(
    split="score",
    active="rules",
    carried="rules",
    preferred="",
    paths=(path("model", "open", why="no output", bad_probes=2, probe_in_s=4.2), path("rules")),
)


class Client:
    """A run that answers."""

    asked: ClassVar[list] = []
    splits = (SPLIT,)

    def __init__(self, _):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def ask_path(self, *words):
        self.asked.append(words)

    def status(self):
        return SimpleNamespace(splits=self.splits)


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """A function that runs the command on a run that answers."""
    policy = with_paths(Policy(), DEPLOYMENT, ["open_s=5", "no-output.hold_s=0.5"])
    write_spec(tmp_path, RunSpec(app="", host="fake", deployment=DEPLOYMENT, policy=policy))
    monkeypatch.setattr("holdfast.control.client.ControlClient", Client)
    monkeypatch.setenv("COLUMNS", "120")
    Client.asked = []

    def run(*words):
        done = CliRunner().invoke(app, ["paths", *words, "--run-dir", str(tmp_path)])
        if isinstance(done.exception, BadInputError):
            raise done.exception
        return done.stdout

    return run


def test_breakers_are_shown(ask):
    """A line per path: its state and since when, what led to it, when it is tried again."""
    lines = ask().splitlines()
    assert lines[0] == "score: rules"
    assert lines[2].split() == ["model", "open", "3", "s", "2", "in", "4", "s", "no", "output"]
    assert lines[3].split() == ["rules", "closed", "3", "s", "0"]


def test_a_probe_that_no_node_is_free_for_says_so(ask, monkeypatch):
    """With --spares 0 there may be none as long as the run goes on."""
    paths = (path("model", "open", why="slow", probe_in_s=-9.0), path("rules"))
    late = SplitView(split="score", active="rules", carried="rules", preferred="", paths=paths)
    monkeypatch.setattr(Client, "splits", (late,))
    assert "waits for a free node" in ask()


def test_all_down_is_said(ask, monkeypatch):
    """And where the input is."""
    down = SplitView(split="score", active=None, carried="rules", preferred="", paths=())
    monkeypatch.setattr(Client, "splits", (down,))
    assert "all paths are down; its input waits in the log" in ask()


def test_what_is_asked_for(ask):
    """By word, or a path alone, which is preferred; a split alone goes by order again."""
    ask("open", "score:model")
    ask("close", "score:model")
    ask("score:rules")
    ask("prefer", "score")
    assert Client.asked == [
        ("open", "score", "model"),
        ("close", "score", "model"),
        ("prefer", "score", "rules"),
        ("prefer", "score", ""),
    ]


@pytest.mark.parametrize(
    "words", [["score"], ["score:"], ["open", "score:x"], ["open", "score"], ["close", "a:model"]]
)
def test_what_there_is_not_is_refused(ask, words):
    """In one line, with what there is."""
    with pytest.raises(BadInputError, match=r"no path .*there are: score:model, score:rules"):
        ask(*words)
    with pytest.raises(BadInputError, match="cannot mend a path"):
        ask("mend", "score:model")


def test_settings(ask):
    """All of them, as the run has them."""
    shown = json.loads(ask("--json"))["settings"]
    assert (shown["open_s"], shown["no-output.hold_s"], shown["share"]) == (5, 0.5, 0.05)
    assert "leak.least_bytes = 67108864" in ask("--settings")


def test_the_defaults_are_shown_where_nothing_runs(tmp_path, monkeypatch, capsys):
    """Whoever is about to start a run wants to know what there is to set."""
    monkeypatch.chdir(tmp_path)
    paths_command(settings=True)
    said = capsys.readouterr().out
    assert said.startswith("nothing runs here; these are the defaults\n")
    assert "open_s = 15.0" in said
    paths_command(settings=True, as_json=True)
    assert json.loads(capsys.readouterr().out)["settings"]["probes"] == 20
    with pytest.raises(BadInputError, match="nothing runs below"):
        paths_command()


@pytest.mark.parametrize(("what", "path"), [("mend", "score:model"), ("open", None)])
def test_what_cannot_be_asked_for_is_said_whether_or_not_there_is_a_run(
    tmp_path, monkeypatch, what, path
):
    """A word that is none, and one without a path."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInputError, match="SPLIT:PATH"):
        paths_command(what, path)


def test_settings_are_checked():
    """By name and by value."""
    assert own_nodes(DEPLOYMENT) == 1
    made = with_paths(Policy(workers=2), DEPLOYMENT, ["probes=3"])
    assert (made.workers, made.alone, made.breaker.probes) == (3, ("score",), 3)
    for text in ("open", "openn=3", "leak.x=1"):
        with pytest.raises(BadInputError, match="no setting"):
            with_paths(Policy(), DEPLOYMENT, [text])
    with pytest.raises(BadInputError, match="write a number"):
        with_paths(Policy(), DEPLOYMENT, ["open_s=soon"])
    for text, says in {
        "open_s=0": "times must be greater than 0",
        "failures=1.5": "failures is '1.5'; write a whole number",
        "open_s=nan": "write a number",
        "cooldown_s=inf": "write a number",
        "share=2": "share must be",
        "no-output.hold_s=-1": "times must be greater than 0",
        "profile.block_s=0": "times must be greater than 0",
        "profile.keep=1.5": "write a whole number",
        "profile.least=0": "at least 1",
        "backlog.most_waiting=-1": "at least 0",
    }.items():
        with pytest.raises(BadInputError, match=says):
            with_paths(Policy(), DEPLOYMENT, [text])


def test_a_run_without_splits_says_so(ask, monkeypatch):
    """Rather than nothing."""
    monkeypatch.setattr(Client, "splits", ())
    assert "no operator of this run has alternative paths" in ask()


def test_what_a_path_raised_is_shown_as_it_is(ask, monkeypatch):
    """Brackets of a message are no markup."""
    split = replace(SPLIT, paths=(path("model", "open", why="[CANNOT_PARSE] row"), path("rules")))
    monkeypatch.setattr(Client, "splits", (split,))
    assert "[CANNOT_PARSE] row" in ask()
