"""`holdfast check` and the check before every start: all mistakes at once, a line each."""

import json

import pytest

from holdfast.errors import BadInputError, BadInputsError
from holdfast.runtime import checking as launch

pytestmark = pytest.mark.unit

BROKEN = """
from holdfast import Parquet, Pipeline, Rate

def same(df):
    return df

pipeline = Pipeline("broken")
rows = pipeline.source("rows", Rate(1))
counts = rows.aggregate("count", same, key="a b")
total = rows.join("both", counts, same)
rows.map("odd", same, on_error="skip")
pipeline.sink("out", total, Parquet("out"))
"""
SOUND = """
from holdfast import Parquet, Pipeline, Rate

pipeline = Pipeline("sound")
pipeline.sink("out", pipeline.source("rows", Rate(1)), Parquet("out"))
"""
LINES = (
    "holdfast: count: 'a b' cannot be a key column; select it under a plain name first",
    "holdfast: both: a join needs a key; name the columns it joins on",
    "holdfast: odd: unknown on_error 'skip'; fail or quarantine",
    "holdfast: m: unknown column 'valu'; did you mean value?",
)


@pytest.fixture
def app(tmp_path, monkeypatch):
    """Write an application; Spark is asked by a stand-in that finds one mistake more."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def write(text, found=()):
        path = tmp_path / "app.py"
        path.write_text(text)
        asked = []

        def ask(app):
            from holdfast.pipeline import inspect_pipeline

            asked.append(app)
            return (*inspect_pipeline(app)[1], *found), ("a note",)

        monkeypatch.setattr(launch, "_ask", ask)
        return path, asked

    return write


SPARKS = BadInputError("unknown column 'valu'", where="m", hint="did you mean value?")


def test_all_mistakes_are_told_at_once(holdfast, app):
    """Those of the API and those that Spark finds, one per operator; exit code 2."""
    path, _ = app(BROKEN, [SPARKS])
    said = holdfast("check", path)
    assert said.code == 2
    assert said.err.strip().splitlines() == list(LINES)


@pytest.mark.parametrize(
    "command",
    [
        ("run",),
        ("profile",),
        ("chaos", "--seed", "1"),
        ("prove", "--plan", "plan.json"),
    ],
)
def test_what_starts_a_pipeline_says_the_same_lines_first(
    holdfast, app, command, tmp_path, monkeypatch
):
    """Nothing is started and nothing written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("holdfast.plan.document.load_plan", lambda path: None)
    path, _ = app(BROKEN, [SPARKS])
    said = holdfast(command[0], path, *command[1:])
    assert said.code == 2
    assert [line for line in said.err.splitlines() if "checking" not in line] == list(LINES)
    assert not (tmp_path / "runs").exists()


def test_a_sound_pipeline_is_remembered_until_it_changes(holdfast, app):
    """A start of the same code asks Spark no more; changed code does, and so does `check`."""
    from holdfast.cli.check import note, sound_pipeline

    path, asked = app(SOUND)
    for _ in range(2):
        assert sound_pipeline(str(path), note).name == "sound"
    assert len(asked) == 1
    # Of another length: Python takes a file of the same second and size for unchanged.
    path.write_text(SOUND.replace("Rate(1)", "Rate(20)"))
    sound_pipeline(str(path), note)
    assert len(asked) == 2
    assert holdfast("check", path).code == 0
    assert len(asked) == 3


def test_a_directory_that_is_not_there_is_told_before_the_start(holdfast, app, tmp_path):
    """Beside all else; also of a pipeline that was found sound before it was removed."""
    from holdfast.cli.check import note, sound_pipeline

    path, _ = app(SOUND.replace("Rate(1)", "Files('in/rows')").replace("Rate", "Files"), [SPARKS])
    said = holdfast("check", path)
    assert said.code == 2
    assert said.err.strip().splitlines() == [
        "holdfast: rows: there is no directory 'in/rows'; make it, or write another path: a "
        "relative one begins at the application's file",
        LINES[-1],
    ]
    path, _ = app(path.read_text())
    (tmp_path / "in" / "rows").mkdir(parents=True)
    assert sound_pipeline(str(path), note).name == "sound"
    (tmp_path / "in" / "rows").rmdir()
    with pytest.raises(BadInputsError, match="there is no directory 'in/rows'"):
        sound_pipeline(str(path), note)


def test_a_broken_pipeline_is_never_remembered(app):
    """What is wrong is wrong until it is mended."""
    from holdfast.cli.check import note, sound_pipeline

    path, asked = app(SOUND, [SPARKS])
    for _ in range(2):
        with pytest.raises(BadInputsError):
            sound_pipeline(str(path), note)
    assert len(asked) == 2


def test_a_start_goes_on_when_the_check_cannot_be_made(app, monkeypatch, capsys):
    """What keeps Spark from starting is told by the nodes, with everything they know."""
    from holdfast.cli.check import note, sound_pipeline
    from holdfast.errors import CheckFailedError

    def fail(app):
        raise CheckFailedError("the check ended early: no memory")

    path, _ = app(SOUND)
    monkeypatch.setattr(launch, "_ask", fail)
    assert sound_pipeline(str(path), note).name == "sound"
    assert "not checked before the start: the check ended early" in capsys.readouterr().err


def test_json_has_all_parts(holdfast, app):
    """One object, also when something is wrong."""
    path, _ = app(BROKEN, [SPARKS])
    said = holdfast("check", path, "--json")
    assert said.code == 2
    answer = json.loads(said.out)
    assert answer["ok"] is False
    assert [one["where"] for one in answer["problems"]] == ["count", "both", "odd", "m"]
    path, _ = app(SOUND)
    answer = json.loads(holdfast("check", path, "--json").out)
    assert answer == {"ok": True, "problems": [], "warnings": ["a note"], "columns_checked": True}


def test_an_application_that_cannot_be_loaded_has_one_problem(holdfast, app):
    """What was collected before it is told too."""
    path, asked = app("pipeline = 1 +")
    said = holdfast("check", path)
    assert said.code == 2
    assert len(said.err.strip().splitlines()) == 1
    assert not asked
    path, _ = app(BROKEN.replace('pipeline.sink("out"', 'pipeline.sunk("out"'))
    said = holdfast("check", path)
    assert "cannot be a key column" in said.err
    assert "'Pipeline' object has no attribute 'sunk'" in said.err
