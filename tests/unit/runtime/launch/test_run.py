"""Starts of one run directory that come at once."""

import threading

import pytest

from holdfast.rundir.contents import STARTING
from holdfast.runtime.launch.run import nothing_running
from holdfast.storage import open_storage

pytestmark = pytest.mark.unit


def test_a_start_says_that_it_waits_for_another(tmp_path, caplog):
    """The second one gets its turn when the first lets go, and is not silent until then."""
    let_go = open_storage(tmp_path).hold(STARTING)
    entered = threading.Event()

    def start():
        with nothing_running(tmp_path):
            entered.set()

    thread = threading.Thread(target=start)
    thread.start()
    try:
        while not caplog.messages:
            thread.join(0.01)
        assert not entered.is_set()
    finally:
        let_go()
        thread.join(30)
    assert entered.is_set()
    assert caplog.messages == [f"{tmp_path}: waiting for another start of this run"]


def test_a_start_alone_says_nothing(tmp_path, caplog):
    """Nobody waits, so there is nothing to tell."""
    with nothing_running(tmp_path):
        pass
    assert caplog.messages == []
