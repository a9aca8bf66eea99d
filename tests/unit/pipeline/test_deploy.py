"""Cutting a pipeline: every segment an in-tree, every forced boundary there, whatever the plan."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.pipeline.pipelines import both, pipelines, same

from holdfast.deployment import Boundary, Deployment
from holdfast.errors import BadInputError
from holdfast.pipeline import (
    Console,
    Files,
    Generator,
    Parquet,
    Pipeline,
    Rate,
    SparkSource,
    deploy,
)
from holdfast.pipeline.graph import layout
from holdfast.plan import FastRecoverPlan, FtcPlan, JointPlan, ReplicationPlan
from holdfast.topology.boundaries import forced_boundaries

pytestmark = pytest.mark.unit

MADE = {"algorithm": "by hand", "feasible": True}


def word_count(**options):
    p = Pipeline("words", event_time=("ts", "10 seconds"), epoch="500ms")
    words = p.source("lines", Rate(10)).map("split", same).map("filter", same)
    counts = words.aggregate("count", same, key="word", **options)
    p.sink("top", counts.map("round", same), Parquet("out"))
    return p


def shape(deployment):
    return {segment.name: segment.operators for segment in deployment.segments}


def test_an_uncut_chain_is_source_one_segment_and_exporter():
    """Only the source and the result are logged when nothing forces more."""
    deployment = deploy(word_count())
    assert shape(deployment) == {
        "lines": ("lines",),
        "round": ("split", "filter", "count", "round"),
        "top": ("top",),
    }
    assert [segment.kind for segment in deployment.segments] == ["source", "inner", "exporter"]
    assert deployment.segment("round").inputs == ("lines",)
    assert deployment.segment("top").inputs == ("round",)
    assert deployment.segment("round").stateful
    assert deployment.epoch_s == 0.5


def test_two_shards_force_an_exchange_before_the_keyed_operator():
    """The input of a sharded operator is laid out by its key, for every shard to take its part."""
    deployment = deploy(word_count(), shards={"count": 2})
    assert shape(deployment)["filter"] == ("split", "filter")
    assert shape(deployment)["round"] == ("count", "round")
    assert deployment.segment("filter").outputs == (Boundary(operator="filter", key=("word",)),)
    assert deployment.segment("round").inputs == ("filter@word",)
    assert deployment.segment("round").shards == 2
    assert len(deployment.units()) == 5


def test_cut_everywhere_has_one_operator_per_segment():
    """With all cuts each operator is a segment of its own."""
    deployment = deploy(word_count(), cuts="all")
    assert all(len(operators) == 1 for operators in shape(deployment).values())
    assert deployment.segment("count").inputs == ("filter@word",)


def test_cutting_once_splits_one_segment():
    """A named cut ends a segment there."""
    assert shape(deploy(word_count(), cuts={"filter"})) == {
        "lines": ("lines",),
        "filter": ("split", "filter"),
        "round": ("count", "round"),
        "top": ("top",),
    }


def test_an_operator_that_quarantines_reads_boundaries():
    """What it puts aside are rows of its own input; planners count the boundary."""
    p = Pipeline("picky")
    split = p.source("lines", Rate(10)).map("split", same, on_error="quarantine")
    joined = split.join("pairs", p.source("others", Rate(1)), both, key="value")
    last = joined.map("slim", same).map("check", same, on_error="quarantine").map("end", same)
    p.sink("out", last, Parquet("out"))
    forced = layout(p).forced
    assert forced["slim"] == "quarantine"
    assert forced.keys() == {"lines", "others", "slim", "end"}
    assert shape(deploy(p))["end"] == ("check", "end")
    required = {op.name for op in p.topology().operators if op.backup == "required"}
    assert required == {"lines", "others", "slim"}
    alone = Pipeline("alone")
    checked = alone.source("lines", Rate(10)).map("check", same, on_error="quarantine")
    alone.sink("out", checked, Parquet("out"))
    assert layout(alone, fuse_sources=True).forced["lines"] == "quarantine"


@pytest.mark.parametrize("how", ["map", "same", "join"])
def test_what_one_operator_puts_aside_is_there_for_others(how):
    """Rows are left out of a boundary, so nobody else may read that one in the same segment."""
    p = Pipeline("p")
    lines = p.source("lines", Rate(10))
    left = lines.map("left", same, on_error="quarantine").map("then", same)
    if how == "map":
        met = left.union("met", lines.map("right", same))
    elif how == "same":
        met = left.union("met", lines)
    else:
        met = left.join("met", lines.map("right", same), same, key="key")
    p.sink("out", met, Parquet("out"))
    assert layout(p).forced["left"] == "quarantine"
    assert deploy(p).segment("left").operators == ("left",)
    apart = Pipeline("p")
    lines = apart.source("lines", Rate(10))
    left = lines.map("left", same, on_error="quarantine").map("then", same)
    apart.sink("out", left, Parquet("out"))
    apart.sink("all", lines.map("right", same), Parquet("all"))
    assert deploy(apart).segment("then").operators == ("left", "then")


def test_fused_sources_run_with_what_follows_them():
    """With fuse_sources a lone source's rows are not logged before they are used."""
    deployment = deploy(word_count(), fuse_sources=True)
    assert shape(deployment)["round"] == ("lines", "split", "filter", "count", "round")
    assert deployment.segment("round").kind == "source"


