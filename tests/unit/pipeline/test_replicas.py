"""Which units get a hot follower, and which cannot have one."""

import pytest
from tests.unit.pipeline.pipelines import same

from holdfast.deployment import Deployment, UnitId
from holdfast.errors import BadInputError
from holdfast.pipeline import Parquet, Pipeline, Rate, SparkSource, deploy
from holdfast.pipeline.replicas import with_followers

pytestmark = pytest.mark.unit


def counts():
    p = Pipeline("words", epoch="500ms")
    words = p.source("lines", Rate(10)).map("split", same)
    p.sink("top", words.aggregate("count", same, key="word", shards=2), Parquet("out"))
    return p


def hot(*names, pipeline=None):
    pipeline = pipeline or counts()
    return with_followers(pipeline, deploy(pipeline), names)


def test_an_operator_names_all_shards_of_its_segment():
    """Fused operators name the same units; one shard can be named alone, also as plans do."""
    split, count = (hot(name).segment("split").followers for name in ("split", "lines"))
    assert (split, count) == ((0,), ())
    assert hot("count").segment("count").followers == (0, 1)
    assert hot("count#1").segment("count").followers == (1,)
    assert hot("count.1", "count.1").segment("count").followers == (1,)


def test_all_means_every_unit():
    """Sources and exporters too."""
    made = hot("all")
    assert [len(segment.followers) for segment in made.segments] == [
        segment.shards for segment in made.segments
    ]


def test_followers_run_after_the_units_they_follow():
    """What runs is every unit, as without followers, and then the followers in the same order."""
    made = hot("count#1", "top")
    assert made.units() == deploy(counts()).units()
    assert [str(unit) for unit in made.replicas()[len(made.units()) :]] == [
        "count.0#1~1",
        "top.0#0~1",
    ]


def test_followers_survive_the_run_file():
    """A deployment is read as it was written."""
    made = hot("count")
    assert Deployment.from_json(made.to_json()) == made


def test_names_of_replicas_are_read_as_they_are_written():
    """Whatever the segment is called; all replicas share the unit's own name."""
    for unit in (
        UnitId(segment="a", shard=3),
        UnitId(segment="a~b.1", shard=0, change=2, replica=1),
    ):
        assert UnitId.parse(str(unit)) == unit
        assert UnitId.parse(unit.name).replica == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nobody", "no such operator"),
        ("count#2", "has 2 shards"),
        ("count#x", "no such operator"),
        ("count#²", "no such operator"),
    ],
)
def test_what_does_not_exist_is_refused(name, said):
    """One clear line, with the option."""
    with pytest.raises(BadInputError, match=said) as refused:
        hot(name)
    assert f"--replicate {name}" in str(refused.value)


def test_a_source_that_spark_reads_has_no_follower():
    """Only its own checkpoint knows where it is."""
    p = Pipeline("native")
    rows = p.source("rows", SparkSource("rate", schema="timestamp timestamp, value long"))
    p.sink("out", rows.map("same", same), Parquet("out"))
    with pytest.raises(BadInputError, match="cannot have a follower"):
        hot("rows", pipeline=p)


def test_state_and_chance_in_one_segment_have_no_follower():
    """Two replicas would publish different rows of the same state."""
    p = Pipeline("chance")
    made = p.source("rows", Rate(10)).aggregate("count", same, key="word")
    p.sink("out", made.map("noise", same, deterministic=False), Parquet("out"))
    with pytest.raises(BadInputError, match="by chance"):
        hot("count", pipeline=p)
