"""The report of a proof: one page that stands alone and says what was measured."""

import re
from dataclasses import replace
from functools import cache

import pytest
from tests.unit.prove.proofs import TOPOLOGY, make_proof

from holdfast.prove import report
from holdfast.prove.judge import compare
from holdfast.prove.report import bound_rule, report_html

pytestmark = pytest.mark.unit


def page(proof, **options):
    return report_html(proof, TOPOLOGY, **options)


@cache
def usual_page():
    """Drawing takes most of the time, so it is done once."""
    return page(make_proof())


@pytest.fixture
def undrawn(monkeypatch):
    """Without the plots, for what is said around them."""
    for name in ("recovery_plot", "phases_plot", "timeline_plot"):
        monkeypatch.setattr(report, name, lambda _proof: "<svg/>")


def test_the_page_needs_nothing_else():
    """No scripts, and nothing is loaded from anywhere."""
    text = usual_page()
    assert "<script" not in text
    links = re.findall(r"(?:src|href)=\"([^\"]*)\"", text)
    assert [link for link in links if not link.startswith("#")] == []
    assert not re.search(r"url\((?!#)", text)
    assert "@import" not in text


def test_ids_of_the_plots_do_not_collide():
    """Inline drawings share one name space."""
    ids = re.findall(r"\bid=\"([^\"]+)\"", usual_page())
    paths = [name for name in ids if name.startswith(("p", "m")) and len(name) > 8]
    assert paths
    assert len(paths) == len(set(paths))


def test_promised_and_measured_stand_side_by_side():
    """For every operator, with how many kept the bound."""
    text = page(make_proof((3.5, 4.0, 7.5)))
    row = re.search(r"<tr><td>split</td>(.*?)</tr>", text)[1]
    cells = re.findall(r"<td>(.*?)</td>", row)
    assert cells == ["4.00 s", "5.50 s", "4.00 s", "7.15 s", "3", "+0%", "2 of 3 in 6 s"]
    assert "words &amp; counts" in text
    assert "<svg" in text


def test_the_verdict_is_the_headline(undrawn):
    """Good news, a broken bound, lost rows and an interrupted proof read differently."""
    assert "the plan keeps its promise" in page(make_proof())
    assert "not refuted" in page(make_proof((4.0, 4.0, 7.0)))
    assert "the plan breaks its bound" in page(make_proof((7.0, 8.0, None)))
    wrong = page(make_proof(missing=2))
    assert "results are wrong" in wrong
    assert "missing: {word: &#x27;kelp&#x27;}" in wrong
    assert "interrupted after 0" in page(make_proof((), note="interrupted after 0 of 3 faults"))
    assert "not checked" in page(make_proof(verdict=False))
    assert "the run did not recover" in page(make_proof(gave_way=True, note="n.0#0 has failed"))


def test_the_command_is_quoted(undrawn):
    """It can be pasted into a shell."""
    text = page(make_proof(), command=["holdfast", "prove", "my app.py"])
    assert "<pre>holdfast prove &#x27;my app.py&#x27;</pre>" in text


def test_many_faults_are_folded(undrawn):
    """A long table opens on request."""
    assert "<details>" not in page(make_proof((4.0,) * 12))
    assert "All 13 faults" in page(make_proof((4.0,) * 13))


def test_the_rule_is_stated_with_its_numbers():
    """For the numbers of recoveries at hand; two segments are judged together here."""
    assert "more than 5 of 40 beyond the bound" in bound_rule(make_proof((4.0,) * 40).comparisons)
    assert "cannot refute it" in bound_rule(make_proof((4.0,)).comparisons)
    assert bound_rule(make_proof(()).comparisons) == "Nothing was measured."


def test_failovers_are_told_apart():
    """With hot followers the page says what their time means, and its plots need no phases."""
    proof = make_proof((0.2, 0.3))
    hot = tuple(replace(item, hot=True, next_slice=0.4, phases=None) for item in proof.recoveries)
    promised = [item.promise for item in proof.comparisons]
    text = page(replace(proof, recoveries=hot, comparisons=compare(promised, hot)))
    assert "later than usual" in text
    assert "next slice after 0.40 s" in text
    assert "hot follower" not in usual_page()
