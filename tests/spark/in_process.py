"""All units of a run in one process: what tests of streams that change hands share."""

import time

from holdfast.deployment import UnitId
from holdfast.pipeline import deploy
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.spark.host import SparkUnitHost

DEADLINE_S = 240.0


class Running:
    """A pipeline's units, heirs included; `sink` is the one whose deliveries are waited for."""

    def __init__(self, spark, pipeline, folder, *, sink, generation=1):
        self.pipeline = pipeline
        self.deployment = deploy(pipeline)
        self.folder = folder
        self.host = SparkUnitHost(self.deployment, pipeline, folder, keep_input=True, spark=spark)
        self.log = SliceLog(folder)
        self.sink = f"{sink}.0#0"
        self.generation = generation
        self.begun = set()
        for unit in self.deployment.units():
            self.start(str(unit))

    def start(self, name):
        if name not in self.begun:
            self.begun.add(name)
            self.host.start(UnitId.parse(name), self.generation, self.generation - 1 or None)

    def poll(self):
        found = {str(item.unit): item for item in self.host.poll()}
        for item in found.values():
            assert item.state != "failed", item.error
            for heir in item.heirs if item.state == "ended" else ():
                self.start(heir)
        return found

    def until(self, condition):
        end = time.monotonic() + DEADLINE_S
        while not condition(found := self.poll()):
            assert time.monotonic() < end, found
            time.sleep(0.05)
        return found

    def deliver(self, epochs):
        """Go on until so many more epochs are delivered."""
        at = self.poll()[self.sink].epoch
        self.until(lambda found: found[self.sink].epoch >= max(at, 0) + epochs)
