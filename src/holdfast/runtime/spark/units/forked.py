"""A Spark unit that runs in a fork: what differs is where it begins, and its log."""

from __future__ import annotations

from holdfast.runtime.checkpoint.clone import clone_checkpoint, generations, newest_generation
from holdfast.runtime.checkpoint.fork import begin_from_exact
from holdfast.runtime.log.forked import ForkedLog
from holdfast.runtime.spark.units.unit import SparkUnit
from holdfast.runtime.units.birth import follow_inputs
from holdfast.streams.handover import Birth


class ForkedUnit(SparkUnit):
    """Begins with the last commit of its exact unit, or with its own of a generation before."""

    def _prepare(self) -> None:
        context, log = self.context, self.context.log
        if not isinstance(log, ForkedLog):
            raise TypeError("a unit of a fork has a log of its own")
        log.claim(context.name, context.generation)
        self._protocol = log.steps()
        folder, own = self._checkpoints(), context.generation
        source = newest_generation(generations(folder), own)
        if source is None:
            branch = begin_from_exact(
                log, context.unit, own, rows=self._partitions, crash=context.crash
            )
        else:
            found = log.run(self._protocol.branch(context.name))
            if found is None:
                raise AssertionError("it has a checkpoint, so it has a branch")
            branch = found
            clone_checkpoint(folder, source, own, unit=context.name, crash=context.crash)
            self._tidy(keep_from=source - 1)
        self._takeable = follow_inputs(context, Birth(epoch=branch.epoch))
