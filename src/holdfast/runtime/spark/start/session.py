"""The Spark session of a node, with the settings the protocol and fast starts need.

Each setting that safety depends on says why; the others were measured to be faster for many small
queries on few cores.
"""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import holdfast
from holdfast.runtime.spark.io.callbacks import java_class, start_callbacks
from holdfast.runtime.spark.start.archive import archive_options
from holdfast.runtime.spark.start.java import find_java_home
from holdfast.runtime.spark.start.launcher import NAME as NURSERY
from holdfast.runtime.spark.start.native import (
    FILES_CLASS,
    ORIGINS_CLASS,
    find_jar,
    has_classes,
)
from holdfast.runtime.spark.start.python import python_program
from holdfast.runtime.units.slots import MIN_SLOTS
from holdfast.streams.floors import RETAIN_BATCHES

_STREAMING = "spark.sql.streaming"

SETTINGS: Mapping[str, str] = {
    # With version 1, redoing batches after a truncation silently loads the old timeline's files.
    f"{_STREAMING}.stateStore.checkpointFormatVersion": "2",
    f"{_STREAMING}.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    f"{_STREAMING}.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Snapshots are uploaded, and old files removed, only this often, whatever the plan says.
    f"{_STREAMING}.stateStore.maintenanceInterval": "10s",
    # Spark's own empty batches would have no range record.
    f"{_STREAMING}.noDataMicroBatches.enabled": "false",
    # A quarter of the cost of the default; it overwrites, which per-generation directories allow.
    f"{_STREAMING}.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
    # Hadoop keeps a checksum of every local file anyhow; Spark's own would be another two files for
    # each, which cost a batch that keeps state a fifth of its time.
    f"{_STREAMING}.checkpoint.fileChecksum.enabled": "false",
    f"{_STREAMING}.minBatchesToRetain": str(RETAIN_BATCHES),
    f"{_STREAMING}.pollingDelay": "1ms",
    f"{_STREAMING}.stopTimeout": "10s",
    f"{_STREAMING}.metricsEnabled": "false",
    f"{_STREAMING}.numRecentProgressUpdates": "4",
    # Every stateful operator of a unit has one partition: shards, not partitions, spread the work.
    "spark.sql.shuffle.partitions": "1",
    # There are many more task slots than cores (see below): what Spark splits by default would run
    # in as many tasks at once, each with a sliver of the memory.
    "spark.default.parallelism": "2",
    "spark.sql.leafNodeDefaultParallelism": "2",
    # Spark would start a thread for messages per slot at once: 4,096 slots, 130 MB.
    "spark.rpc.netty.dispatcher.numThreads": "8",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # Spark would hand the columns of a slice to Python functions as they are, and look for the
    # others when Python has answered. Its source has released them by then: all would be null.
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.codegen.cache.maxEntries": "500",
    "spark.sql.ui.retainedExecutions": "2",
    # Every batch's plan is described for a page that is off; this is the shortest description.
    "spark.sql.ui.explainMode": "simple",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "holdfast.runtime.spark.start.daemon",
    "spark.log.level": "ERROR",
    "spark.cleaner.periodicGC.interval": "10min",
}


NODE_SETTINGS: Mapping[str, str] = {
    # Four calls to Java for each call of a function like `col`, to name the line in an error. Who
    # checks a pipeline has named it; a node plans queries when others wait for them.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

JVM_OPTIONS = (
    # The quick compiler only: most of what a takeover runs, it runs for the first time. With both,
    # takeovers cost up to twice the CPU time, and it takes millions of rows to make up for it.
    "-XX:TieredStopAtLevel=1",
    # With it alone Java keeps 48 MB for compiled code. A node that has taken over a few dozen times
    # fills them, and then compiles nothing more. Only what is used takes memory.
    "-XX:ReservedCodeCacheSize=240m",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",  # no file in /tmp that outlives a kill
    # Arrow would check every single access to its buffers: a fifth of the cost of writing a row.
    "-Darrow.enable_unsafe_memory_access=true",
    "-Darrow.enable_null_check_for_get=false",
)


LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
"""For the Java that Spark's script starts first, only to put together the command of the other."""


def start_session(
    name: str,
    *,
    memory_mb: int = 512,
    scratch: Path | None = None,
    settings: Mapping[str, str] | None = None,
    slots: int = MIN_SLOTS,
) -> SparkSession:
    """The session of this process, started if need be.

    Tasks that wait for input hold a slot, so there must be more `slots` than cores: see `slots`.
    """
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", LAUNCHER_OPTIONS)
    python = os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ[NURSERY] = f"holdfast-{uuid.uuid4().hex}"
    home = find_java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    _export_package()
    jar = find_jar()
    options = [*JVM_OPTIONS, *archive_options()]
    builder = (
        SparkSession.builder.appName(name)
        .master(f"local[{slots}]")
        .config("spark.driver.memory", f"{memory_mb}m")
        .config("spark.driver.defaultJavaOptions", " ".join(options))
    )
    if jar is not None:
        # Also where slices go through Python: a class archive is of one class path.
        builder = builder.config("spark.driver.extraClassPath", str(jar))
        # Hadoop's own starts a process for every file that Spark puts into a checkpoint.
        builder = builder.config("spark.hadoop.fs.file.impl", FILES_CLASS)
    if scratch is not None:
        scratch.mkdir(parents=True, exist_ok=True)
        builder = builder.config("spark.local.dir", str(scratch))
        builder = builder.config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    for key, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.pythonExec = python_program(python)
    _silence(session)
    start_callbacks(session)
    if jar is not None and has_classes(session):
        # Each batch that keeps state would serialize where every setting of Hadoop's comes from.
        java_class(session, ORIGINS_CLASS).forget(session._jsc.hadoopConfiguration())  # noqa: SLF001 - no public way
    return session


def unit_session(
    spark: SparkSession, *, snapshot_batches: int, partitions: int | None = None
) -> SparkSession:
    """A session of its own for one unit: same context, its own snapshot interval.

    `partitions` is how many of its operator's state partitions it has; None: the operator has one
    partition a shard, and never scales.
    """
    session = spark.newSession()
    session.conf.set(f"{_STREAMING}.stateStore.minDeltasForSnapshot", str(snapshot_batches))
    if partitions is not None:
        session.conf.set("spark.sql.shuffle.partitions", str(partitions))
        # Rows that lie by a part of what they are grouped by stay where they are: state is placed
        # by the operator's key alone, also that of windows.
        session.conf.set(f"{_STREAMING}.statefulOperator.useStrictDistribution", "false")
    return session


def _silence(session: SparkSession) -> None:
    """Failed and stopped batches are told by the unit's status; nobody needs their stacks twice."""
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
    jvm: Any = session._jvm  # noqa: SLF001 - the only way to Spark's loggers
    log4j = jvm.org.apache.logging.log4j
    for name in ("sql.execution.streaming", "scheduler", "executor", "api.python"):
        log4j.core.config.Configurator.setLevel(f"org.apache.spark.{name}", log4j.Level.OFF)


def _export_package() -> None:
    """Python workers must find this package too, even if it is not installed."""
    source = str(Path(holdfast.__file__).resolve().parent.parent)
    known = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if source not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join([source, *known])
