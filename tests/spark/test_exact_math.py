"""Sums that overflow fail as Spark says, and all others come to what they are, without closures."""

from __future__ import annotations

import itertools
import operator

import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

pytestmark = pytest.mark.spark

EDGES = {
    "int": (0, 1, -1, 7, -46341, 46341, 2**31 - 1, -(2**31)),
    "bigint": (0, 1, -1, 7, 3037000500, -3037000500, 2**31, 2**63 - 1, -(2**63)),
}
BITS = {"int": 31, "bigint": 63}
SUMS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def pairs(spark, kind, chosen):
    return spark.createDataFrame(chosen, f"a {kind}, b {kind}").coalesce(1)


def test_ours_is_the_class_that_generated_code_calls(spark):
    """Nodes have it on the class path before Spark's own."""
    name = "org.apache.spark.sql.catalyst.util.MathUtils"
    place = spark._jvm.java.lang.Class.forName(name).getProtectionDomain().getCodeSource()
    assert "/slices-" in place.getLocation().toString()


@pytest.mark.parametrize("kind", EDGES)
@pytest.mark.parametrize("sign", SUMS)
def test_what_fits_is_exact_and_what_does_not_fails(spark, kind, sign):
    """At and around the ends of both types."""
    bound = 1 << BITS[kind]
    every = list(itertools.product(EDGES[kind], repeat=2))
    fits = [pair for pair in every if -bound <= SUMS[sign](*pair) < bound]
    found = pairs(spark, kind, fits).select("a", "b", F.expr(f"a {sign} b").alias("c")).collect()
    assert [row.c for row in found] == [SUMS[sign](row.a, row.b) for row in found]
    assert len(found) == len(fits) < len(every)
    for pair in [pair for pair in every if pair not in fits][:2]:
        with pytest.raises(ArithmeticException, match="ARITHMETIC_OVERFLOW"):
            pairs(spark, kind, [pair]).select(F.expr(f"a {sign} b")).collect()


@pytest.mark.parametrize("kind", EDGES)
def test_remainders_and_signs(spark, kind):
    """A remainder has the sign that Spark gives it; only the least number has no negative."""
    least = -(1 << BITS[kind])
    chosen = [(a, b) for a, b in itertools.product(EDGES[kind], (1, 3, 7, 1000)) if a != least]
    found = pairs(spark, kind, chosen).select("a", "b", F.expr("pmod(a, b)"), F.expr("-a"))
    assert [(row[2], row[3]) for row in found.collect()] == [(a % b, -a) for a, b in chosen]
    with pytest.raises(ArithmeticException, match="ARITHMETIC_OVERFLOW"):
        pairs(spark, kind, [(least, 1)]).select(F.expr("-a")).collect()
