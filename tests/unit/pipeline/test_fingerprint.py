"""Fingerprints change with what an operator does and with nothing else."""

import dataclasses
import functools
import re

import pytest

from holdfast.pipeline import Console, Generator, Pipeline, Rate
from holdfast.pipeline.fingerprint import fingerprint, fingerprints
from holdfast.pipeline.operators import PipelineOperator

pytestmark = pytest.mark.unit


def compiled(source, name="f", **names):
    scope = {"__name__": "__main__", **names}
    exec(compile(source, "app.py", "exec"), scope)  # noqa: S102 - the point is to compile text
    return scope[name]


def of(function, **options):
    return fingerprint(
        PipelineOperator(name="o", kind="map", inputs=("i",), function=function, **options)
    )


BASE = "def f(df):\n    return df.where(df.n > 3)\n"


@pytest.mark.parametrize(
    "source",
    [
        "\n\n\ndef f(df):\n    return df.where(df.n > 3)\n",
        "def f(df):\n    # why three\n    return (\n        df.where(\n        df.n > 3\n    ))\n",
        'def f(df):\n    """Keep the large ones."""\n    return df.where(df.n > 3)\n',
    ],
)
def test_reformatting_does_not_change_it(source):
    """Lines, comments, brackets and docstrings do not count."""
    assert of(compiled(source)) == of(compiled(BASE))


@pytest.mark.parametrize(
    "source",
    [
        "def f(df):\n    return df.where(df.n > 4)\n",
        "def f(df):\n    return df.where(df.m > 3)\n",
        "def f(df):\n    return df.filter(df.n > 3)\n",
        "def f(df, extra=1):\n    return df.where(df.n > 3)\n",
    ],
)
def test_changed_code_changes_it(source):
    """Another constant, column, method or default is another operator."""
    assert of(compiled(source)) != of(compiled(BASE))


def test_a_text_that_is_used_counts_though_it_comes_first():
    """A first constant that is no docstring is part of the code."""
    one = compiled("def f(df):\n    return df['a']\n")
    two = compiled("def f(df):\n    return df['b']\n")
    assert of(one) != of(two)


def test_helpers_constants_and_closures_count():
    """What the function calls or refers to in its own module is part of it."""
    calling = "LIMIT = {limit}\ndef g(x):\n    return x + {plus}\ndef f(df):\n    return g(LIMIT)\n"
    base = of(compiled(calling.format(limit=1, plus=1)))
    assert of(compiled(calling.format(limit=1, plus=1))) == base
    assert of(compiled(calling.format(limit=2, plus=1))) != base
    assert of(compiled(calling.format(limit=1, plus=2))) != base

    def above(limit):
        return lambda df: df.where(df.n > limit)

    assert of(above(1)) == of(above(1)) != of(above(2))


def test_partials_and_recursive_functions_are_understood():
    """Bound arguments count; recursion ends."""

    def scale(df, factor):
        return df * factor

    assert of(functools.partial(scale, factor=2)) == of(functools.partial(scale, factor=2))
    assert of(functools.partial(scale, factor=2)) != of(functools.partial(scale, factor=3))
    source = "def f(n):\n    return n and f(n - {step})\n"
    assert of(compiled(source.format(step=1))) == of(compiled(source.format(step=1)))
    assert of(compiled(source.format(step=1))) != of(compiled(source.format(step=2)))


def test_values_without_order_hash_the_same():
    """Sets and mappings do not depend on their order."""
    one = compiled("def f(df):\n    return WORDS\n", WORDS={"a", "b", "c"})
    two = compiled("def f(df):\n    return WORDS\n", WORDS={"c", "b", "a"})
    three = compiled("def f(df):\n    return WORDS\n", WORDS={"c", "b"})
    assert of(one) == of(two) != of(three)


def test_a_class_counts_with_its_methods_and_a_pattern_with_its_text():
    """A stateful processor's methods are its code."""
    source = "class P:\n    SIZE = {size}\n    def go(self):\n        return {value}\n"
    source += "def f(df):\n    return P()\n"
    base = of(compiled(source.format(size=1, value=1)))
    assert base != of(compiled(source.format(size=2, value=1)))
    assert base != of(compiled(source.format(size=1, value=2)))
    code = "def f(df):\n    return PATTERN\n"
    assert of(compiled(code, PATTERN=re.compile("a"))) != of(
        compiled(code, PATTERN=re.compile("b"))
    )


def test_an_objects_address_does_not_count():
    """Objects of unknown types count without what changes between processes."""
    code = "def f(df):\n    return THING\n"
    assert of(compiled(code, THING=object())) == of(compiled(code, THING=object()))


def test_options_count():
    """Key, modes and shards-independent options are part of an operator."""
    function = compiled(BASE)
    assert of(function) != of(function, deterministic=False)
    assert of(function) != of(function, on_error="quarantine")


def test_a_sources_rows_depend_on_the_clock_and_others_do_not():
    """Another epoch length or delay changes the sources' fingerprints only."""

    def build(delay, rate=1, generator=None):
        p = Pipeline("p", event_time=("ts", delay))
        source = Generator(generator, "ts timestamp") if generator else Rate(rate)
        p.sink("out", p.source("s", source).map("m", compiled(BASE)), Console())
        return fingerprints(p)

    base = build("1s")
    assert build("1s") == base
    assert build("2s")["s"] != base["s"]
    assert build("2s")["m"] == base["m"]
    assert build("1s", rate=2)["s"] != base["s"]
    one = compiled("def f(epoch, seed):\n    return [(1,)]\n")
    two = compiled("def f(epoch, seed):\n    return [(2,)]\n")
    assert build("1s", generator=one)["s"] != build("1s", generator=two)["s"]


def test_fingerprints_of_earlier_runs_still_hold():
    """An operator without code has the fingerprint it has always had, so its run can be resumed."""
    operator = PipelineOperator(name="u", kind="union", inputs=("a", "b"))
    assert fingerprint(operator) == "4699a118d2429bf1"


def test_a_sinks_priority_is_none_of_its_code():
    """So it can change between the starts of a run."""
    sink = PipelineOperator(name="out", kind="sink", inputs=("a",), sink=Console())
    assert fingerprint(sink) == fingerprint(dataclasses.replace(sink, priority=3.0))
