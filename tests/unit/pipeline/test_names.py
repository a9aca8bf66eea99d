"""Names that operators take from their functions and inputs, and words of Structured Streaming."""

import functools

import pytest

from holdfast.errors import BadInputError
from holdfast.pipeline import Console, Pipeline, Rate, Table
from holdfast.pipeline.fingerprint import fingerprints
from holdfast.pipeline.problems import collecting

pytestmark = pytest.mark.unit


def split(frame):
    return frame


def both(left, right):
    return left


def _private(frame):
    return frame


def rows(pipeline=None, name="rows"):
    return (pipeline or Pipeline("p")).source(name, Rate(1))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda s: s.map(split), "split"),
        (lambda s: s.map("cut", split), "cut"),
        (lambda s: s.map(functools.partial(split)), "split"),
        (lambda s: s.map(_private), "private"),
        (lambda s: s.aggregate(split, key="key"), "split"),
        (lambda s: s.stateful(split, key="key"), "split"),
        (lambda s: s.join(rows(s.pipeline, "others"), both, key="key"), "both"),
        (lambda s: s.union(rows(s.pipeline, "others")), "union-rows-others"),
        (lambda s: s.where("value > 1"), "rows-where"),
        (lambda s: s.where("value > 1", name="large"), "large"),
        (lambda s: s.select("value", "key + 1 AS next"), "rows-select"),
        (lambda s: s.with_columns(next="key + 1"), "rows-with-next"),
        (lambda s: s.join(table(s), both), "both"),
        (lambda s: s.join("named", table(s), both), "named"),
        (lambda s: s.join(table(s), on="key"), "rows-names"),
    ],
)
def test_a_name_comes_from_the_function_or_the_input(make, name):
    """The same name every time, whatever else the pipeline has."""
    assert make(rows()).name == name


def table(stream):
    return stream.pipeline.table("names", Table([(1, "one")], "key bigint, name string"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s: s.map(lambda df: df), "map: a lambda has no name; give the operator one"),
        (lambda s: s.map(3), "map: 3 is neither a name nor a function"),
        (lambda s: s.map(split, split), "is not a name"),
        (lambda s: (s.map(split), s.map(split)), "split: there is an operator of that name"),
        (lambda s: s.where(3), "rows-where: 3 is not an SQL expression; write it as text"),
        (lambda s: s.select(), "rows-select: names no column"),
        (lambda s: s.aggregate("a", split, key="key", output="complete"), "whole result again"),
        (lambda s: s.join(table(s)), "needs either a function or `on`"),
        (lambda s: s.join(table(s), both, on="key"), "needs either a function or `on`"),
        (lambda s: s.join(table(s), on="key", how="outer"), "cannot have a join of kind 'outer'"),
        (lambda s: s.join("j", rows(s.pipeline, "x"), both, on="key"), "`on` is for static tables"),
        (lambda s: s.join(table(rows()), both), "belongs to another pipeline"),
        (lambda s: s.pipeline.table("t", 3), "3 is not a table"),
        (lambda s: (table(s), table(s)), "there is a table of that name already"),
        (lambda s: Table([], ""), "needs a schema"),
        (lambda s: rows(s.pipeline, "x" * 60).where("a"), "too long"),
    ],
)
def test_what_has_no_name_or_no_meaning_is_refused(make, message):
    """In one line that says what to write."""
    with pytest.raises(BadInputError) as error:
        make(rows())
    assert message in str(error.value)


def test_update_is_upsert_and_expressions_keep_versions():
    """Structured Streaming's word means the same, and an expression copes with new versions."""
    counts = rows().aggregate("count", split, key="key", output="update")
    assert counts.operator.mode == "upsert"
    large = counts.where("value > 1").select("key", "value")
    assert large.operator.mode == "upsert"
    assert large.operator.upsert_key == ("key",)


def test_watermark_says_what_the_pair_says():
    """Two ways to write one thing."""
    assert (
        Pipeline("p", event_time="ts", watermark="10 seconds").event_time
        == Pipeline("p", event_time=("ts", "10 seconds")).event_time
    )


def test_what_an_operator_says_is_in_its_fingerprint():
    """Another expression, another table or another function is another operator; a copy is not."""

    def made(condition="value > 1", content=((1, "one"),), function=both):
        p = Pipeline("p")
        names = p.table("names", Table(content, "key bigint, name string"))
        p.sink("out", rows(p).where(condition).join("j", names, function), Console())
        return p

    first = fingerprints(made())
    assert fingerprints(made()) == first
    assert fingerprints(made(condition="value > 2"))["rows-where"] != first["rows-where"]
    assert fingerprints(made(content=((2, "two"),)))["j"] != first["j"]
    assert fingerprints(made(function=lambda a, b: b))["j"] != first["j"]
    moved = made()
    moved.operator("j").function.copies["names"] = "/somewhere"
    assert fingerprints(moved) == first


def test_problems_are_collected_one_per_operator():
    """Whoever breaks a rule is left out of further checks; outside, the first one is raised."""
    with collecting() as problems:
        p = Pipeline("p")
        p.sink("out", rows(p).aggregate("a", split, key="k k", output="upsert"), Console())
        rows(p, "unread")
        p.validate()
    assert [problem.where for problem in problems] == ["a", "unread"]
    assert p.broken == {"a"}
    with pytest.raises(BadInputError):
        p.validate()
