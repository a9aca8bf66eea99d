"""Each example's Spark functions against its plain-Python computation, without the run time.

Windows and joins are run as one batch, where everything closes; operators that only stream are run
over files with a plain Structured Streaming query, and compared up to its watermark.
"""

import os
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.errors import PythonException

from holdfast.pipeline import load_pipeline
from holdfast.runtime.spark.start.session import start_session

pytestmark = pytest.mark.spark

EPOCHS = range(1000, 1030)
BATCH = ["word_count", "distinct_count", "top_k", "traffic", "fan_out"]
EVERY = [*BATCH, "sessions", "loyalty", "receipts"]


@pytest.fixture(scope="module")
def spark():
    return start_session("test-check")


def load(name):
    return load_pipeline(f"examples/{name}.py")


def tables(pipeline, epochs=EPOCHS):
    import pyarrow as pa

    return {
        operator.name: pa.concat_tables(
            operator.source.table(epoch, epoch_s=pipeline.epoch_s) for epoch in epochs
        )
        for operator in pipeline.sources
    }


def compute(pipeline, frames):
    """Every operator's DataFrame, as one Spark job each."""
    for operator in pipeline.operators:
        inputs = [frames[name] for name in operator.inputs]
        match operator.kind:
            case "source":
                continue
            case "union":
                frames[operator.name] = inputs[0].unionByName(inputs[1])
            case "sink":
                frames[operator.name] = inputs[0]
            case _:
                frames[operator.name] = operator.function(*inputs)
    return frames


def canonical(rows):
    return sorted(tuple(sorted((key, str(value)) for key, value in row.items())) for row in rows)


def utc(rows):
    """Spark's Python rows hold naive local times; the session's zone is UTC."""
    return [
        {
            key: value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
            for key, value in row.items()
        }
        for row in rows
    ]


@pytest.mark.parametrize("name", BATCH)
def test_spark_and_plain_python_agree(spark, name):
    """The functions of the example compute what its expected computation says."""
    pipeline = load(name)
    rows = tables(pipeline)
    frames = {source: spark.createDataFrame(table.to_pandas()) for source, table in rows.items()}
    frames = compute(pipeline, frames)
    kept = {source: table.to_pylist() for source, table in rows.items()}
    assert pipeline.expectations
    for sink, expectation in pipeline.expectations.items():
        found = utc(frames[sink].toPandas().to_dict("records"))
        expected = expectation.function(kept)
        assert canonical(found) == canonical(expected)
        assert len(expected) > 5 or name == "fan_out"


def test_receipts_agree_where_they_can_be_read(spark):
    """Spark fails on what is quarantined; without it both have the same sums."""
    pipeline = load("receipts")
    table = tables(pipeline)["receipts"]
    rows = table.to_pylist()
    good = [row for row in rows if row["amount"] != "12.3O"]
    assert 0 < len(rows) - len(good) < 5
    frames = compute(pipeline, {"receipts": spark.createDataFrame(table.to_pandas())})
    with pytest.raises(PythonException, match="invalid literal for int"):
        frames["totals"].collect()
    readable = spark.createDataFrame(table.to_pandas()).where("amount <> '12.3O'")
    found = compute(pipeline, {"receipts": readable})["totals"].toPandas().to_dict("records")
    expected = pipeline.expectations["totals"].function({"receipts": rows})
    assert canonical(found) == canonical(expected)
    assert len(expected) == 3


def stream(spark, pipeline, tmp_path, mode, delay):
    """The pipeline's single operator as a plain query over one file per epoch."""
    import pyarrow.parquet as pq

    (source,) = pipeline.sources
    (operator,) = [item for item in pipeline.operators if item.kind == "stateful"]
    folder = tmp_path / "in"
    folder.mkdir()
    rows = []
    for epoch in EPOCHS:
        table = source.source.table(epoch, epoch_s=1.0)
        rows += table.to_pylist()
        file = folder / f"{epoch}.parquet"
        pq.write_table(table, file)
        # Spark takes files by age, and leaves open which of two of one age comes first.
        os.utime(file, (epoch, epoch))
    frame = (
        spark.readStream.schema(source.source.schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder))
        .withWatermark("ts", delay)
    )
    name = f"out_{pipeline.name.replace('-', '_')}"
    query = (
        operator.function(frame)
        .writeStream.format("memory")
        .queryName(name)
        .outputMode(mode)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return rows, [row.asDict() for row in spark.table(name).collect()]


def test_sessions_close_when_the_watermark_passes(spark, tmp_path):
    """applyInPandasWithState gives each session once, and every one that is over."""
    pipeline = load("sessions")
    rows, found = stream(spark, pipeline, tmp_path, "append", "2 seconds")
    expected = pipeline.expectations["visits"].function({"clicks": rows})
    assert len(found) == len({(row["user"], row["ts"]) for row in found})
    given = canonical(utc(found))
    # The last batch runs at the watermark that the batch before it left behind.
    (source,) = pipeline.sources
    last = len(source.source.table(EPOCHS[-1], epoch_s=1.0))
    before = max(row["ts"] for row in rows[:-last])
    due = [row for row in expected if row["ts"] < before - timedelta(seconds=2)]
    assert len(due) > 5
    assert set(canonical(due)) <= set(given) <= set(canonical(expected))


def test_loyalty_ends_with_the_right_points(spark, tmp_path):
    """transformWithState's last version of each customer is the sum over all purchases."""
    pipeline = load("loyalty")
    rows, found = stream(spark, pipeline, tmp_path, "update", "1 second")
    newest = {}
    for row in found:
        if row["purchases"] > newest.get(row["customer"], {"purchases": 0})["purchases"]:
            newest[row["customer"]] = row
    expected = pipeline.expectations["rewards"].function({"purchases": rows})
    assert canonical(newest.values()) == canonical(expected)


def test_generated_rows_are_the_same_again():
    """Every source gives the same rows for an epoch, whichever process asks."""
    for name in EVERY:
        assert tables(load(name), range(5)) == tables(load(name), range(5))


def test_fingerprints_are_the_same_in_every_process():
    """A node that resumes a run must find the fingerprints another process wrote."""
    import json
    import os
    import subprocess
    import sys

    code = (
        "import json, sys\n"
        "from holdfast.pipeline import load_pipeline\n"
        "from holdfast.pipeline.fingerprint import fingerprints\n"
        "names = sys.argv[1:]\n"
        "found = {n: fingerprints(load_pipeline(f'examples/{n}.py')) for n in names}\n"
        "print(json.dumps(found))\n"
    )
    names = EVERY
    found = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", code, *names],
                check=True,
                capture_output=True,
                env={**os.environ, "PYTHONHASHSEED": seed},
            ).stdout
        )
        for seed in ("1", "2")
    ]
    assert found[0] == found[1]
    every = [value for operators in found[0].values() for value in operators.values()]
    assert len(set(every)) == len(every)
