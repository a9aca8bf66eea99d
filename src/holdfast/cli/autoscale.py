"""`run --autoscale`: shards by load, while the run goes on."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Literal, TypeAlias, assert_never

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.control.elastic.load import ScalingPolicy
    from holdfast.control.status import RunView
    from holdfast.runtime.launch.run import LocalRun

PolicyName: TypeAlias = Literal["predict", "threshold"]


def policy_of(name: PolicyName) -> ScalingPolicy:
    """The policy that `--autoscale-policy` names."""
    from holdfast.control.elastic.predict import PredictPolicy
    from holdfast.control.elastic.threshold import ThresholdPolicy

    match name:
        case "predict":
            return PredictPolicy()
        case "threshold":
            return ThresholdPolicy()
        case _:
            assert_never(name)


@contextlib.contextmanager
def autoscaled(
    local: LocalRun, most: int | None, policy: PolicyName, note: Callable[[str], None]
) -> Iterator[None]:
    """Rescale by load while something else goes on; None: leave shards as they are."""
    from holdfast.errors import BadInputError
    from holdfast.runtime.autoscale import AutoscaleThread, Rescaler, Told
    from holdfast.runtime.log.slicelog import SliceLog
    from holdfast.runtime.rescale import announce, as_it_is, under_way

    if most is None:
        yield
        return
    deployment = local.spec.deployment
    records = SliceLog(local.run_dir)
    if not any(as_it_is(records, segment).scales for segment in deployment.segments):
        raise BadInputError("no operator can be scaled", hint="declare max_shards on one")
    told = Told(note, local.note_scaling)
    rescaler = Rescaler(
        records,
        deployment,
        policy_of(policy),
        most_in_all=most,
        announce=lambda put, node: announce(records, put, node),
        tell=told.tell,
        forget=told.forget,
        fleet=local,
    )
    for segment in deployment.segments:
        announce(records, under_way(records, segment.name))
    looking = AutoscaleThread(rescaler, lambda: _status(local), tell=told.tell)
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