def test_a_fused_source_stays_apart_from_operators_with_several_inputs():
    """A segment never reads two sources of its own."""
    p = Pipeline("two")
    left = p.source("a", Rate(1)).map("m", same)
    p.sink("out", left.union("u", p.source("b", Rate(1))), Console())
    deployment = deploy(p, fuse_sources=True)
    assert shape(deployment)["u"] == ("m", "u")
    assert deployment.segment("u").inputs == ("a", "b")


def test_consumers_with_different_keys_get_logs_of_their_own():
    """One log per distinct key; a consumer without a key reads the first of them."""
    p = Pipeline("fan")
    rows = p.source("s", Rate(1)).map("m", same)
    p.sink("one", rows.aggregate("by_a", same, key="a"), Console())
    p.sink("two", rows.aggregate("by_b", same, key="b"), Console())
    p.sink("raw", rows, Console())
    deployment = deploy(p)
    assert [log.name for log in deployment.segment("m").outputs] == ["m@a", "m@b"]
    assert deployment.segment("by_b").inputs == ("m@b",)
    assert deployment.segment("raw").inputs == ("m@a",)


def test_a_join_lays_each_side_out_by_its_own_columns():
    """other_key is the layout of the second input."""
    p = Pipeline("j")
    left, right = p.source("l", Rate(1)), p.source("r", Rate(1))
    joined = left.join("join", right, both, key="id", other_key="ref", shards=2)
    p.sink("out", joined, Console())
    assert deploy(p).segment("join").inputs == ("l@id", "r@ref")


def test_batching_is_given_for_all_or_by_operator():
    """A segment takes the smallest of its operators' values; unbatchable operators force one."""
    p = word_count()
    assert deploy(p, batch_epochs=4).segment("round").batch_epochs == 4
    by_operator = deploy(p, batch_epochs={"count": 5, "split": 3}, snapshot_batches={"count": 7})
    assert by_operator.segment("round").batch_epochs == 3
    assert by_operator.segment("round").snapshot_batches == 7
    assert by_operator.segment("lines").batch_epochs == 1
    q = Pipeline("q")
    unique = q.source("s", Rate(1)).stateful("d", same, key="id", one_epoch_per_batch=True)
    q.sink("out", unique, Console())
    assert deploy(q, batch_epochs=4).segment("d").batch_epochs == 1
    assert deploy(q, batch_epochs=4).segment("d").one_epoch_per_batch


def deduplicating():
    """Two sources meet in a join before a deduplication; one of them feeds something else too."""
    p = Pipeline("dedup")
    left = p.source("left", Rate(1)).map("clean", same)
    right = p.source("right", Rate(1)).aggregate("sum", same, key="id")
    unique = left.join("pair", right, both, key="id").stateful(
        "unique", same, key="id", one_epoch_per_batch=True
    )
    p.sink("found", unique.map("after", same).aggregate("total", same), Console())
    p.sink("counted", left.aggregate("count", same, key="id"), Console())
    p.sink("apart", p.source("other", Rate(1)).map("far", same), Console())
    return p


