"""Mistakes found before anything starts, on a real Spark session."""

import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import functions as sf
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.types import IntegerType, StructType

from holdfast.errors import BadInputError
from holdfast.pipeline import Console, Files, Parquet, Pipeline, Rate, Sqlite, load_pipeline
from holdfast.runtime.spark.frames.check import check_pipeline, empty_stream
from holdfast.runtime.spark.frames.plans import closes_by_windows, join_lag_us
from holdfast.runtime.spark.start.session import start_session

pytestmark = pytest.mark.spark

EXAMPLES = ["word_count", "distinct_count", "top_k", "traffic", "fan_out", "sessions", "loyalty"]


@pytest.fixture(scope="module")
def spark():
    return start_session("test-check")


def pipeline(build, *, event_time=("ts", "1s"), sink=None):
    """Rate rows (ts, value, key), then whatever `build` makes of them."""
    p = Pipeline("p", event_time=event_time)
    p.sink("out", build(p.source("s", Rate(1))), sink or Console())
    return p


def windowed(frame):
    counts = frame.groupBy(sf.window("ts", "5 seconds"), "key").count()
    return counts.select(sf.window_time("window").alias("ts"), "key", "count")


def remember(key, pages, state):
    yield from pages


def with_timer(timeout):
    return lambda frame: frame.groupBy("key").applyInPandasWithState(
        remember, "key bigint", "n bigint", "append", timeout
    )


def double_key(frame):
    return windowed(frame.withColumn("key", sf.col("key") * 2))


def two_steps(frame):
    return frame.dropDuplicates(["ts", "key"]).groupBy(sf.window("ts", "5 seconds"), "key").count()


def broken(frame):
    return frame.select(1 / 0)


def matched(condition):
    """A join of streams under a condition on both event times."""

    def match(left, right):
        right = right.select(sf.col("ts").alias("other_ts"), sf.col("key").alias("other"))
        return left.join(right, sf.expr(f"key = other AND {condition}")).drop("other")

    return match


def near_dates(left, right):
    right = right.select(sf.col("ts").alias("other_ts"), sf.col("key").alias("other"))
    return left.join(right, sf.expr("ts = other_ts"))


MISTAKES = [
    (lambda s: s.map("m", lambda df: None), "m: its function returned NoneType"),
    (lambda s: s.map("m", lambda df: 3), "m: its function returned int, not a DataFrame"),
    (
        lambda s: s.map("m", lambda df: df.select("valu")),
        "m: unknown column 'valu'; did you mean value",
    ),
    (lambda s: s.map("m", lambda df: df.where(df.xyz > 1)), "m: unknown column 'xyz'; there are"),
    (lambda s: s.map("m", lambda df: df.select(sf.expr("nope(key)"))), "m: [UNRESOLVED_ROUTINE]"),
    (lambda s: s.map("m", broken), "m: its function failed on an empty stream: ZeroDivisionError"),
    (lambda s: s.map("m", lambda df: df.limit(df.count())), "m: runs an action on its input"),
    (lambda s: s.map("m", lambda df: df.orderBy("key")), "m: cannot run as a stream"),
    (lambda s: s.map("m", lambda df: df.groupBy("key").count()), "m: keeps state (groupBy)"),
    (lambda s: s.map("m", lambda df: df.dropDuplicates(["ts"])), "m: keeps state (dropDuplicates)"),
    (lambda s: s.map("m", lambda df: df.limit(5)), "m: keeps state (limit)"),
    (
        lambda s: s.stateful("m", lambda df: df.limit(5)),
        "m: the result of limit depends on the batching",
    ),
    (lambda s: s.map("m", lambda df: df.withWatermark("ts", "1 second")), "m: calls withWatermark"),
    (
        lambda s: s.map("m", lambda df: df.withColumn("ts", sf.expr("ts + interval 1 hour"))),
        "m: its column 'ts' is no longer the event time",
    ),
    (
        lambda s: s.map("m", lambda df: df.withColumn("x", sf.monotonically_increasing_id())),
        "m: monotonically_increasing_id is not deterministic",
    ),
    (lambda s: s.map("m", lambda df: df.sparkSession.range(3)), "m: its output does not come from"),
    (
        lambda s: s.aggregate("a", windowed, key="kye"),
        "a: key column 'kye' is not in the output of 's'; did you mean key?",
    ),
    (
        lambda s: s.aggregate("a", double_key, key="key"),
        "a: it is keyed by 'key' but does not group by",
    ),
    (
        lambda s: s.aggregate("a", windowed, key="value"),
        "a: it is keyed by 'value' but does not group",
    ),
    (lambda s: s.aggregate("a", lambda df: df, key="key"), "a: a aggregate does one stateful step"),
    (lambda s: s.aggregate("a", two_steps, key="key"), "make each step an operator"),
    (
        lambda s: s.aggregate("a", lambda df: df.groupBy("key").count(), key="key"),
        "a: cannot run as a stream with output='append'",
    ),
    (
        lambda s: s.aggregate("a", windowed, key="key", output="upsert", upsert_key="window"),
        "a: key column 'window' is not in its own output",
    ),
    (
        lambda s: s.stateful("d", lambda df: df.dropDuplicatesWithinWatermark(["key"]), key="key"),
        "d: the result of dropDuplicatesWithinWatermark depends on the batching",
    ),
    (
        lambda s: s.stateful("d", lambda df: df.dropDuplicates(["key"]), key="key"),
        "d: the result of dropDuplicates depends on the batching; drop the columns it does not",
    ),
    (
        lambda s: s.stateful("q", with_timer("NoTimeout"), key="key", on_error="quarantine"),
        "q: applyInPandasWithState runs on streams only, so the rows it fails on could not",
    ),
    (
        lambda s: s.stateful("t", with_timer(GroupStateTimeout.ProcessingTimeTimeout), key="key"),
        "t: a processing-time timer is not deterministic",
    ),
    (
        lambda s: s.join(
            "j",
            s.map("n", lambda df: df.select("ts", sf.col("key").cast("int"))),
            near_dates,
            key="key",
        ),
        "j: its inputs' keys are bigint and int",
    ),
    (
        lambda s: s.join("j", s.map("n", lambda df: df), near_dates, key="key"),
        "j: it is keyed by 'key' but does not join on",
    ),
    (
        lambda s: s.union("u", s.map("n", lambda df: df.select("ts", "key"))),
        "u: 's' and 'n' differ in value",
    ),
]


