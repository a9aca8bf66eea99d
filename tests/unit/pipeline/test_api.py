"""The pipeline API: what it records and which mistakes it names."""

import subprocess
import sys

import pytest

from holdfast.errors import BadInputError
from holdfast.pipeline import (
    Console,
    Files,
    ForeachBatch,
    Generator,
    Parquet,
    Pipeline,
    Rate,
    Sqlite,
)

pytestmark = pytest.mark.unit


def same(frame):
    return frame


def both(left, right):
    return left


def pipeline():
    return Pipeline("p", event_time=("ts", "10 seconds"))


def test_operators_stand_in_the_order_they_were_written():
    """An operator keeps its name, kind, inputs, key and modes."""
    p = pipeline()
    words = p.source("words", Rate(10), parallelism=2)
    counts = words.map("split", same).aggregate("count", same, key="word", output="upsert")
    p.sink("top", counts, Console())
    assert [operator.name for operator in p.operators] == ["words", "split", "count", "top"]
    assert [operator.kind for operator in p.operators] == ["source", "map", "aggregate", "sink"]
    assert p.operator("count").inputs == ("split",)
    assert p.operator("count").upsert_key == ("word",)
    assert p.operator("words").shards == 2
    assert p.event_time is not None
    assert p.event_time.delay_s == 10.0


def test_importing_the_api_does_not_import_spark():
    """Planning works on a machine without pyspark and pyarrow."""
    code = (
        "import sys, holdfast.pipeline; sys.exit(bool({'pyspark', 'pyarrow'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def one_source(p):
    return p.source("s", Rate(1))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda p: p.source("1x", Rate(1)), "cannot be an operator's name"),
        (lambda p: p.source("a#b", Rate(1)), "cannot be an operator's name"),
        (lambda p: p.source("s", "rate"), "s: 'rate' is not a source"),
        (lambda p: (one_source(p), one_source(p)), "s: there is an operator of that name"),
        (lambda p: one_source(p).map("m", None), "m: None is not a function"),
        (lambda p: one_source(p).map("m", same, on_error="skip"), "m: unknown on_error"),
        (lambda p: one_source(p).aggregate("a", same, output="sometimes"), "a: unknown output"),
        (lambda p: one_source(p).aggregate("a", same, output="upsert"), "a: upserts need a key"),
        (lambda p: one_source(p).aggregate("a", same, upsert_key="k"), "a: has an upsert_key"),
        (lambda p: one_source(p).aggregate("a", same, shards=2), "a: several shards need a key"),
        (lambda p: one_source(p).aggregate("a", same, key="k", shards=0), "a: 0 shards"),
        (lambda p: one_source(p).aggregate("a", same, key="k k"), "a: 'k k' cannot be a key"),
        (lambda p: one_source(p).aggregate("a", same, key=("k", "k")), "names a column twice"),
        (lambda p: one_source(p).union("u"), "u: a union needs at least two"),
        (lambda p: (s := one_source(p)).union("u", s), "u: reads 's' twice"),
        (lambda p: (s := one_source(p)).join("j", s.map("m", same), both, key=()), "j: a join"),
        (
            lambda p: (s := one_source(p)).join(
                "j", s.map("m", same), both, key="a", other_key=("b", "c")
            ),
            "j: key and other_key differ",
        ),
        (lambda p: p.sink("out", one_source(p), "parquet"), "out: 'parquet' is not a sink"),
        (lambda p: p.sink("out", same, Console()), "is not a stream"),
        (
            lambda p: p.sink("out", one_source(Pipeline("q")), Console()),
            "out: the stream 's' belongs to the pipeline 'q'",
        ),
        (
            lambda p: p.sink("out", one_source(p), Console(), priority=-1),
            "out: priority is -1; a number, 0 or greater",
        ),
    ],
)
def test_a_mistake_is_named_where_it_is_made(build, message):
    """Each mistake is one line that starts with the operator."""
    with pytest.raises(BadInputError) as error:
        build(pipeline())
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_upserts_reach_only_operators_that_take_them():
    """A sum over successive versions of a count would be wrong, so it is refused by name."""
    p = pipeline()
    counts = one_source(p).aggregate("count", same, key="w", output="upsert")
    with pytest.raises(BadInputError, match="total: reads the upserts of 'count'"):
        counts.aggregate("total", same)
    counts.aggregate("best", same, takes_upserts=True)
    p.sink("out", counts, Console())


def test_a_map_of_upserts_gives_upserts_with_the_same_key():
    """A declared map keeps the meaning of its input's rows."""
    p = pipeline()
    counts = one_source(p).aggregate("count", same, key="w", output="upsert")
    counts.map("nice", same, takes_upserts=True)
    assert p.operator("nice").mode == "upsert"
    assert p.operator("nice").upsert_key == ("w",)


def test_a_pipeline_without_a_sink_is_refused():
    """Nothing would be computed."""
    p = pipeline()
    one_source(p)
    with pytest.raises(BadInputError, match="p: has no sink"):
        p.validate()


def test_a_pipeline_that_nobody_needs_is_refused():
    """At least one sink is worth something; planners see what each is worth."""
    p = pipeline()
    s = one_source(p)
    p.sink("out", s, Console(), priority=0)
    with pytest.raises(BadInputError, match="p: every sink has priority 0"):
        p.validate()
    p.sink("main", s, Console(), priority=2)
    p.validate()
    assert [query.priority for query in p.topology().queries] == [0.0, 2.0]