@pytest.mark.parametrize("cuts", ["none", "all", {"clean", "unique"}])
@pytest.mark.parametrize("batch_epochs", [1, 4, {"left": 8, "clean": 2, "unique": 4, "far": 3}])
def test_whatever_feeds_an_operator_of_single_epochs_publishes_single_epochs(cuts, batch_epochs):
    """Through chains, joins and fan-out, up to the sources; what comes after or apart may batch."""
    deployment = deploy(deduplicating(), cuts=cuts, batch_epochs=batch_epochs)
    single = {item.name for item in deployment.segments if item.one_epoch_per_batch}
    feeding = {"left", "clean", "right", "sum", "pair", "unique"}
    others = {"after", "total", "count", "other", "far", "found", "counted", "apart"}
    for segment in deployment.segments:
        members = set(segment.operators)
        assert (segment.name in single) == bool(members & feeding)
        assert members <= feeding or members <= others or "unique" in members
        if segment.name in single:
            assert segment.batch_epochs == 1
    if batch_epochs == 4:
        assert deployment.segment("far").batch_epochs == 4
        assert deployment.segment("count").batch_epochs == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cuts": "some"}, "unknown cuts 'some'"),
        ({"cuts": {"nope"}}, "no operator 'nope'"),
        ({"cuts": {"top"}}, "top: a sink has no output"),
        ({"cuts": ReplicationPlan(**MADE)}, "ppa does not say where to cut"),
        ({"cuts": FtcPlan(algorithm="exact", feasible=False)}, "infeasible"),
        ({"cuts": FtcPlan(**MADE, backups=("top",))}, "top: a sink has no output"),
        ({"cuts": JointPlan(**MADE, boundaries=("nope",))}, "no operator 'nope'"),
        ({"cuts": {"backups": ["count"]}}, "names no method"),
        ({"shards": {"split": 2}}, "split: has no key"),
        ({"shards": {"count": 129}}, "count: 129 shards"),
        ({"batch_epochs": 0}, "batch_epochs is 0"),
        ({"batch_epochs": {"x": 1}}, "no operator 'x'"),
    ],
)
def test_bad_options_are_refused(options, message):
    """A deployment that cannot be is one clear line."""
    with pytest.raises(BadInputError) as error:
        deploy(word_count(), **options)
    assert message in str(error.value)


def test_a_plan_is_read_as_cuts():
    """Backups log their output, anchors their input; a split operator is refused."""
    p = word_count(shards=2)
    backups = FtcPlan(**MADE, backups=("split", "count.0", "count.1"))
    assert "split" in shape(deploy(p, cuts=backups))
    assert deploy(p, cuts=backups.to_json()) == deploy(p, cuts=backups)
    assert "split" in shape(deploy(p, cuts=FastRecoverPlan(**MADE, anchors=("filter",))))
    assert "split" in shape(deploy(p, cuts=JointPlan(**MADE, boundaries=("split",))))
    with pytest.raises(BadInputError, match="count: the plan backs up 1 of its 2 tasks"):
        deploy(p, cuts=FtcPlan(**MADE, backups=("count.1",)))
    with pytest.raises(BadInputError, match="count: the plan backs up 2 of its 3 tasks"):
        deploy(p, cuts=FtcPlan(**MADE, backups=("count.0", "count.1")), shards={"count": 3})


def test_topology_counts_forced_boundaries_and_knows_rates():
    """What every deployment logs is required; sinks become queries."""
    p = word_count()
    topology = p.topology(shards={"count": 2})
    assert [operator.backup for operator in topology.operators] == [
        "required",
        "free",
        "required",
        "free",
        "free",
    ]
    assert topology.rates == {"lines": 10}
    assert [(query.name, query.sink) for query in topology.queries] == [("top", "round")]
    assert topology.operator("round").parallelism == 2
    assert topology.edges[-1].partitioning == "one-to-one"


names = st.sets(st.sampled_from([f"o{i}" for i in range(9)] + ["s0", "s1"]))


def checked(p, cuts, *, fuse_sources=False):
    known = {operator.name for operator in p.operators}
    return deploy(p, cuts=cuts & known, fuse_sources=fuse_sources)


def segments_partition_the_operators_into_in_trees(p, deployment):
    """Every operator is in one segment; all but the last have their one consumer inside."""
    placed = [name for segment in deployment.segments for name in segment.operators]
    assert sorted(placed) == sorted(operator.name for operator in p.operators)
    for segment in deployment.segments:
        assert segment.operators[-1] == segment.name
        for name in segment.operators[:-1]:
            assert [consumer.name in segment.operators for consumer in p.consumers(name)] == [True]


