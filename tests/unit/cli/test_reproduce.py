"""`holdfast reproduce`: list, one figure, files, and mistakes in one line."""

from __future__ import annotations

import dataclasses
import json

import pytest

pytestmark = pytest.mark.unit


def test_list_names_every_figure_and_its_paper(holdfast):
    """As a table and as JSON."""
    said = holdfast("reproduce", "--list")
    assert said.code == 0
    assert "4.14" in said.out
    assert "Passive and Partially Active" in said.out
    rows = json.loads(holdfast("reproduce", "--list", "--json").out)["figures"]
    assert len(rows) == 41
    measured = [f"{row['paper']} {row['figure']}" for row in rows if row["measured"]]
    assert measured[:6] == [*(f"ppa {n}" for n in (8, 9, 10, 12)), "pathfinder 7", "pathfinder 8"]


def test_one_figure_is_shown_and_written(holdfast, tmp_path):
    """Page, drawing and numbers in the folder; the paper's words on the screen."""
    said = holdfast("reproduce", "ftc", "3", "--out", tmp_path)
    assert said.code == 0
    assert "the backups are 1, 2, 8, 9 and 10" in said.out
    assert (tmp_path / "ftc-3.md").read_text().startswith("# FTC on lines")
    assert (tmp_path / "ftc-3-1.svg").exists()
    assert json.loads((tmp_path / "ftc-3.json").read_text())["figure"] == "3"


def test_json_is_one_object_and_writes_nothing(holdfast, tmp_path, monkeypatch):
    """Unless --out asks for files."""
    monkeypatch.chdir(tmp_path)
    said = holdfast("reproduce", "ftc", "4", "--json")
    (made,) = json.loads(said.out)["figures"]
    assert made["claims"][0]["verdict"] == "holds"
    assert list(tmp_path.iterdir()) == []


def test_what_needs_spark_is_named_and_left_out(holdfast, monkeypatch):
    """A paper without a figure makes what can be planned, and says what it did not make."""
    from holdfast.reproduce import ppa

    drawn = [item for item in ppa.FIGURES if item.measured or item.figure == "11"]
    monkeypatch.setattr("holdfast.reproduce.FIGURES", tuple(drawn))
    said = holdfast("reproduce", "--all", "--json")
    (made,) = json.loads(said.out)["figures"]
    assert made["figure"] == "11"
    assert "measured on Spark, minutes each: ppa 8, ppa 9, ppa 10, ppa 12;" in said.err


def test_who_waits_is_told_for_what(holdfast, tmp_path):
    """A figure may take minutes: its name comes before it, apart from the answer."""
    said = holdfast("reproduce", "ftc", "3", "--out", tmp_path)
    assert said.err == "making ftc figure 3: FTC on lines, step by step\n"
    assert "making" not in said.out


def test_a_folder_that_cannot_be_written_is_said_before_the_work(holdfast, monkeypatch):
    """Not after minutes of planning."""
    from holdfast.reproduce import ftc

    def never(effort):
        raise AssertionError("made before anyone knew where to put it")

    first = dataclasses.replace(ftc.FIGURES[0], make=never)
    monkeypatch.setattr("holdfast.reproduce.FIGURES", (first,))
    said = holdfast("reproduce", "ftc", "3", "--out", "/proc/nowhere")
    assert said.code == 2
    assert said.err.startswith("holdfast: --out /proc/nowhere: cannot be written")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "neither which paper nor --all"),
        (("ftc", "--all"), "goes without a paper"),
        (("nobody",), "no paper 'nobody'"),
        (("ftc", "5"), "no figure '5'"),
        (("spate",), "only figures that are measured on Spark, minutes each; name one: 9, 10, 11"),
        (("ftc", "3", "--out", "/proc/nowhere"), "cannot be written"),
    ],
)
def test_mistakes_are_one_line(holdfast, args, words):
    """With exit code 2."""
    said = holdfast("reproduce", *args)
    assert said.code == 2
    assert words in said.err
    assert said.err.count("\n") == 1
