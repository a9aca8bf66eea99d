"""Finding the pipeline a user names, and one line for each way it can fail."""

import sys

import pytest

from holdfast.errors import BadInputError
from holdfast.pipeline import load_pipeline

pytestmark = pytest.mark.unit

APP = """
from holdfast.pipeline import Console, Pipeline, Rate
{name} = Pipeline("app")
{name}.sink("out", {name}.source("s", Rate(1)), Console())
"""


def write(path, text):
    path.write_text(text)
    return path


def test_a_file_gives_its_pipeline(tmp_path):
    """The attribute `pipeline`, else the only Pipeline, else the one named."""
    path = write(tmp_path / "app.py", APP.format(name="pipeline"))
    assert load_pipeline(path).name == "app"
    assert load_pipeline(f"{path}:pipeline").name == "app"
    assert load_pipeline(write(tmp_path / "b.py", APP.format(name="p"))).name == "app"


def test_a_module_gives_its_pipeline(tmp_path, monkeypatch):
    """`module:attribute` imports by name."""
    write(tmp_path / "holdfast_test_app.py", APP.format(name="mine"))
    monkeypatch.syspath_prepend(tmp_path)
    assert load_pipeline("holdfast_test_app:mine").name == "app"
    assert load_pipeline("holdfast_test_app").name == "app"
    del sys.modules["holdfast_test_app"]


def test_a_file_may_import_its_neighbours(tmp_path):
    """The application's directory is on the path while it loads."""
    write(tmp_path / "holdfast_neighbour.py", "RATE = 5")
    path = write(
        tmp_path / "app.py",
        "from holdfast_neighbour import RATE\n" + APP.format(name="pipeline"),
    )
    assert load_pipeline(path).name == "app"
    assert str(tmp_path) not in sys.path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "app.py: has no Pipeline"),
        (APP.format(name="a") + APP.format(name="b"), "has 2 pipelines (a, b)"),
        ("def broken(:\n  pass", "app.py:1: "),
        ("x = 1\nx = 1 / 0", "app.py:2: ZeroDivisionError: division by zero"),
        ("import holdfast_no_such", "ModuleNotFoundError"),
        ("raise SystemExit(3)", "app.py:1: SystemExit: 3; what a script does"),
        ("from holdfast.pipeline import Pipeline\npipeline = Pipeline('p')", "p: has no sink"),
    ],
)
def test_an_unusable_file_is_one_line(tmp_path, text, message):
    """A mistake in the application is shown with its place in the file."""
    path = write(tmp_path / "app.py", text)
    with pytest.raises(BadInputError) as error:
        load_pipeline(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("app", "message"),
    [
        ("no/such.py", "no such file"),
        ("holdfast_no_such:x", "holdfast_no_such: no such module"),
        ("json:dumps", "'dumps' is not a Pipeline"),
        ("json:nope", "'nope' does not exist"),
    ],
)
def test_a_name_that_leads_nowhere_is_one_line(app, message):
    """Neither file nor module nor attribute: said so."""
    with pytest.raises(BadInputError) as error:
        load_pipeline(app)
    assert message in str(error.value)