def inputs_and_outputs_fit(p, deployment):
    """Each boundary read is published upstream; keyed readers get their key's layout."""
    published = set()
    for segment in deployment.segments:
        assert set(segment.inputs) <= published
        assert (segment.kind == "source") == (not segment.inputs and segment.kind != "exporter")
        assert bool(segment.outputs) == (segment.kind != "exporter")
        published |= {log.name for log in segment.outputs}
        inside = set(segment.operators)
        for name in segment.operators:
            operator = p.operator(name)
            outside = [(i, u) for i, u in enumerate(operator.inputs) if u not in inside]
            for index, producer in outside:
                logs = [deployment.boundary(name) for name in segment.inputs]
                keys = {log.key for log in logs if log.operator == producer}
                assert keys
                if operator.key:
                    assert operator.key_of_input(index) in keys
    assert all(deployment.consumers(name) for name in published)
    assert Deployment.from_json(deployment.to_json()) == deployment


def what_must_be_a_boundary_is_one(p, deployment, *, fuse):
    """The rules, checked on the outcome and not through the code that forces them."""
    for segment in deployment.segments:
        members = [p.operator(name) for name in segment.operators]
        assert sum(operator.keeps_state for operator in members) <= 1
        assert sum(operator.kind == "source" for operator in members) <= 1
        assert all(operator.deterministic for operator in members[:-1])
        assert all(len(p.consumers(operator.name)) == 1 for operator in members[:-1])
        keyed = [operator for operator in members if operator.key]
        for operator in keyed:
            if operator.shards > 1:
                assert not set(operator.inputs) & set(segment.operators)
                assert segment.shards == operator.shards
        if not keyed and not any(operator.kind == "source" for operator in members):
            assert segment.shards == 1
        if not fuse and segment.kind == "source":
            assert len(members) == 1


def more_cuts_refine_fewer(coarse, fine):
    """Adding cuts only splits segments, and never moves an operator next to a new one."""
    for segment in fine.segments:
        assert any(set(segment.operators) <= set(other.operators) for other in coarse.segments)


@given(p=pipelines(), cuts=names, more=names, fuse=st.booleans())
def test_every_pipeline_is_cut_by_the_rules(p, cuts, more, fuse):
    """All that must hold is checked on the same pipelines, since making them takes most time."""
    coarse = checked(p, cuts, fuse_sources=fuse)
    fine = checked(p, cuts | more, fuse_sources=fuse)
    for deployment in (coarse, fine):
        segments_partition_the_operators_into_in_trees(p, deployment)
        inputs_and_outputs_fit(p, deployment)
        what_must_be_a_boundary_is_one(p, deployment, fuse=fuse)
    more_cuts_refine_fewer(coarse, fine)


@settings(deadline=None)
@given(p=pipelines())
def test_the_topology_requires_exactly_the_forced_boundaries_that_are_read(p):
    """Planners see the same forced boundaries as deployments have."""
    topology = p.topology()
    forced = set(layout(p).forced)
    inner = {name for op in p.operators if op.kind != "sink" for name in op.inputs}
    required = {operator.name for operator in topology.operators if operator.backup == "required"}
    assert required == forced & inner
    ends = {segment.name for segment in deploy(p).segments if segment.kind != "exporter"}
    assert required <= ends


@pytest.mark.parametrize("asked", ["parallelism", "shards"])
def test_a_spark_source_in_several_shards_is_refused(asked):
    """Each of them would read every row; one line says what to do instead."""
    made = Pipeline("native", epoch="1s")
    source = SparkSource(format="kafka", schema="value binary")
    stream = made.source("in", source, parallelism=2 if asked == "parallelism" else 1)
    made.sink("out", stream, Parquet("out"))
    with pytest.raises(BadInputError, match="would each read all of its rows") as found:
        deploy(made, shards={"in": 2} if asked == "shards" else None)
    assert found.value.where == "in"
    assert "\n" not in str(found.value)


@settings(deadline=None)
@given(p=pipelines())
def test_a_topology_and_its_pipeline_have_the_same_forced_boundaries(p):
    """Finding them again in what planners see changes nothing."""
    topology = p.topology()
    keeps = [p.operator(operator.name).keeps_state for operator in topology.operators]
    again = forced_boundaries(topology, stateful=keeps)
    assert {topology.operators[i].name for i in again} == set(layout(p).forced)


