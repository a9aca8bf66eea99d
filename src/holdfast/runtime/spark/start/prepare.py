"""Once per machine: the Java side of slices, and the class archive with which sessions start fast.

`python -m holdfast.runtime.spark.start.prepare` makes them ahead of time; `holdfast run` and
`chaos` do so on their first use and say what they are waiting for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from holdfast.runtime.spark.start.archive import archive_path, ensure_archive
from holdfast.runtime.spark.start.native import VARIABLE, ensure_jar, wanted_side


def prepare(say: Callable[[str], None]) -> None:
    """Make what is not there yet; without it everything works, only slower."""
    failure = ensure_jar() if wanted_side() == "native" else None
    if failure is not None:
        say(f"slices go through Python ({VARIABLE}=python), Java did not compile: {failure}")
    if archive_path().exists():
        return
    say("building Spark's class archive, once per machine (about a minute)")
    if ensure_archive() is None:
        say("the class archive could not be built; sessions will start more slowly")


def main() -> None:
    prepare(lambda line: print(line, file=sys.stderr, flush=True))  # noqa: T201


if __name__ == "__main__":
    main()
