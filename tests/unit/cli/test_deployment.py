"""The options by which `run` and `chaos` say how a pipeline is cut, sharded and paced."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.deployment import (
    make_deployment,
    make_places,
    parse_batches,
    parse_shards,
    planned_order,
)
from holdfast.errors import BadInputError
from holdfast.pipeline import Console, Parquet, Pipeline, Rate
from holdfast.plan import FtcPlan, JointPlan, PlannedNode

pytestmark = pytest.mark.unit

FTC = FtcPlan(algorithm="exact", feasible=True)
JOINT = JointPlan(algorithm="exact", feasible=True)


def same(frame):
    return frame


@pytest.fixture
def pipeline():
    made = Pipeline("demo", epoch="500ms")
    rows = made.source("rows", Rate(rows_per_second=10))
    counts = rows.map("clean", same).aggregate("count", same, key="key")
    made.sink("out", counts, Parquet("out/"))
    return made


def paces(deployment):
    return {item.name: item.batch_epochs for item in deployment.segments}


def test_a_common_interval_paces_every_segment(pipeline):
    """All but exporters, which deliver whatever comes."""
    assert paces(make_deployment(pipeline, cut=["clean"], batch=["2s"])) == {
        "rows": 4,
        "clean": 4,
        "count": 4,
        "out": 1,
    }


def test_an_operators_interval_is_that_of_its_segment(pipeline):
    """Also where it is longer than the common one and shares its segment with others."""
    assert paces(make_deployment(pipeline, batch=["1s", "count=4s"])) == {
        "rows": 2,
        "count": 8,
        "out": 1,
    }
    assert paces(make_deployment(pipeline, batch=["count=4s"])) == {
        "rows": 1,
        "count": 8,
        "out": 1,
    }


def test_shards_and_snapshots_are_as_asked(pipeline):
    """N shards of an operator; one snapshot interval for all."""
    made = make_deployment(pipeline, shards=["count=2"], snapshot=3)
    assert made.segment("count").shards == 2
    assert {item.snapshot_batches for item in made.segments if item.kind == "inner"} == {3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": ["700ms"]}, "--batch 700ms: is not a whole number of epochs of 0.5 s"),
        ({"batch": ["100ms"]}, "such as 0.5s"),
        ({"batch": ["0s"]}, "is not a whole number of epochs"),
        ({"batch": ["=1s"]}, "names no operator"),
        ({"batch": ["kount=1s"]}, "no operator 'kount'"),
        ({"batch": ["count=x"]}, "--batch count=x"),
        ({"shards": ["count"]}, "'count' is not OPERATOR=N"),
        ({"shards": ["=2"]}, "'=2' is not OPERATOR=N"),
        ({"shards": ["count=²"]}, "'count=²' is not OPERATOR=N"),
        ({"cut": ["clean"], "plan": FTC}, "--plan and --cut exclude each other"),
        ({"plan": JOINT, "batch": ["1s"]}, "says the batch and snapshot intervals"),
        ({"plan": JOINT, "snapshot": 2}, "says the batch and snapshot intervals"),
    ],
)
def test_bad_options_are_one_clear_line(pipeline, options, message):
    """What is wrong, where, and what to write."""
    with pytest.raises(BadInputError) as found:
        make_deployment(pipeline, **options)
    assert message in str(found.value)
    assert "\n" not in str(found.value)


@given(st.integers(1, 1000), st.sampled_from([0.1, 0.25, 1.0, 3.0]))
def test_whole_epochs_survive_the_way_through_text(epochs, epoch_s):
    """An interval written in seconds comes back as the same number of epochs."""
    assert parse_batches([f"{epochs * epoch_s!r}s"], epoch_s) == (epochs, {})


@given(st.dictionaries(st.from_regex(r"[a-z_]+", fullmatch=True), st.integers(0, 99)))
def test_shards_come_back(shards):
    """OPERATOR=N for each."""
    assert parse_shards([f"{name}={number}" for name, number in shards.items()]) == shards


def places(plan, *, nodes=None, spares=None):
    return make_places(plan, nodes=nodes, spares=spares)


def test_spares_are_asked_for_planned_or_one():
    """The option wins over the plan, the plan over the default."""
    assert places(None, spares=None).spares == 1
    assert places(replace(JOINT, spares=0), spares=None).spares == 0
    assert places(replace(JOINT, spares=2), spares=3).spares == 3
    assert places(FTC, spares=None).spares == 1


def node(*segments):
    return PlannedNode(segments=segments, slowest=None, recovery=None, results=None)


def test_a_plans_nodes_are_run(pipeline):
    """As many nodes as planned, units together as planned, exporters with what they read."""
    planned = replace(JOINT, nodes=(node("rows"), node("clean", "count")))
    deployment = make_deployment(pipeline, cut=["clean"])
    assert (
        places(planned, nodes=None).nodes,
        places(planned, nodes=3).nodes,
        places(None, nodes=None).nodes,
    ) == (2, 3, 1)
    assert places(planned, nodes=2).together(deployment) == (
        ("rows.0#0",),
        ("clean.0#0", "count.0#0", "out.0#0"),
    )
    assert places(planned, nodes=3).together(deployment) == ()
    assert places(FTC, nodes=2).together(deployment) == ()


def test_followers_of_a_plan_come_with_a_node_and_with_the_sinks_they_feed(pipeline):
    """`run --plan` needs no further option for them."""
    planned = replace(JOINT, replicas=("count",), nodes=(node("rows", "clean", "count"),))
    assert (places(planned).nodes, places(planned, nodes=1).nodes) == (2, 1)
    made = make_deployment(pipeline, plan=planned)
    assert [item.name for item in made.segments if item.followers] == ["count", "out"]
    upstream = make_deployment(pipeline, plan=replace(planned, replicas=("rows",)))
    assert [item.name for item in upstream.segments if item.followers] == ["rows"]


@pytest.mark.parametrize("cut", ["none", "all"])
def test_the_order_of_returns_names_every_unit(pipeline, cut):
    """However the pipeline is cut and sharded; upstream first needs no list."""
    made = make_deployment(pipeline, cut=[cut] if cut == "all" else [], shards=["count=2"])
    order = planned_order(pipeline, made, "inc")
    assert sorted(order) == sorted(str(unit) for unit in made.units())
    assert planned_order(pipeline, made, "topological") == ()


@pytest.mark.parametrize("first", ["left", "right"])
def test_what_a_query_of_higher_priority_needs_comes_back_first(first):
    """Two queries that are alike but for that; without one both count alike."""
    made = Pipeline("p")
    for name in ("left", "right"):
        rows = made.source(name, Rate(rows_per_second=100)).map(f"{name}-work", lambda frame: frame)
        made.sink(f"{name}-out", rows, Console(), priority=2.0 if name == first else 1.0)
    order = planned_order(made, make_deployment(made), "inc")
    assert all(unit.startswith(first) for unit in order[: len(order) // 2])