def test_an_operator_that_may_scale_has_a_boundary_before_it():
    """Its rows come by its key through the log, so that shards can be added."""
    p = Pipeline("scale")
    words = p.source("lines", Rate(rows_per_second=10)).map("split", lambda frame: frame)
    counts = words.aggregate("count", lambda frame: frame, key="value", max_shards=8)
    p.sink("out", counts, Parquet("out"))
    deployment = deploy(p)
    segment = deployment.segment("count")
    assert (segment.shards, segment.max_shards, segment.inputs) == (1, 8, ("split@value",))
    assert deployment.segment("split").max_shards == 1
    with pytest.raises(BadInputError, match="max_shards is 8"):
        deploy(p, shards={"count": 16})


def test_an_operator_that_says_nothing_never_scales():
    """Its state has one partition a shard, and it is fused as ever."""
    assert {segment.max_shards for segment in deploy(word_count()).segments} == {1}
    deployment = deploy(word_count(shards=2))
    assert {segment.max_shards for segment in deployment.segments} == {1}
    assert Deployment.from_json(deployment.to_json()) == deployment


def test_a_map_with_a_key_has_shards_of_its_own():
    """Rows are dealt to it by its key, and move behind it to whatever is keyed otherwise."""
    p = Pipeline("words", epoch="500ms")
    cleaned = p.source("lines", Rate(10)).map("clean", same, key="value", max_shards=4)
    counts = cleaned.map("round", same).aggregate("count", same, key="key")
    p.sink("out", counts, Parquet("out"))
    deployment = deploy(p)
    assert shape(deployment)["round"] == ("clean", "round")
    segment = deployment.segment("round")
    assert (segment.inputs, segment.shards, segment.max_shards) == (("lines@value",), 1, 4)
    assert not segment.stateful
    assert deployment.segment("count").inputs == ("round@key",)
    assert deployment.segment("count").max_shards == 1
    assert deploy(p, shards={"clean": 3}).segment("round").shards == 3


def test_a_map_of_upserts_stays_with_the_operator_before_it():
    """Versions of a row would come out of several shards in any order."""
    p = Pipeline("words", epoch="500ms")
    counts = p.source("lines", Rate(10)).aggregate("count", same, key="value", output="upsert")
    with pytest.raises(BadInputError, match="new versions of earlier ones"):
        counts.map("round", same, key="value", max_shards=4)


def test_max_shards_needs_a_key_and_a_power_of_two():
    """What could not be split is refused where it is declared."""
    p = Pipeline("scale")
    source = p.source("lines", Rate(rows_per_second=10))
    with pytest.raises(BadInputError, match="max_shards needs a key"):
        source.aggregate("count", lambda frame: frame, max_shards=4)
    with pytest.raises(BadInputError, match="max_shards is 6"):
        source.aggregate("count", lambda frame: frame, key="value", max_shards=6)


def test_a_source_that_may_scale_says_so():
    """Its rows are dealt out over parts whose number is fixed; Spark's own sources cannot be."""
    p = Pipeline("p")
    p.sink("out", p.source("lines", Rate(10), parallelism=2, max_shards=8), Console())
    segment = deploy(p).segment("lines")
    assert (segment.shards, segment.max_shards, segment.scales) == (2, 8, True)
    for source in (Files("in"), Generator(lambda epoch, seed: [], "v string")):
        Pipeline("q").source("rows", source, max_shards=4)
    with pytest.raises(BadInputError, match="a SparkSource cannot scale: where it stands"):
        Pipeline("q").source("rows", SparkSource("rate", "v string"), max_shards=4)
    with pytest.raises(BadInputError, match="max_shards is 6"):
        Pipeline("q").source("rows", Rate(1), max_shards=6)


def test_what_a_source_may_ever_have_does_not_change_old_runs():
    """Their sources say nothing of it, and are the same as before."""
    first, second, other = (Pipeline("p") for _ in range(3))
    for made, most in ((first, None), (second, None), (other, 4)):
        made.sink("out", made.source("lines", Rate(10), max_shards=most), Console())
    found = [deploy(made).fingerprints["lines"] for made in (first, second, other)]
    assert found[0] == found[1] != found[2]
