"""A unit's report is replaced as a whole and loses nothing."""

import threading

import pytest

from holdfast.control.events import UnitReport
from holdfast.deployment import UnitId
from holdfast.runtime.units.progress import Progress

pytestmark = pytest.mark.unit

UNIT = UnitId(segment="count")


def test_a_unit_starts_and_tells():
    """Each change gives a new report; an earlier one stays as it was."""
    progress = Progress(UNIT, 3)
    first = progress.report
    assert first == UnitReport(unit=UNIT, generation=3, state="starting")
    assert progress.tell(state="running", batch=4, epoch=7) == progress.report
    progress.add(rows_in=5)
    progress.add(rows_in=5, rows_out=1)
    told = progress.report
    assert (told.state, told.batch, told.epoch) == ("running", 4, 7)
    assert (told.rows_in, told.rows_out) == (10, 1)
    assert first.state == "starting"


def test_what_a_report_does_not_have_cannot_be_told():
    """A wrong name is an error where it stands."""
    with pytest.raises(TypeError, match="bach"):
        Progress(UNIT, 1).tell(bach=1)


def test_threads_do_not_undo_each_other():
    """A change of one field by one thread survives those of other fields by others."""
    progress = Progress(UNIT, 1)

    def tell():
        for number in range(2000):
            progress.tell(batch=number, epoch=number)

    def count():
        for _ in range(2000):
            progress.add(rows_in=1, rows_out=2)

    threads = [threading.Thread(target=target) for target in (tell, count, count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = progress.report
    assert (told.batch, told.epoch, told.rows_in, told.rows_out) == (1999, 1999, 4000, 8000)
