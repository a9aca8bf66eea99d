"""Once per machine: the class archive that lets a session start in a third of the time.

`python -m holdfast.runtime.spark.start.prepare` builds it ahead of time; `holdfast run` and `chaos`
do so on their first use and say what they are waiting for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from holdfast.runtime.spark.start.java import archive_path, ensure_archive


def prepare(say: Callable[[str], None]) -> None:
    """Build the archive unless it is there; without it everything works, only slower."""
    if archive_path().exists():
        return
    say("building Spark's class archive, once per machine (about a minute)")
    if ensure_archive() is None:
        say("the class archive could not be built; sessions will start more slowly")


def main() -> None:
    prepare(lambda line: print(line, file=sys.stderr, flush=True))  # noqa: T201


if __name__ == "__main__":
    main()
