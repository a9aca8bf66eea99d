"""Publishing on several boundaries by writers that sleep, die and draw other rows each time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.deployment.records import GroupPart, SliceFile, SliceRecord
from holdfast.errors import CheckFailedError
from holdfast.runtime.log.crash import Crash
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.units.publish import publish
from holdfast.storage.memory import MemoryStorage

pytestmark = pytest.mark.unit

BOUNDARIES = ("op@a", "op@b", "op@c")


class DiedError(Exception):
    """The process is gone."""


@dataclass(frozen=True)
class Writer:
    """What happens to one generation while it publishes; None: never."""

    drawn: int
    sleeps_before: int | None
    """Put before which all later generations run."""
    dies_before: int | None


class Fateful(MemoryStorage):
    """Calls back before every put of a slice."""

    def __init__(self):
        super().__init__()
        self.before_put = lambda: None

    def put_if_absent(self, name, data):
        if name.startswith("log/"):
            self.before_put()
        return super().put_if_absent(name, data)


def drawn(value):
    # Another number of rows: these are other rows, not the same ones rounded otherwise.
    part = GroupPart(group=0, rows=value, offset=0, size=1, crc=0, digest=value)
    return (SliceFile(name=f"f{value}", schema_size=1, schema_crc=1, parts=(part,)),)


def run(store, writers, *, adopts):
    """Let the first writer publish batch 0, the others within its sleep."""
    writer, *later = writers
    records = [
        SliceRecord(boundary=name, shard=0, number=0, after=-1, upto=0, files=drawn(writer.drawn))
        for name in BOUNDARIES
    ]

    def relay(stored):
        return [replace(stored, boundary=name) for name in BOUNDARIES[1:]]

    puts = 0

    def before_put():
        nonlocal puts
        at, puts = puts, puts + 1
        if at == writer.sleeps_before and later:
            run(store, later, adopts=adopts)
            store.before_put = before_put
        if at == writer.dies_before:
            raise DiedError

    store.before_put = before_put
    log = SliceLog("unused", store)
    try:
        publish(log, records, unit="op#0", crash=Crash(), relay=relay if adopts else None)
    except DiedError:
        return


steps = st.none() | st.integers(0, 2)
writers = st.lists(
    st.builds(Writer, drawn=st.integers(1, 9), sleeps_before=steps, dies_before=steps),
    min_size=1,
    max_size=4,
)


@given(writers)
def test_all_boundaries_hold_the_rows_of_one_run(fates):
    """However generations are interleaved and wherever they die, boundaries never differ."""
    store = Fateful()
    run(store, [*fates, Writer(drawn=10, sleeps_before=None, dies_before=None)], adopts=True)
    run(store, [Writer(drawn=11, sleeps_before=None, dies_before=None)], adopts=True)
    log = SliceLog("unused", store)
    found = [log.slice(name, 0, 0) for name in BOUNDARIES]
    assert len({item.files[0].name for item in found}) == 1


def test_without_adoption_other_rows_are_an_error():
    """An operator that claims to be deterministic is told that it is not."""
    store = Fateful()
    run(store, [Writer(drawn=1, sleeps_before=None, dies_before=1)], adopts=False)
    with pytest.raises(CheckFailedError, match="put what differs into a map"):
        run(store, [Writer(drawn=2, sleeps_before=None, dies_before=None)], adopts=False)
