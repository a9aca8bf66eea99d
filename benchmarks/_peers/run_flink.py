"""PyFlink: a local cluster in one process, checkpoints every second, restarted from the newest."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from pyflink.common import Configuration, Duration, Encoder, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import (
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
)


def split(line: str) -> Iterator[tuple[str, int]]:
    second, *words = line.split(" ")
    for word in words:
        yield f"{second},{word}", 1


def newest_checkpoint(state: Path) -> str | None:
    found = [path.parent for path in state.glob("*/chk-*/_metadata")]
    return f"file://{max(found, key=lambda path: path.stat().st_mtime)}" if found else None


def main() -> None:
    state = Path(os.environ["STATE"])
    settings = {
        "parallelism.default": "1",
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.dir": f"file://{state}",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.num-retained": "2",
        "python.fn-execution.bundle.time": "200",
        "python.execution-mode": "process",
        # Otherwise the workers take the first `python` on the path, which has no Flink.
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
    }
    if last := newest_checkpoint(state):
        settings["execution.state-recovery.path"] = last
    config = Configuration()
    for key, value in settings.items():
        config.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    source = (
        FileSource.for_record_stream_format(
            StreamFormat.text_line_format(), f"file://{os.environ['INPUT']}"
        )
        .monitor_continuously(Duration.of_millis(200))
        .build()
    )
    # Files of a checkpoint become visible when it is complete: exactly once.
    sink = (
        FileSink.for_row_format(
            f"file://{os.environ['OUTPUT']}", Encoder.simple_string_encoder("UTF-8")
        )
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    pair = Types.TUPLE([Types.STRING(), Types.INT()])
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
        .flat_map(split, output_type=pair)
        .key_by(lambda item: item[0], key_type=Types.STRING())
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .map(lambda item: f"{item[0]},{item[1]}", output_type=Types.STRING())
        .sink_to(sink)
    )
    env.execute("peer")


if __name__ == "__main__":
    main()
