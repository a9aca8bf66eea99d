"""What a probe makes of what it sees; units that run are left to the tests on Spark."""

from types import SimpleNamespace

import pytest

from holdfast.runtime.spark.units import probe as module
from holdfast.runtime.spark.units.probe import Probe, Probes

pytestmark = pytest.mark.unit


class Unit:
    """A unit whose reports are given, one a look."""

    run_id = "x"

    def __init__(self, *reports):
        self._reports = list(reports)
        self.stopped = False

    @property
    def progress(self):
        batch, ms, state, error = (
            self._reports.pop(0) if len(self._reports) > 1 else self._reports[0]
        )
        return SimpleNamespace(
            report=SimpleNamespace(batch=batch, batch_ms=ms, state=state, error=error)
        )

    def start(self):
        """It runs."""

    def stop(self):
        self.stopped = True

    def join(self, _):
        """It has ended."""


def seen(monkeypatch, *reports, memory=(0,)):
    used = iter(memory)
    last = memory[-1]
    monkeypatch.setattr(module, "worker_memory", lambda _: next(used, last))
    monkeypatch.setattr(module, "WAIT_S", 0.0)
    unit = Unit(*reports)
    found = Probe(split="s", path="p", number=1)._watch(unit, 1.0)
    assert unit.stopped
    return found


def ran(*times_ms):
    return [(number, ms, "running", None) for number, ms in enumerate(times_ms)]


def test_batches_that_end_in_time_are_good(monkeypatch):
    """The first may take its time: it warms up."""
    assert seen(monkeypatch, *ran(5000.0, 90.0, 80.0)).good


def test_slow_failing_and_growing_paths_are_bad(monkeypatch):
    """Each says why."""
    slow = seen(monkeypatch, *ran(100.0, 1500.0, 80.0))
    assert (slow.good, slow.why) == (False, "a batch took 1.5 s (limit 1.0 s)")
    failed = seen(monkeypatch, (-1, 0.0, "failed", "Traceback\nValueError: down"))
    assert (failed.good, failed.why) == (False, "ValueError: down")
    grown = seen(monkeypatch, *ran(100.0, 90.0, 90.0), memory=(10 * 2**20, 99 * 2**20))
    assert (grown.good, grown.why) == (False, "its workers grew by 89 MB in 2 batches")


def test_probes_are_kept_until_they_are_forgotten():
    """One a path; a newer one takes the place of an older one, not the other way round."""
    known = Probes()
    first, second = (Probe(split="s", path="p", number=number) for number in (1, 2))
    begun = []
    for made in (first, second, first):
        known.begin(made, begun.append)
    assert [told.probe for told in known.reports()] == [2]
    known.end("s", "p", 1)
    assert len(known.reports()) == 1
    known.end("s", "p", 2)
    assert known.reports() == []
