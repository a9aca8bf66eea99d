"""An ordinary Structured Streaming job: paid orders per city and ten seconds.

spark-submit before.py, or python before.py; input/ is filled by produce.py.
"""

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.readwriter import DataStreamWriter

HERE = Path(__file__).parent
SCHEMA = "ts timestamp, store bigint, amount bigint"


def job(spark: SparkSession, orders: Path, out: Path) -> DataStreamWriter:
    """The query, not yet started."""
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(orders))
    stores = spark.read.schema("store bigint, city string").csv(str(HERE / "stores.csv"))
    totals = (
        rows.withWatermark("ts", "5 seconds")
        .where("amount > 0")
        .join(sf.broadcast(stores), "store")
        .groupBy(sf.window("ts", "10 seconds"), "city")
        .agg(sf.count("*").alias("orders"), sf.sum("amount").alias("amount"))
        .select(sf.window_time("window").alias("ts"), "city", "orders", "amount")
    )
    return (
        totals.writeStream.outputMode("append")
        .format("parquet")
        .option("path", str(out / "totals"))
        .option("checkpointLocation", str(out / "checkpoint"))
        .trigger(processingTime="1 second")
    )


if __name__ == "__main__":
    session = SparkSession.builder.appName("orders").getOrCreate()
    job(session, HERE / "input", HERE / "out").start().awaitTermination()
