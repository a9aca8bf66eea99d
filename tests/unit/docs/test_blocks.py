"""Every code block of README, tutorial and guides is run, or says why not."""

from __future__ import annotations

import contextlib
import io
import runpy
from pathlib import Path

import pytest
import typer
from tests.unit.docs.blocks import KINDS, NOT_RUN, PAGES, ROOT, blocks, commands

from holdfast.cli import app
from holdfast.faults.schedule import read_schedule
from holdfast.pipeline import Pipeline, deploy

pytestmark = pytest.mark.unit

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@pages
def test_every_block_says_what_it_is(page):
    """A block without a comment, or with an unknown kind, is a mistake."""
    found = blocks(page)
    assert found
    assert [f"{b.where}: {b.kind!r}" for b in found if b.kind not in KINDS] == []
    assert page.read_text().count("\n```") == 2 * len(found)


@pages
def test_every_block_that_is_not_run_says_why(page):
    """In the comment before it, where whoever changes the block reads it."""
    assert [b.where for b in blocks(page) if b.kind in NOT_RUN and not b.file] == []


@pages
def test_python_blocks_run_and_print_what_is_shown(page, monkeypatch):
    """In order, in one set of names; pipelines among them can be deployed."""
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    printed = ""
    for block in blocks(page):
        if block.kind == "exec":
            if block.file:
                names |= runpy.run_path(str(ROOT / block.file))
            if "expected(" in block.text:
                # The file has one already, and a sink has one.
                names["pipeline"] = _without_expected(block.file)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(block.text, block.where, "exec"), names)  # noqa: S102
            printed = out.getvalue()
            made = names.get("pipeline")
            if isinstance(made, Pipeline):
                assert deploy(made).segments
        elif block.kind == "compare":
            assert block.text == printed, block.where


def _without_expected(file: str) -> Pipeline:
    text = (ROOT / file).read_text().partition("@pipeline.expected")[0]
    names: dict[str, object] = {"__name__": "shown"}
    exec(compile(text, file, "exec"), names)  # noqa: S102
    made = names["pipeline"]
    assert isinstance(made, Pipeline)
    return made


@pages
def test_commands_are_ones_that_there_are(page):
    """Subcommands, options and files of every `holdfast` command exist."""
    seen = 0
    for block in blocks(page):
        if block.kind in {"run-full", "session", "stranger", "parse"}:
            for words in commands(block):
                if words[0] == "holdfast":
                    _parse(words[1:], block.where)
                    seen += 1
    assert seen


def _parse(words: list[str], where: str) -> None:
    group = typer.main.get_command(app)
    context = group.context_class(group, info_name="holdfast")
    name, *rest = words
    command = group.get_command(context, name)
    assert command is not None, f"{where}: there is no command {name}"
    try:
        command.make_context(name, list(rest))
    except Exception as error:  # noqa: BLE001  whichever click it was built with
        pytest.fail(f"{where}: {' '.join(words)}: {error}")
    for word in rest:
        if word.startswith("examples/"):
            assert (ROOT / word).exists(), f"{where}: {word}"


def test_a_wrong_option_is_seen():
    """The check can fail."""
    with pytest.raises(pytest.fail.Exception, match="--nodez"):
        _parse(["run", "examples/word_count.py", "--nodez", "2"], "here")


@pages
def test_fault_schedules_can_be_read(page, tmp_path):
    """As `holdfast chaos --schedule` would."""
    for block in blocks(page):
        if block.kind == "faults":
            file = tmp_path / "faults.yaml"
            file.write_text(block.text)
            assert len(read_schedule(file).faults) == block.text.count("- {")


def test_the_picture_is_made_from_the_recording():
    """docs/images/demo.svg is what scripts/demo_picture.py draws, and holds what was recorded."""
    script = runpy.run_path(str(ROOT / "scripts" / "demo_picture.py"))
    lines = script["read"](ROOT / "docs" / "images" / "demo.cast")
    svg = (ROOT / "docs" / "images" / "demo.svg").read_text()
    assert svg == script["draw"](lines)
    assert any("results exact" in text for _, text in lines)
    assert "kill -9" in svg
    assert len(svg) < 100_000


def test_links_to_pictures_of_the_readme_are_there():
    """GitHub shows nothing, not even an error, for a picture that is missing."""
    text = (ROOT / "README.md").read_text()
    for name in ("docs/images/demo.svg", "docs/images/proof.png"):
        assert name in text
        assert Path(ROOT / name).exists()
