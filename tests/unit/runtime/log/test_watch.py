"""The node's watcher: who is woken by what, what it costs, and what happens without it."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

import pytest

from holdfast.runtime.log.watch import (
    MAX_LOOKS,
    NodeWatch,
    NoWatch,
    RemoteWatch,
    _Waiter,
)
from holdfast.storage.local import LocalStorage

pytestmark = pytest.mark.unit

LONG_S = 60.0
"""A wait that a test must never see through."""
NEVER_S = 3600.0
"""A watcher that looks so rarely has to be told."""


@pytest.fixture
def make_watch():
    made = []

    def make(**options):
        watch = NodeWatch(**options)
        watch.start()
        made.append(watch)
        return watch

    yield make
    for watch in made:
        watch.close()


class Waiting:
    """A thread that waits, in this process or as another would."""

    def __init__(self, wait):
        self.found = None
        self.thread = threading.Thread(target=self._run, args=(wait,), daemon=True)
        self.thread.start()

    def _run(self, wait):
        self.found = wait()

    def result(self):
        self.thread.join(LONG_S / 2)
        assert not self.thread.is_alive()
        return self.found


def local(watch, *paths, wake=None):
    event = wake or threading.Event()
    return Waiting(lambda: watch.wait([str(path) for path in paths], LONG_S, event))


def remote(watch, *paths):
    client = RemoteWatch(watch.address)
    return Waiting(lambda: client.wait([str(path) for path in paths], LONG_S))


def eventually(condition):
    deadline = time.monotonic() + LONG_S / 2
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def watched(watch, *paths):
    eventually(lambda: {str(path) for path in paths} <= set(watch._paths.by_path))


@pytest.mark.parametrize("how", [local, remote])
def test_what_others_put_is_seen(make_watch, tmp_path, how):
    """A file that another process creates wakes who waits for it."""
    watch = make_watch()
    waiting = how(watch, tmp_path / "other", tmp_path / "record")
    watched(watch, tmp_path / "record")
    (tmp_path / "record").touch()
    assert waiting.result() is True
    assert watch._paths.by_path == {}


@pytest.mark.parametrize("how", [local, remote])
def test_what_is_put_on_the_node_is_told(make_watch, tmp_path, how):
    """A record put in the node's own process wakes who waits, though nobody looks."""
    watch = make_watch(poll_s=NEVER_S)
    waiting = how(watch, tmp_path / "folder" / "record")
    watched(watch, tmp_path / "folder" / "record")
    LocalStorage(tmp_path, told=watch.told).put_if_absent("folder/record", b"x")
    assert LocalStorage(tmp_path).get("folder/record") == b"x"
    assert waiting.result() is True


@pytest.mark.parametrize("how", [local, remote])
def test_what_is_there_already_is_not_waited_for(make_watch, tmp_path, how):
    """Between looking and asking a record may have appeared; the watcher looks when asked."""
    (tmp_path / "record").touch()
    assert how(make_watch(poll_s=NEVER_S), tmp_path / "record").result() is True


def test_a_stop_ends_a_wait(make_watch, tmp_path):
    """A unit that is told to stop does not wait for its input, and leaves no trace."""
    watch, wake = make_watch(), threading.Event()
    waiting = local(watch, tmp_path / "record", wake=wake)
    watched(watch, tmp_path / "record")
    wake.set()
    assert waiting.result() is False
    assert watch._paths.by_path == {}


def test_a_path_is_looked_for_once_for_all_who_wait(make_watch, tmp_path):
    """Twenty tasks that wait for one slice cost what one costs."""
    watch = make_watch(poll_s=NEVER_S)
    waiting = [remote(watch, tmp_path / "record") for _ in range(20)]
    eventually(lambda: sum(map(len, watch._paths.by_path.values())) == 20)
    before = watch.looks
    watch._look_for_some()
    assert watch.looks == before + 1
    watch.told(str(tmp_path / "record"))
    assert all(item.result() is True for item in waiting)


def test_nobody_waits_nothing_is_looked_for(make_watch, tmp_path):
    """A watcher without waiters sleeps until it is asked."""
    watch = make_watch(poll_s=0.0001)
    waiting = local(watch, tmp_path / "record")
    watched(watch, tmp_path / "record")
    (tmp_path / "record").touch()
    waiting.result()
    before = watch.looks
    # It would look hundreds of times while another watcher serves twenty waits.
    other = make_watch()
    for number in range(20):
        local(other, tmp_path).result()
        assert remote(other, tmp_path).result() is True, number
    assert watch.looks == before


