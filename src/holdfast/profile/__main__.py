"""The process that a profile runs Spark in; `launch` starts it and reads its lines.

Lines on standard output are JSON objects: {"say": text}, then {"statistics": text}, with
--takeovers {"takeovers": [...]}, or {"error": {what, where, hint}}. Everything else that Java and
Spark print goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

from holdfast.errors import BadInputError, HoldfastError
from holdfast.pipeline import load_pipeline
from holdfast.predict.statistics import dump_statistics
from holdfast.profile.cpu import CpuMeter
from holdfast.profile.spark.measure import Work, measure_on_spark
from holdfast.profile.spark.takeovers import measure_takeovers
from holdfast.rundir.application import app_folder

WATCH_S = 0.5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("app")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--thorough", action="store_true")
    parser.add_argument("--machine", action="store_true")
    parser.add_argument("--takeovers", action="store_true")
    args = parser.parse_args()
    # Whatever a user's function prints must not get between our lines.
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(**message: object) -> None:
        lines.write(json.dumps(message) + "\n")
        lines.flush()

    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()
    try:
        os.chdir(app_folder(args.app))
        if args.takeovers:
            watched = measure_takeovers(
                load_pipeline(args.app), args.folder, lambda text: tell(say=text), args.seconds
            )
            tell(takeovers=[asdict(one) for one in watched])
            os._exit(0)
        work = Work(
            pipeline=load_pipeline(args.app),
            seconds=args.seconds,
            thorough=args.thorough,
            machine=args.machine,
            folder=args.folder,
        )
        found = measure_on_spark(work, lambda text: tell(say=text))
        tell(say=f"that took {CpuMeter().with_own():.0f} s of CPU time")
        tell(statistics=dump_statistics(found))
    except BadInputError as error:
        tell(error={"what": error.what, "where": error.where, "hint": error.hint})
    except HoldfastError as error:
        tell(error={"what": str(error), "where": "", "hint": ""})
    # Java and everything else is ended with the session, by whoever started us.
    os._exit(0)


def _watch(parent: int) -> None:
    """Whoever started us is gone: nobody wants to know any more."""
    while os.getppid() == parent:
        time.sleep(WATCH_S)
    sys.stderr.write("the profile's owner is gone\n")
    os._exit(1)


if __name__ == "__main__":
    main()