@pytest.mark.parametrize(("build", "message"), MISTAKES, ids=[text for _, text in MISTAKES])
def test_a_mistake_is_one_line_with_the_operators_name(spark, build, message, capfd):
    """Every kind of mistake is found without running a query."""
    problems = check_pipeline(pipeline(build), spark).problems
    assert len(problems) == 1
    assert message in str(problems[0])
    assert "\n" not in str(problems[0])
    assert "Traceback" not in capfd.readouterr().err


def nondeterministic(column):
    return lambda frame: frame.withColumn("x", column())


def grouped(column):
    return lambda frame: frame.groupBy(sf.window("ts", "5 seconds"), "key").agg(column())


LOOSE = [
    ("rand", "map", nondeterministic(sf.rand)),
    ("uuid", "map", nondeterministic(lambda: sf.expr("uuid()"))),
    ("current_timestamp", "map", nondeterministic(sf.current_timestamp)),
    ("current_date", "map", nondeterministic(sf.current_date)),
    ("spark_partition_id", "map", nondeterministic(sf.spark_partition_id)),
    ("first", "aggregate", grouped(lambda: sf.first("value"))),
    ("last", "aggregate", grouped(lambda: sf.last("value"))),
    ("collect_list", "aggregate", grouped(lambda: sf.collect_list("value"))),
    ("collect_set", "aggregate", grouped(lambda: sf.size(sf.collect_set("value")))),
    (
        "a UDF marked asNondeterministic",
        "map",
        nondeterministic(sf.udf(lambda: 1, IntegerType()).asNondeterministic()),
    ),
]


@pytest.mark.parametrize(("name", "kind", "function"), LOOSE, ids=[name for name, _, _ in LOOSE])
def test_nondeterminism_is_refused_unless_declared(spark, name, kind, function):
    """The expression is named; a map may declare it, an operator with state may not."""
    refused = pipeline(lambda s: getattr(s, kind)("op", function))
    (problem,) = check_pipeline(refused, spark).problems
    assert f"op: {name} is not deterministic" in str(problem)
    if kind == "map":
        allowed = pipeline(lambda s: s.map("op", function, deterministic=False))
        assert check_pipeline(allowed, spark).problems == ()
    else:
        assert "deterministic=False" not in str(problem)