def test_many_paths_take_turns(tmp_path):
    """However many paths are watched, a look is for a bounded number, and all get theirs."""
    watch, rung = NodeWatch(), []  # not started: nobody else looks
    paths = [str(tmp_path / str(number)) for number in range(2 * MAX_LOOKS + 5)]
    for path in paths:
        watch._paths.add(_Waiter(paths=(path,), ring=lambda path=path: rung.append(path)))
    (tmp_path / "1").touch()
    Path(paths[-1]).touch()
    for rounds in range(1, 4):
        watch._look_for_some()
        assert watch.looks == rounds * MAX_LOOKS
    assert rung == [paths[1], paths[-1]]


def test_a_new_question_replaces_the_old_one(make_watch, tmp_path):
    """A late answer to a question that was given up is not taken for the next one's."""
    watch = make_watch(poll_s=NEVER_S)
    client = RemoteWatch(watch.address)
    assert client.wait([str(tmp_path / "first")], 0.01) is False
    watched(watch, tmp_path / "first")
    watch.told(str(tmp_path / "first"))
    assert client.wait([str(tmp_path / "second")], 0.01) is False
    waiting = Waiting(lambda: client.wait([str(tmp_path / "third")], LONG_S))
    watched(watch, tmp_path / "third")
    assert set(watch._paths.by_path) == {str(tmp_path / "third")}
    watch.told(str(tmp_path / "third"))
    assert waiting.result() is True


def test_a_watcher_that_goes_away_ends_the_wait(make_watch, tmp_path):
    """A task whose node is gone notices at once, and looks for itself from then on."""
    watch = make_watch()
    client = RemoteWatch(watch.address)
    waiting = Waiting(lambda: client.wait([str(tmp_path / "record")], LONG_S))
    watched(watch, tmp_path / "record")
    watch.close()
    assert waiting.result() is False
    assert Waiting(lambda: client.wait([str(tmp_path / "record")], LONG_S)).result() is False
    assert local(watch, tmp_path / "record").result() is False


def test_without_a_watcher_everyone_looks_for_itself():
    """No address, no wait beyond one poll."""
    assert Waiting(lambda: RemoteWatch("").wait(["/x"], LONG_S)).result() is False
    assert local(NoWatch(), "/x").result() is False


def test_a_node_that_cannot_listen_goes_on(monkeypatch, caplog):
    """Without a socket there is no watcher, a line that says so, and nothing else."""

    def refuse(*_):
        raise OSError("no sockets left")

    monkeypatch.setattr(socket, "create_server", refuse)
    watch = NodeWatch()
    watch.start()
    assert "no sockets left" in caplog.text
    assert watch.address == ""
    assert local(watch, "/").result() is False
    watch.close()


def test_a_task_that_ends_is_forgotten(make_watch, tmp_path):
    """Paths of a process that is gone are not looked for any more."""
    watch = make_watch()
    client = RemoteWatch(watch.address)
    client.wait([str(tmp_path / "record")], 0.01)
    watched(watch, tmp_path / "record")
    client._socket.close()
    eventually(lambda: not watch._paths.by_path and not watch._connections)


@pytest.mark.parametrize(
    "said", [b"no token\n", b"x" * 100, b"{token}\nno json\n", b"{token}\n7\n"]
)
def test_strangers_are_sent_away(make_watch, said):
    """Who has no token or talks nonsense is cut off; others are still served."""
    watch = make_watch()
    host, port, token = watch.address.split(":")
    with socket.create_connection((host, int(port)), timeout=LONG_S) as stranger:
        stranger.sendall(said.replace(b"{token}", token.encode()))
        assert stranger.recv(1) == b""
    assert remote(watch, "/").result() is True


def test_any_language_can_ask(make_watch, tmp_path):
    """The protocol is two lines of text and one back."""
    watch = make_watch()
    host, port, token = watch.address.split(":")
    with socket.create_connection((host, int(port)), timeout=LONG_S) as client:
        client.sendall(f"{token}\n{json.dumps([41, [str(tmp_path / 'record')]])}\n".encode())
        watched(watch, tmp_path / "record")
        (tmp_path / "record").touch()
        assert client.recv(100) == b"41\n"
