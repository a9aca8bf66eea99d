"""What taking over each operator takes on a warm spare, one at a time, in a process of its own.

A session that has run a pipeline for a while has compiled what a spare has not. So another process
opens a host over the log of the profile's run, rehearses as a spare does, lets the sources publish
what is due, and takes over one unit after the other, upstream first: each finds input that nobody
has read, and nothing else runs meanwhile. Seen are when it runs, when its first slice is there, and
the CPU time that both took.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.control.events import UnitReport
from holdfast.deployment import Deployment, UnitId
from holdfast.errors import BadInputError
from holdfast.pipeline import Pipeline
from holdfast.profile.budget import SPARE_S, TAKEOVER_S, left_words
from holdfast.profile.cpu import CpuMeter
from holdfast.profile.spark.collect import cut_everywhere, pinned
from holdfast.profile.taken import Takeover
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.spark.host import SparkUnitHost

Say = Callable[[str], None]

POLL_S = 0.005
LIMIT_S = 60.0
GENERATION = 1
"""The profile's own run was generation 0."""


def measure_takeovers(
    pipeline: Pipeline, folder: Path, say: Say, limit_s: float = math.inf
) -> list[Takeover]:
    """Take over every query of a run that has ended, one at a time, as far as the time goes."""
    began = time.monotonic()
    plain = cut_everywhere(pipeline)
    run_dir = folder / "run"
    queries = [segment.name for segment in plain.segments if segment.kind == "inner"]
    say(f"warming a spare, {left_words(SPARE_S + TAKEOVER_S * len(queries))}")
    host = SparkUnitHost(
        pinned(plain), pipeline, run_dir, keep_input=True, scratch=folder / "spare"
    )
    try:
        host.warm()
        bench = _Bench(plain, host, SliceLog(run_dir))
        bench.feed()
        found, first_at = [], time.monotonic()
        for number, name in enumerate(queries, start=1):
            now = time.monotonic()
            if number > 1 and now - began > limit_s:
                say(f"no time is left for {len(queries) - number + 1} of {len(queries)} takeovers")
                break
            each = (now - first_at) / (number - 1) if number > 1 else TAKEOVER_S
            left = left_words(each * (len(queries) - number + 1))
            say(f"taking over {name}, {number} of {len(queries)}, {left}")
            taken = bench.take_over(UnitId(segment=name))
            if taken is not None:
                found.append(taken)
        return found
    finally:
        host.close()


@dataclass(slots=True)
class _Bench:
    deployment: Deployment
    host: SparkUnitHost
    log: SliceLog

    def feed(self) -> None:
        """Let the sources publish what has come due since the run ended."""
        units = [
            UnitId(segment=segment.name, shard=shard)
            for segment in self.deployment.segments
            if segment.kind == "source"
            for shard in range(segment.shards)
        ]
        before = {unit: self._published(unit) for unit in units}
        for unit in units:
            self.host.start(unit, GENERATION, 0)
        self._wait(lambda: all(self._published(unit) > before[unit] for unit in units), "a source")
        for unit in units:
            self.host.stop(unit)

    def take_over(self, unit: UnitId) -> Takeover | None:
        """One takeover; None if there is nothing for it to read."""
        meter, before = CpuMeter(), self._published(unit)
        cpu, began = meter.with_own(), time.monotonic()
        self.host.start(unit, GENERATION, 0)
        self._wait(lambda: self._state(unit) == "running", str(unit))
        running, running_cpu = time.monotonic(), meter.with_own()
        try:
            self._wait(lambda: self._published(unit) > before, str(unit))
        except TimeoutError:
            return None
        ended, ended_cpu = time.monotonic(), meter.with_own()
        record = self.log.need_slice(str(unit), before + 1)
        return Takeover(
            operator=unit.segment,
            build_s=running - began,
            build_cpu_s=running_cpu - cpu,
            first_s=ended - running,
            first_cpu_s=ended_cpu - running_cpu,
            input_s=(record.upto - record.after) * self.deployment.epoch_s,
        )

    def _published(self, unit: UnitId) -> int:
        """Number of the last slice of a unit; -1: none."""
        last = -1
        for record in self.log.slices_from(str(unit), 0):
            last = record.number
        return last

    def _state(self, unit: UnitId) -> str:
        return next((told.state for told in self._poll() if told.unit == unit), "starting")

    def _poll(self) -> list[UnitReport]:
        found = self.host.poll()
        for told in found:
            if told.state == "failed":
                raise BadInputError("failed when it was taken over", where=str(told.unit))
        return found

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + LIMIT_S
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"{what} took longer than {LIMIT_S:g} s")
            self._poll()
            time.sleep(POLL_S)