def test_chance_in_an_operator_with_state_belongs_into_a_map_before_it(spark):
    """The message says what to do instead of declaring an aggregate nondeterministic."""

    def drawn(frame):
        return windowed(frame.where(sf.rand() < 0.5))

    (problem,) = check_pipeline(pipeline(lambda s: s.aggregate("op", drawn)), spark).problems
    assert "put it into a map before this one" in str(problem)


def test_an_ordered_collection_is_deterministic(spark):
    """sort_array around collect_list makes its result one and the same."""
    function = grouped(lambda: sf.sort_array(sf.collect_list("value")))
    assert check_pipeline(pipeline(lambda s: s.aggregate("a", function)), spark).problems == ()


def test_which_of_equal_rows_is_kept_matters_only_if_they_differ_elsewhere(spark):
    """Comparing all columns needs no batching of its own; comparing some does."""
    for build in (
        lambda s: s.stateful("d", lambda df: df.dropDuplicates(), key="key"),
        lambda s: s.stateful("d", lambda df: df.select("key").dropDuplicates(["key"]), key="key"),
        lambda s: s.stateful("d", lambda df: df.distinct(), key="key"),
        lambda s: s.stateful(
            "d", lambda df: df.dropDuplicates(["key"]), key="key", one_epoch_per_batch=True
        ),
    ):
        assert check_pipeline(pipeline(build), spark).problems == ()


@pytest.mark.parametrize("column", ["window.start", "oldest"])
def test_a_time_that_is_late_behind_a_window_is_refused(spark, column):
    """Its rows would be dropped where they are counted again; under a sink nothing is wrong."""

    def aged(frame):
        found = frame.groupBy(sf.window("ts", "4 seconds")).agg(sf.min("ts").alias("oldest"))
        return found.select(sf.col(column).alias("ts"), sf.lit(1).alias("key"))

    (problem,) = check_pipeline(
        pipeline(lambda s: s.aggregate("a", aged).aggregate("b", windowed)), spark
    ).problems
    assert "a: its column 'ts' may be behind the watermark, late to 'b'" in str(problem)
    assert "give out window_time(window) as 'ts'" in str(problem)
    assert check_pipeline(pipeline(lambda s: s.aggregate("a", aged)), spark).problems == ()


def test_spark_can_still_log_its_own_errors(spark):
    """What the checks keep quiet is heard again, in Spark's own way."""
    check_pipeline(pipeline(lambda s: s.map("m", lambda df: df.select("valu"))), spark)
    with pytest.raises(ArithmeticException):
        spark.range(1).select(sf.lit(1) / sf.col("id")).collect()


def test_schemas_are_reported_and_broken_operators_stop_only_their_readers(spark):
    """Everything that can be analysed is; the rest is left out."""
    p = Pipeline("p", event_time=("ts", "1s"))
    s = p.source("s", Rate(1))
    p.sink("one", s.aggregate("good", windowed, key="key"), Console())
    p.sink("two", s.map("bad", lambda df: df.select("no")).map("after", lambda df: df), Console())
    report = check_pipeline(p, spark)
    assert [problem.where for problem in report.problems] == ["bad"]
    assert report.schemas["good"].simpleString() == "struct<ts:timestamp,key:bigint,count:bigint>"
    assert set(report.schemas) == {"s", "good"}
    with pytest.raises(type(report.problems[0]), match="unknown column"):
        report.require()


def test_a_sum_of_doubles_is_a_warning(spark):
    """Allowed, but the last digits depend on the order of rows."""
    function = grouped(lambda: sf.sum(sf.col("value") / 3))
    report = check_pipeline(pipeline(lambda s: s.aggregate("a", function)), spark)
    assert report.problems == ()
    assert any("floating-point" in text for text in report.warnings)


def test_event_time_must_be_a_timestamp_of_every_source(spark):
    """A source without the event-time column, or with another type there, is refused."""
    p = Pipeline("p", event_time=("at", "1s"))
    p.sink("out", p.source("s", Rate(1)), Console())
    assert "s: event-time column 'at'" in str(check_pipeline(p, spark).problems[0])
    p = Pipeline("p", event_time=("at", "1s"))
    p.sink("out", p.source("s", Files("in", schema="at string")), Console())
    assert "s: its event-time column 'at' is string" in str(check_pipeline(p, spark).problems[0])


