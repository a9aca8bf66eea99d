"""A coordinator process: `python -m holdfast.control --run-dir RUN --launch ID --name c0`.

It follows whoever leads, and leads when nobody does.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import secrets
import sys
from pathlib import Path

from holdfast.clock import SystemClock
from holdfast.control.coordinator import Coordinator
from holdfast.control.election import DEPOSED, Election
from holdfast.control.hot import hot_paths
from holdfast.control.paths import path_versions
from holdfast.control.shell.carriers import Carriers
from holdfast.control.shell.follow import Follower
from holdfast.control.shell.seat import DeposedError, Seat
from holdfast.control.shell.server import Shell
from holdfast.errors import BadInputError, CorruptLogError
from holdfast.health.nexus.classify import Nexus, load_rules
from holdfast.rundir.spec import BAD_INPUT, RunSpec, read_spec

ORPHANED = 3
"""Exit code when the launcher is gone."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="holdfast-coordinator")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--launch", required=True)
    parser.add_argument("--name", default="c0")
    parser.add_argument("--rank", type=int, default=0, help="those of higher rank claim later")
    parser.add_argument("--listen", default="127.0.0.1")
    parser.add_argument("--parent-pid", type=int)
    options = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    try:
        return asyncio.run(_run(options))
    except DeposedError as error:
        logging.getLogger("holdfast.coordinator").info("deposed: %s", error)
        return DEPOSED
    except (BadInputError, CorruptLogError) as error:
        # Trying again would not help; whatever else is raised may pass.
        print(f"holdfast: {error}", file=sys.stderr)  # noqa: T201
        return BAD_INPUT


async def _run(options: argparse.Namespace) -> int:
    spec = read_spec(options.run_dir)
    holder = f"{options.name}-{options.launch}-{secrets.token_hex(4)}"
    seat = Seat(options.run_dir, pipeline=spec.deployment.pipeline, holder=holder)
    follower = Follower(
        run_dir=options.run_dir,
        launch=options.launch,
        name=options.name,
        seat=seat,
        election=Election(rank=options.rank, now=SystemClock().now()),
    )
    outcome = await follower.run(parent_pid=options.parent_pid)
    if outcome == "over":
        return 0
    if outcome == "orphaned":
        return ORPHANED
    coordinator = _coordinator(spec)
    coordinator.replay(outcome, ())
    shell = Shell(
        coordinator=coordinator,
        seat=seat,
        run_dir=options.run_dir,
        launch=options.launch,
        name=options.name,
        carriers=Carriers(options.run_dir, spec.deployment, writer=holder),
    )
    finished = await shell.serve(host=options.listen, parent_pid=options.parent_pid)
    return 0 if finished else ORPHANED


def _coordinator(spec: RunSpec) -> Coordinator:
    deployment = spec.deployment
    return Coordinator(
        pipeline=deployment.pipeline,
        units=deployment.replicas(),
        policy=spec.policy,
        intervals={
            segment.name: segment.batch_epochs * deployment.epoch_s
            for segment in deployment.segments
        },
        splits=path_versions(deployment),
        hot=hot_paths(deployment),
        nexus=Nexus(load_rules(settings=spec.policy.rules)),
        reads={segment.name: deployment.streams_read(segment) for segment in deployment.segments},
        slack=2 * max((segment.batch_epochs for segment in deployment.segments), default=1),
    )


if __name__ == "__main__":
    sys.exit(main())
