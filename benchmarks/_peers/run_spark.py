"""Plain Structured Streaming: one query, restarted from its checkpoint; stock or tuned."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

OUTPUT = Path(os.environ["OUTPUT"])


def session() -> SparkSession:
    if os.environ.get("SETTINGS") == "tuned":
        # What Holdfast's own nodes start with: two partitions, small heap, class archive, no UI.
        from holdfast.runtime.spark.start.session import start_session

        return start_session("peer")
    return SparkSession.builder.master("local[2]").appName("peer").getOrCreate()


def write(frame: DataFrame, batch: int) -> None:
    """One file a batch, named by its number: a batch that is redone replaces its own file."""
    rows = [f"{row[0]},{row[1]},{row[2]}\n" for row in frame.collect()]
    temporary = OUTPUT / f".{batch:08d}"
    temporary.write_text("".join(rows))
    temporary.replace(OUTPUT / f"{batch:08d}.csv")


def main() -> None:
    spark = session()
    parts = sf.split("value", " ")
    words = (
        spark.readStream.text(os.environ["INPUT"])
        .select(parts[0].alias("second"), sf.explode(sf.slice(parts, 2, 100)).alias("word"))
        .groupBy("second", "word")
        .count()
    )
    (
        words.writeStream.outputMode("update")
        .foreachBatch(write)
        .option("checkpointLocation", os.environ["STATE"])
        .trigger(processingTime="1 second")
        .start()
        .awaitTermination()
    )


if __name__ == "__main__":
    main()
