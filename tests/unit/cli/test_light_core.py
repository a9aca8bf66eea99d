"""What works with the command line alone, and what the rest says: no numpy, no Spark, no plots."""

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.unit, pytest.mark.slow]  # each starts an interpreter

EXTRAS = (
    *("numpy", "scipy", "highspy", "pyspark", "pyarrow", "pandas", "psutil", "matplotlib"),
    *("fastapi", "uvicorn"),
)
APP = """
from holdfast import Parquet, Pipeline, Rate

pipeline = Pipeline("light")
pipeline.sink("out", pipeline.source("rows", Rate(1)).where("value > 1"), Parquet("out"))
"""


def holdfast(folder, *args, hidden=EXTRAS):
    """The command in a process in which some packages are not installed."""
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({hidden!r})); "
        f"sys.argv = ['holdfast', *{args!r}]; from holdfast.cli import main; main()"
    )
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )


def test_options_stand_in_groups(tmp_path):
    """Those of a method under its name, what every command has at the end."""
    said = holdfast(tmp_path, "plan", "--help")
    titles = [line for line in said.stdout.splitlines() if line.endswith(":") and line[0] != " "]
    assert [title for title in titles if title.startswith("Method")] == [
        "Method ppa:",
        "Method ftc:",
        "Method fastrecover:",
        "Method joint:",
    ]
    assert titles[0] == "Arguments:"
    assert titles[-1] == "Options:"


def test_the_core_writes_looks_and_checks(tmp_path):
    """init, and a check of how a pipeline is put together."""
    assert holdfast(tmp_path, "init", "shop").returncode == 0
    (tmp_path / "app.py").write_text(APP)
    said = holdfast(tmp_path, "check", "app.py")
    assert said.returncode == 0, said.stderr
    assert "columns were not looked at: pip install 'holdfast[spark]'" in said.stdout
    said = holdfast(tmp_path, "doctor")
    assert "pyspark, pyarrow" not in said.stderr


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (("plan", "app.py"), "this needs numpy; pip install 'holdfast[plan]'"),
        (("run", "app.py"), "pip install 'holdfast[spark]'"),
        (("check", "spark.py"), "No module named 'pyspark"),
    ],
)
def test_what_needs_an_extra_says_which(tmp_path, args, line):
    """One line, exit code 2."""
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "spark.py").write_text(f"import pyspark.sql\n{APP}")
    said = holdfast(tmp_path, *args)
    assert said.returncode == 2
    assert line in said.stderr
    assert len(said.stderr.strip().splitlines()) == 1, said.stderr


def test_the_doctor_looks_at_java_without_pyspark(tmp_path):
    """Somebody who is about to install it wants to know."""
    said = holdfast(tmp_path, "doctor")
    assert "Java" in said.stdout
    assert "class archive" not in said.stdout


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("pr", ["profile", "prove"]),
        ("run --nod", ["--nodes"]),
        ("plan app.py --objective fast", ["fastest-recovery"]),
        ("plan app.py --method fa", ["fastrecover"]),
        ("paths pre", ["prefer"]),
        ("reproduce path", ["pathfinder"]),
        # Nothing of ours, so the shell offers file names (`complete -o default`).
        ("run ap", []),
    ],
)
def test_the_shell_completes_commands(tmp_path, typed, offered):
    """What `--install-completion` puts into a shell asks for, and gets."""
    (tmp_path / "app.py").touch()
    code = "import sys; sys.argv = ['holdfast']; from holdfast.cli import main; main()"
    said = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "_HOLDFAST_COMPLETE": "complete_bash",
            "COMP_WORDS": f"holdfast {typed}",
            "COMP_CWORD": str(len(typed.split())),
        },
    )
    assert said.stdout.split() == offered
