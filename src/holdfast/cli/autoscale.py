"""`run --autoscale`: shards by load, while the run goes on."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.control.status import RunView
    from holdfast.runtime.launch.run import LocalRun


@contextlib.contextmanager
def autoscaled(local: LocalRun, most: int | None, note: Callable[[str], None]) -> Iterator[None]:
    """Rescale by load while something else goes on; None: leave shards as they are."""
    from holdfast.control.elastic.predict import PredictPolicy
    from holdfast.errors import BadInputError
    from holdfast.runtime.autoscale import AutoscaleThread, Rescaler
    from holdfast.runtime.log.slicelog import SliceLog
    from holdfast.runtime.rescale import announce, under_way

    if most is None:
        yield
        return
    deployment = local.spec.deployment
    if not any(segment.scales for segment in deployment.segments):
        raise BadInputError(
            "no operator can be scaled", hint="declare max_shards on one that has no followers"
        )
    records = SliceLog(local.run_dir)
    rescaler = Rescaler(
        records,
        deployment,
        PredictPolicy(),
        most_in_all=most,
        announce=lambda put, node: announce(records, put, node),
        tell=note,
        fleet=local,
    )
    for segment in deployment.segments:
        announce(records, under_way(records, segment.name))
    looking = AutoscaleThread(rescaler, lambda: _status(local), tell=note)
    looking.start()
    try:
        yield
    finally:
        looking.stop()


def _status(local: LocalRun) -> RunView | None:
    from holdfast.control.shell.wire import ConnectionLostError

    try:
        return local.status()
    except ConnectionLostError:  # the coordinator is being started again
        return None
