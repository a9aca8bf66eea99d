"""A map that gives out its first rows one by one, with pauses, and tells which process it is in."""

import os
import time

from holdfast.pipeline import Generator, Parquet, Pipeline

FIRST_ROWS = int(os.environ["SLOW_FIRST_ROWS"])
PAUSE_S = float(os.environ["SLOW_PAUSE_S"])
PID_FILE = os.environ["SLOW_PID_FILE"]


def numbers(epoch, seed):
    if epoch == 0:
        return [(n,) for n in range(FIRST_ROWS)]
    return [(FIRST_ROWS + epoch,)]


def paced(frame):
    # Only what is named in here travels to the workers.
    slow_rows, pause_s, pid_file = FIRST_ROWS, PAUSE_S, PID_FILE

    def slow(batches):
        for batch in batches:
            with open(f"{pid_file}.{os.getpid()}", "w") as file:  # noqa: PTH123 - runs in a task
                file.write(str(os.getpid()))
            os.rename(f"{pid_file}.{os.getpid()}", pid_file)  # noqa: PTH104
            for at in range(batch.num_rows):
                if batch.column(0)[at].as_py() < slow_rows:
                    time.sleep(pause_s)
                yield batch.slice(at, 1)

    return frame.mapInArrow(slow, frame.schema)


pipeline = Pipeline("slow", epoch="1s")
made = pipeline.source("numbers", Generator(numbers, "n bigint")).map("paced", paced)
pipeline.sink("out", made, Parquet("out"))


@pipeline.expected("out")
def expected(rows):
    return rows["numbers"]
