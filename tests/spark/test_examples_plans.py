"""The result never depends on the plan: every example, cut in every way, verified independently.

All units of a run live in this process, on one session. An epoch is shorter than in the examples,
so that a run of twenty epochs takes seconds; event time is counted in epochs and does not notice.
"""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from holdfast.pipeline import deploy, load_pipeline
from holdfast.pipeline.claims import claims
from holdfast.runtime.spark.host import SparkUnitHost
from holdfast.runtime.spark.start.native import VARIABLE
from holdfast.runtime.spark.start.session import start_session
from holdfast.verify.check import verify

pytestmark = pytest.mark.spark

EPOCH_S = 0.25
EPOCHS = 20
BATCHES = 8
"""Batches every exporter must have delivered too: a unit that starts late takes many epochs in its
first batch, and a window is given out only in a later one."""
DEADLINE_S = 300.0

CUT_ONCE = {
    "word_count": {"filter"},
    "distinct_count": {"per_user"},
    "top_k": {"per_page"},
    "traffic": {"match"},
    "fan_out": {"orders"},
    "sessions": {"sessions"},
    "loyalty": {"reward"},
    "receipts": {"parse"},
}
SHARDED = {
    "word_count": {"count": 2},
    "distinct_count": {"per_user": 2},
    "top_k": {"per_region": 2, "per_page": 2},
    "traffic": {"match": 2},
    "fan_out": {"total": 2},
    "sessions": {"sessions": 2},
    "loyalty": {"reward": 2},
    "receipts": {"takings": 2},
}


@pytest.fixture(scope="module")
def spark():
    return start_session("test-plans", memory_mb=1024)


def load(name):
    return load_pipeline(f"examples/{name}.py")


class Run:
    """One run directory, started once per generation."""

    def __init__(self, spark, pipeline, path, **options):
        self.spark, self.pipeline, self.path = spark, pipeline, path
        self.deployment = deploy(pipeline, epoch_s=EPOCH_S, **options)
        self.generation = 0

    def until(self, epoch, batches=BATCHES):
        """Run all units until every exporter has come that far, then stop them all."""
        host = SparkUnitHost(
            self.deployment, self.pipeline, self.path, keep_input=True, spark=self.spark
        )
        before = self.generation - 1 if self.generation else None
        try:
            for unit in self.deployment.units():
                host.start(unit, self.generation, before)
            self._wait(host, epoch, batches)
        finally:
            host.close()
        self.generation += 1
        return self

    def _wait(self, host, epoch, batches):
        exporters = {item.name for item in self.deployment.segments if item.kind == "exporter"}
        end = time.monotonic() + DEADLINE_S
        while True:
            found = host.poll()
            for status in found:
                assert status.state != "failed", f"{status.unit}: {status.error}"
            ends = [item for item in found if item.unit.segment in exporters]
            if all(item.epoch >= epoch and item.batch >= batches for item in ends):
                return
            progress = [(str(item.unit), item.batch, item.epoch) for item in found]
            assert time.monotonic() < end, progress
            time.sleep(0.05)

    def check(self):
        verdict = verify(self.path, claims(self.pipeline))
        assert verdict.ok, "\n".join(
            f"{item.name}: {item.difference} {item.note}\n  "
            + "\n  ".join(item.difference.examples)
            for item in verdict.findings
        )
        return verdict


@pytest.mark.sample(side="native", plan={"uncut", "shards-everywhere"}, name="word_count")
@pytest.mark.sample(side="native", plan="everywhere", name={"traffic", "loyalty"})
@pytest.mark.sample(side="python", plan="batches", name="top_k")
@pytest.mark.parametrize("side", ["native", "python"])
@pytest.mark.parametrize("name", CUT_ONCE)
@pytest.mark.parametrize(
    "plan", ["uncut", "once", "everywhere", "shards", "shards-everywhere", "batches"]
)
def test_results_do_not_depend_on_the_plan(spark, tmp_path, monkeypatch, name, plan, side):
    """Uncut, cut once, cut everywhere, sharded and with long batches: all verify, on both sides."""
    monkeypatch.setenv(VARIABLE, side)
    options = {
        "uncut": {},
        "once": {"cuts": CUT_ONCE[name]},
        "everywhere": {"cuts": "all"},
        "shards": {"shards": SHARDED[name]},
        "shards-everywhere": {"shards": SHARDED[name], "cuts": "all"},
        "batches": {"batch_epochs": 3, "cuts": CUT_ONCE[name]},
    }[plan]
    Run(spark, load(name), tmp_path, **options).until(EPOCHS).check()


def with_idle_input(pipeline, first, last):
    """The same pipeline, with no rows in some epochs."""

    def idle(function: Callable) -> Callable:
        return lambda epoch, seed: () if first <= epoch < last else function(epoch, seed)

    for operator in pipeline.sources:
        source = replace(operator.source, function=idle(operator.source.function))
        pipeline._operators[operator.name] = replace(operator, source=source)
    return pipeline


@pytest.mark.sample(name="distinct_count")
@pytest.mark.parametrize("name", CUT_ONCE)
def test_an_idle_input_changes_nothing(spark, tmp_path, name):
    """Epochs without rows tick on; what comes after them counts as ever."""
    pipeline = with_idle_input(load(name), 6, 14)
    Run(spark, pipeline, tmp_path, cuts="all").until(EPOCHS).check()


@pytest.mark.sample(name="sessions")
@pytest.mark.parametrize("name", CUT_ONCE)
def test_catching_up_after_a_pause_changes_nothing(spark, tmp_path, name):
    """A run that stood still takes the missed epochs in larger batches, from its state."""
    run = Run(spark, load(name), tmp_path, cuts=CUT_ONCE[name]).until(8, 4)
    resume = time.monotonic() + 12 * EPOCH_S
    while time.monotonic() < resume:
        time.sleep(0.05)
    run.until(30, 10).check()
