"""What a stranger meets first: README, addresses of the package, planning from a script."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from scripts.addresses import addresses
from scripts.stranger import FailedError, lines_of
from tests.unit.docs.blocks import ROOT

from holdfast import BadInputError, Console, Pipeline, Rate, plan

pytestmark = pytest.mark.unit


def test_the_stranger_finds_every_step_in_the_readme():
    """Install, check, profile, plan, run, kill, verify, in this order."""
    typed = lines_of((ROOT / "README.md").read_text())
    steps = [line.split()[:2] for line in typed]
    assert [words[1] for words in steps if words[0] == "holdfast"] == [
        *("check", "profile", "plan", "run", "kill", "verify")
    ]
    assert typed[0].startswith("make venv")
    assert any(line.endswith("&") for line in typed)
    assert not any("#" in line for line in typed)


def test_a_readme_without_steps_fails():
    """The script cannot succeed by finding nothing to do."""
    with pytest.raises(FailedError, match="nothing"):
        lines_of("# Holdfast\n\n```sh\nmake venv\n```\n")


def test_addresses_come_from_the_build():
    """None without a home, all of one home with it, nothing but https."""
    assert addresses("") == {}
    found = addresses("https://host.example/o/holdfast/")
    assert found["Source"] == "https://host.example/o/holdfast"
    for page in ("Documentation", "Changelog"):
        where = found[page].removeprefix("https://host.example/o/holdfast/")
        assert (ROOT / where).is_file()
    with pytest.raises(ValueError, match="https"):
        addresses("ftp://host.example")


def test_a_script_plans_a_topology_file():
    """By its path, as the command does."""
    shown = plan(ROOT / "examples/topologies/trending.yaml", max_recovery="6s")
    assert shown.plan.feasible
    assert "every recovery of trending" in str(shown)
    assert repr(shown) == str(shown)  # a shell shows the sentence, not pages of fields


def test_an_objective_that_does_not_exist_is_named_with_those_that_do():
    """From a script, where no command line has looked at it before."""
    with pytest.raises(BadInputError, match="no objective 'cheep'; write one of cheapest, fastest"):
        plan(ROOT / "examples/topologies/trending.yaml", objective="cheep")


def test_what_a_pipeline_without_a_file_assumes_can_be_measured():
    """The sentence names the call, not a command without its file."""
    pipeline = Pipeline("rows")
    pipeline.sink("out", pipeline.source("rows-in", Rate(1)), Console())
    assert "holdfast.profile(pipeline) measures how much" in str(plan(pipeline))


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md", "docs/guides/quickstart.md"])
def test_what_a_page_installs_is_enough_for_what_it_types(page):
    """They run, plan and plot: three extras, which one name has."""
    installed = re.findall(r"pip install '?holdfast\[(.*?)\]", (ROOT / page).read_text())
    assert installed
    assert all("all" in extras.split(",") for extras in installed)


def test_ctrl_c_while_starting_is_no_traceback(tmp_path):
    """An interrupt during the imports is one line and 130."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
    )
    said = subprocess.run(
        [sys.executable, "-m", "holdfast", "--help"],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (said.returncode, said.stderr) == (130, "holdfast: interrupted\n")


@pytest.mark.slow
def test_what_the_system_refuses_is_one_line(tmp_path):
    """The file and the reason, exit code 2; the traceback only with --debug."""
    (tmp_path / "file").touch()
    for debug, lines in (((), 1), (("--debug",), 5)):
        said = subprocess.run(
            [sys.executable, "-c", REFUSED, *debug],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert said.returncode == (1 if debug else 2)
        assert "Not a directory" in said.stderr
        assert "file/runs" in said.stderr
        assert len(said.stderr.splitlines()) >= lines
        assert ("Traceback" in said.stderr) is bool(debug)


REFUSED = """
import os, sys
from holdfast import cli

@cli.app.command("refused")
def refused():
    os.mkdir("file/runs")

sys.argv = ["holdfast", *sys.argv[1:], "refused"]
cli.main()
"""


def test_ctrl_c_in_a_command_is_one_line():
    """Whatever the library of the command line makes of an interrupt."""
    code = (
        "import sys\n"
        "from holdfast import cli\n"
        "def interrupted(): raise KeyboardInterrupt\n"
        "cli.app.command('interrupted')(interrupted)\n"
        "sys.argv = ['holdfast', 'interrupted']\n"
        "cli.main()\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr.strip()) == (130, "holdfast: interrupted")