def test_a_schema_that_spark_cannot_read_is_named(spark):
    """Files take any DDL, so Spark judges it."""
    p = Pipeline("p")
    p.sink("out", p.source("s", Files("in", schema="a struct<")), Console())
    assert "s: its schema 'a struct<' cannot be read" in str(check_pipeline(p, spark).problems[0])


def test_sqlite_takes_flat_columns_only(spark):
    """A window column would not fit into a table."""

    def nested(frame):
        return frame.groupBy(sf.window("ts", "5 seconds")).count()

    def build(s):
        return s.aggregate("a", nested)

    problems = check_pipeline(pipeline(build, sink=Sqlite("x.db")), spark).problems
    assert "out: Sqlite cannot hold the struct column 'window'" in str(problems[0])
    assert check_pipeline(pipeline(build, sink=Parquet("x")), spark).problems == ()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_pass(spark, name):
    """Every example is free of mistakes and surprises."""
    report = check_pipeline(load_pipeline(f"examples/{name}.py"), spark)
    assert [str(problem) for problem in report.problems] == []
    assert report.warnings == ()


@pytest.mark.parametrize(
    ("condition", "column", "lag_s"),
    [
        ("other_ts BETWEEN ts + INTERVAL 8 SECONDS AND ts + INTERVAL 18 SECONDS", "ts", 18),
        ("other_ts BETWEEN ts + INTERVAL 8 SECONDS AND ts + INTERVAL 18 SECONDS", "other_ts", 0),
        ("ts BETWEEN other_ts AND other_ts + INTERVAL 5 SECONDS", "ts", 0),
        ("ts BETWEEN other_ts AND other_ts + INTERVAL 5 SECONDS", "other_ts", 5),
        ("ts BETWEEN other_ts AND other_ts + INTERVAL 5 SECONDS", "both", 5),
        ("ts = other_ts", "ts", 0),
        ("other_ts >= ts", "ts", None),
        ("other_ts <= ts", "ts", 0),
        ("true", "ts", None),
    ],
)
def test_how_old_the_rows_of_a_join_may_be(spark, condition, column, lag_s):
    """As long as its condition lets a partner come after the watermark, to a millisecond."""
    schema = StructType.fromDDL("ts timestamp, key bigint")
    left, right = (empty_stream(spark, schema, "ts") for _ in range(2))
    result = matched(condition)(left, right)
    given = {"both": sf.greatest("ts", "other_ts")}.get(column, sf.col(column))
    lag_us = join_lag_us(result.select(given.alias("at"), "key"), "at")
    if lag_s is None:
        assert lag_us is None
    else:
        assert 0 <= lag_us - lag_s * 1_000_000 <= 1_000


@pytest.mark.parametrize(
    ("function", "by_windows"),
    [
        (windowed, True),
        (lambda frame: frame.groupBy(sf.window("ts", "6 seconds", "2 seconds")).count(), True),
        (lambda frame: frame.groupBy("ts", "key").count(), False),
        (lambda frame: frame.groupBy(sf.col("ts").alias("at"), "key").count(), False),
        (lambda frame: frame.groupBy(sf.session_window("ts", "3 seconds"), "key").count(), False),
    ],
    ids=["tumbling", "sliding", "raw", "renamed", "session"],
)
def test_what_time_closes_by_windows_alone_is_known(spark, function, by_windows):
    """Only there may Spark's watermark be the recorded one: else it drops rows that are as old."""
    found = check_pipeline(pipeline(lambda stream: stream.aggregate("a", function)), spark)
    assert closes_by_windows(found.require()["a"]) is by_windows
    assert not closes_by_windows(found.schemas["s"])


def test_a_window_behind_a_join_that_keeps_rows_for_ever_is_refused(spark):
    """It would never close; without a window, or without the event time, nothing is wrong."""

    def joining(condition, then):
        p = Pipeline("p", event_time=("ts", "1s"))
        pairs = p.source("s", Rate(1)).join(
            "j", p.source("r", Rate(1)), matched(condition), key="key"
        )
        p.sink("out", then(pairs), Console())
        return check_pipeline(p, spark)

    def counted(pairs):
        return pairs.map("m", lambda frame: frame).aggregate("w", windowed, key="key")

    with pytest.raises(BadInputError, match=r"j: it keeps rows for ever, so no window of 'w'"):
        joining("true", counted).require()
    joining("true", lambda pairs: pairs).require()
    joining("ts BETWEEN other_ts AND other_ts + INTERVAL 5 SECONDS", counted).require()
