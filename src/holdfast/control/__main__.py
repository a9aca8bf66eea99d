"""The coordinator process: `python -m holdfast.control --run-dir RUN --launch ID`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from holdfast.control.coordinator import Coordinator
from holdfast.control.shell.journal import Journal
from holdfast.control.shell.server import Shell
from holdfast.errors import BadInputError, CorruptLogError
from holdfast.rundir.paths import journal_path
from holdfast.rundir.spec import BAD_INPUT, read_spec

ORPHANED = 3
"""Exit code when the launcher is gone."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="holdfast-coordinator")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--launch", required=True)
    parser.add_argument("--listen", default="127.0.0.1")
    parser.add_argument("--parent-pid", type=int)
    options = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    try:
        return asyncio.run(_run(options))
    except (BadInputError, CorruptLogError) as error:
        # Trying again would not help; whatever else is raised may pass.
        print(f"holdfast: {error}", file=sys.stderr)  # noqa: T201
        return BAD_INPUT


async def _run(options: argparse.Namespace) -> int:
    spec = read_spec(options.run_dir)
    coordinator = Coordinator(
        pipeline=spec.deployment.pipeline,
        units=spec.deployment.units(),
        policy=spec.policy,
        intervals={
            segment.name: segment.batch_epochs * spec.deployment.epoch_s
            for segment in spec.deployment.segments
        },
    )
    journal = Journal(journal_path(options.run_dir))
    shell = Shell(
        coordinator=coordinator, journal=journal, run_dir=options.run_dir, launch=options.launch
    )
    finished = await shell.serve(host=options.listen, parent_pid=options.parent_pid)
    return 0 if finished else ORPHANED


if __name__ == "__main__":
    sys.exit(main())
