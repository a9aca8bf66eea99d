"""Which packages a start of the command line imports: a list for each, so that none creeps in."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.cli.commands import MODULES

pytestmark = pytest.mark.unit

PLANNED = Path(__file__).parents[3] / "examples" / "topologies" / "trending.yaml"
HEAVY = (
    *("fastapi", "highspy", "matplotlib", "numpy", "pandas", "psutil", "pyarrow", "pydantic"),
    *("pyspark", "rich", "scipy", "yaml"),
    *("holdfast.control", "holdfast.control.codec", "holdfast.control.coordinator"),
    *("holdfast.pipeline", "holdfast.planners", "holdfast.predict", "holdfast.predict.recovery"),
    *("holdfast.runtime", "holdfast.web"),
)
SHOW_STATUS = "import holdfast.control.client, holdfast.cli.live, holdfast.cli.learning"


def imported(code):
    """The heavy packages that are there after some lines of Python, in a process of their own."""
    told = f"{code}\nimport sys\nprint(*(m for m in {HEAVY} if m in sys.modules), file=sys.stderr)"
    said = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return said.stderr.splitlines()[-1]


def start(*args):
    return (
        f"import sys; sys.argv = ['holdfast', *{args!r}]\n"
        "from holdfast.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass"
    )


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import holdfast, holdfast.__main__", ""),
        (start("--help"), ""),
        (start("status", "nowhere"), "pydantic"),
        (SHOW_STATUS, "pydantic rich holdfast.control"),
        (
            start("plan", str(PLANNED), "--max-recovery", "10"),
            "highspy numpy pydantic rich scipy yaml holdfast.planners holdfast.predict",
        ),
    ],
    ids=["nothing", "help", "nothing-runs", "status", "plan"],
)
def test_a_start_imports_what_is_listed(code, allowed):
    """What takes long to import is imported by the commands that need it."""
    assert imported(code) == allowed


def test_a_command_brings_no_other():
    """Of all modules with commands, the one that is asked for is imported."""
    code = f"{start('status', 'nowhere')}\nprint(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    commands = {f"holdfast.cli.{name}" for name in MODULES.values()}
    assert commands & set(said.stdout.split()) == {"holdfast.cli.coordinator"}


@pytest.mark.parametrize("words", [[], ["topology"]])
def test_without_a_command_help_is_shown_as_it_is(words, monkeypatch, capsys):
    """Not as an error, line by line."""
    monkeypatch.setattr(sys, "argv", ["holdfast", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert (ended.value.code, said.split()[0]) == (2, "Usage:")
    assert "holdfast: " not in said


def test_a_word_that_is_none_of_a_choice_is_said_plainly(monkeypatch, capsys):
    """With those that there are, and nothing of how it was found."""
    monkeypatch.setattr(sys, "argv", ["holdfast", "plan", "x.yaml", "--objective", "cheap"])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert (ended.value.code, len(said.splitlines())) == (2, 1)
    assert "'cheap' is not one of 'cheapest', 'fastest-recovery', 'least-latency'" in said
    assert "error" not in said


@pytest.mark.slow
def test_a_reader_that_has_gone_is_no_failure():
    """`holdfast reproduce --list | head -1` ends with 0: 1 would mean infeasible."""
    with subprocess.Popen(
        [sys.executable, "-m", "holdfast", "reproduce", "--list"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == ""
