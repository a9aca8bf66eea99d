"""`python -m holdfast.runtime.spark.check_app APP`: check an application, answer in JSON.

A process of its own, so that whoever asks keeps neither Java nor what the application imports.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from holdfast.errors import BadInputError
from holdfast.pipeline import Pipeline, inspect_pipeline
from holdfast.pipeline.problems import collecting
from holdfast.rundir.application import absolute_app, app_folder


def main() -> None:
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
        # One per place: what else is wrong there is often a consequence of the first.
        told: dict[str, BadInputError] = {}
        for one in (*problems, *found):
            told.setdefault(one.where or one.what, one)
        problems = list(told.values())
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
