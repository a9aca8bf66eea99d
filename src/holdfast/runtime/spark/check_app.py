"""`python -m holdfast.runtime.spark.check_app APP [PIPE]`: check an application, answer in JSON.

A process of its own, so that whoever asks keeps neither Java nor what the application imports.
PIPE is the number of a file that ends when the one that asked is gone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Any

from holdfast.errors import BadInputError
from holdfast.pipeline import Pipeline, inspect_pipeline
from holdfast.pipeline.problems import collecting
from holdfast.rundir.application import absolute_app, app_folder


def end_with_asker(pipe: IO[bytes]) -> None:
    """End this process, and Java with it, when the one that holds the other end of a pipe is gone.

    It is in a session of its own, which neither a closed terminal nor a signal reaches.
    """

    def wait() -> None:
        pipe.read()
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, name="asker", daemon=True).start()


def main() -> None:
    if len(sys.argv) > 2:
        pipe = int(sys.argv[2])
        os.set_inheritable(pipe, False)
        end_with_asker(os.fdopen(pipe, "rb"))
    app = absolute_app(sys.argv[1])
    # Relative paths of an application begin at its file, as when it runs.
    os.chdir(app_folder(app))
    pipeline, problems = inspect_pipeline(app)
    warnings: tuple[str, ...] = ()
    if pipeline is not None and pipeline.operators:
        try:
            found, warnings = _analyse(pipeline)
        except BadInputError as problem:  # such as: no Java
            found = [problem]
        # Rules of the whole are looked at twice. Operators that were not made as they should be
        # were left out, so what Spark says of a place is no consequence of what was said before.
        problems = list({(one.where, one.what): one for one in (*problems, *found)}.values())
    answer: dict[str, Any] = {
        "problems": [[item.what, item.where, item.hint] for item in problems],
        "warnings": list(warnings),
    }
    # What the application itself prints goes to the same place, before this line.
    print(f"\n{json.dumps(answer)}", flush=True)  # noqa: T201


def _analyse(pipeline: Pipeline) -> tuple[list[BadInputError], tuple[str, ...]]:
    from holdfast.runtime.spark.frames.check import check_pipeline  # noqa: PLC0415 - loads slowly
    from holdfast.runtime.spark.start.session import start_session  # noqa: PLC0415 - loads slowly

    with tempfile.TemporaryDirectory(prefix="holdfast-check-") as folder:
        spark = start_session("check", scratch=Path(folder))
        try:
            # A rule of the whole that is broken, such as a missing sink, must not keep Spark from
            # looking at the operators.
            with collecting() as rules:
                report = check_pipeline(pipeline, spark)
        finally:
            spark.stop()
    return [*rules, *report.problems], report.warnings


if __name__ == "__main__":
    main()
