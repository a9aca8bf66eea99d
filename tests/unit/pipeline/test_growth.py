"""max_shards that a plan chooses count as if they were declared."""

import pytest

from holdfast.errors import BadInputError
from holdfast.pipeline import Parquet, Pipeline, Rate, deploy
from holdfast.pipeline.growth import fixed_shards, with_max_shards
from holdfast.plan import JointPlan

pytestmark = pytest.mark.unit


def same(frame):
    return frame


def pipeline(**settings):
    made = Pipeline("p", epoch="1s")
    rows = made.source("rows", Rate(rows_per_second=10)).map("clean", same)
    made.sink("out", rows.aggregate("count", same, key="key", **settings), Parquet("out"))
    return made


def plan(**chosen):
    return JointPlan(algorithm="exact", feasible=True, max_shards=chosen)


def test_of_which_operators_a_plan_may_choose():
    """Those with a key that say nothing themselves; of the others it is known why."""
    assert fixed_shards(pipeline()) == {
        "rows": (1, "which rows a source makes depends on it, so the pipeline declares it"),
        "clean": (1, "it has no key"),
    }
    assert fixed_shards(pipeline(max_shards=2))["count"] == (2, "the pipeline declares it")


@pytest.mark.parametrize("form", [lambda it: it, lambda it: it.to_json()])
def test_a_plan_counts_as_a_declaration(form):
    """Same segments, with the boundary that it takes; the code is the same as before."""
    found = deploy(pipeline(), cuts=form(plan(rows=1, clean=1, count=4)))
    assert found.segments == deploy(pipeline(max_shards=4)).segments
    assert found.fingerprints == deploy(pipeline()).fingerprints
    assert found.segment("count").max_shards == 4
    assert found.segment("count").key == ("key",)
    assert [item.name for item in found.segments] == ["rows", "clean", "count", "out"]


def test_a_plan_that_does_not_fit_is_refused():
    """It was made for another pipeline, or by hand."""
    assert with_max_shards(pipeline(max_shards=4), {"count": 4}).operator("count").max_shards == 4
    for chosen, line in (
        ({"count": 8}, "count: declares max_shards=4, and the plan says 8"),
        ({"rows": 2}, "rows: the plan says max_shards=2, and which rows a source"),
        ({"clean": 2}, "clean: the plan says max_shards=2, and it has no key"),
        ({"count": 3}, "max_shards is 3"),
    ):
        with pytest.raises(BadInputError, match=line):
            with_max_shards(pipeline(max_shards=4), chosen)