def test_an_unused_stream_is_refused():
    """Forgetting to connect an operator is a mistake, named."""
    p = pipeline()
    s = one_source(p)
    s.map("lost", same)
    p.sink("out", s, Console())
    with pytest.raises(BadInputError, match="lost: nothing reads its output"):
        p.validate()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Files("in", format="xml"), "unknown file format 'xml'"),
        (lambda: Files("in", files_per_epoch=0), "files_per_epoch"),
        (lambda: Rate(-1), "rows_per_second >= 0"),
        (lambda: Rate(float("nan")), "rows_per_second >= 0"),
        (lambda: Rate(1, keys=0), "at least one key"),
        (lambda: Generator(None, "a int"), "needs a function"),
        (lambda: Generator(lambda e, s: [], "a integer(3)"), "is not a column"),
        (lambda: Generator(lambda e, s: [], "a int, a int"), "appears twice"),
        (lambda: Sqlite("x.db", "a; drop"), "cannot be a table name"),
        (lambda: Sqlite("x.db", "Holdfast_progress"), "is taken"),
        (lambda: Sqlite("x.db", "sqlite_x"), "is taken"),
        (lambda: ForeachBatch(3), "needs a function"),
        (lambda: Pipeline("p", epoch="soon"), "'soon' is not understood"),
        (lambda: Pipeline("p", epoch=0), "must be greater than 0"),
        (lambda: Pipeline("p", event_time=("ts",)), "is not an event time"),
        (lambda: Pipeline("p", event_time="ts"), "does not say how late rows may be"),
        (lambda: Pipeline("p", watermark="1s"), "a watermark but no event time"),
        (lambda: Pipeline("p", event_time=("ts", "1s"), watermark="1s"), "says twice"),
        (lambda: Pipeline("", event_time=None), "cannot be a pipeline's name"),
    ],
)
def test_bad_values_are_refused(make, message):
    """Sources, sinks and pipelines check their options at once."""
    with pytest.raises(BadInputError) as error:
        make()
    assert message in str(error.value)


@pytest.mark.parametrize("kind", ["aggregate", "stateful"])
def test_an_operator_with_state_must_be_deterministic(kind):
    """A redo would put other rows into its state than those it published."""
    s = one_source(pipeline())
    with pytest.raises(BadInputError, match="put the chance into a map before it"):
        getattr(s, kind)("op", same, deterministic=False)
    with pytest.raises(BadInputError, match="op: keeps state, so it must be deterministic"):
        s.join("op", s.map("m", same), same, key="key", deterministic=False)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (Parquet("out"), Parquet("out"), "overlap"),
        (Parquet("out"), Parquet("./x/../out/"), "overlap"),
        (Parquet("out"), Parquet("out/large"), "overlap"),
        (Parquet("out/large"), Parquet("out"), "overlap"),
        (Parquet("out"), Sqlite("out/x.db"), "overlap"),
        (Sqlite("x.db"), Parquet("x.db"), "overlap"),
        (Sqlite("x.db"), Sqlite("./x.db"), "same table"),
        (Sqlite("x.db", "t"), Sqlite("x.db", "T"), "same table"),
        (
            Sqlite("x.db", "t"),
            Sqlite("x.db", "T_tentative"),
            "'t' of 'one' get in each other's way",
        ),
        (Sqlite("x.db", "t_newest"), Sqlite("x.db", "t"), "get in each other's way"),
    ],
)
def test_two_sinks_in_one_place_are_refused(first, second, message):
    """They would overwrite each other."""
    p = pipeline()
    s = one_source(p)
    p.sink("one", s, first)
    p.sink("two", s, second)
    with pytest.raises(BadInputError, match=f"two: .*{message}"):
        p.validate()


def test_a_symbolic_link_is_no_second_place(tmp_path):
    """Two spellings of one directory are one."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    p = pipeline()
    s = one_source(p)
    p.sink("one", s, Parquet(str(tmp_path / "real")))
    p.sink("two", s, Parquet(str(tmp_path / "link")))
    with pytest.raises(BadInputError, match=r"two: .*overlap"):
        p.validate()


def test_sinks_side_by_side_are_allowed():
    """Tables of one file, directories beside each other, and sinks that keep nothing."""
    p = pipeline()
    s = one_source(p)
    p.sink("a", s, Parquet("out/a"))
    p.sink("ab", s, Parquet("out/ab"))
    p.sink("b", s, Sqlite("out/x.db", "one"))
    p.sink("c", s, Sqlite("out/x.db", "two"))
    p.sink("d", s, Console())
    p.sink("e", s, Console())
    p.validate()


def test_expected_computations_belong_to_sinks():
    """Only what is delivered can be compared."""
    p = pipeline()
    s = one_source(p)
    p.sink("out", s, Parquet("out"))

    @p.expected("out", closes="ts")
    def all_rows(rows):
        return rows["s"]

    assert p.expectations["out"].function is all_rows
    assert p.expectations["out"].closes == "ts"
    with pytest.raises(BadInputError, match="only a sink"):
        p.expected("s")
