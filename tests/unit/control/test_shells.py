"""Leaders and followers as they act, in one process: who is heard, who takes over, who gives up."""

import asyncio
import contextlib
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.unit.control.world import A

from holdfast.clock import SystemClock
from holdfast.control import commands as c
from holdfast.control import events as e
from holdfast.control.client import ControlClient
from holdfast.control.coordinator import Coordinator
from holdfast.control.election import Election, ElectionPolicy
from holdfast.control.shell.follow import Follower
from holdfast.control.shell.seat import DeposedError, Seat
from holdfast.control.shell.server import Shell
from holdfast.rundir.endpoint import keep_endpoint, read_endpoint, write_endpoint
from holdfast.streams.paths import Carried

pytestmark = [pytest.mark.unit, pytest.mark.timeout(60)]

PATIENT = ElectionPolicy(silence_s=30.0, lost_s=30.0)
EAGER = ElectionPolicy(silence_s=0.4, lost_s=0.05)


def follower(run_dir, name, policy):
    seat = Seat(run_dir, pipeline="p", holder=name)
    election = Election(rank=0, now=SystemClock().now(), policy=policy)
    made = Follower(run_dir=run_dir, launch="L", name=name, seat=seat, election=election)
    return made, seat


async def leader(run_dir, name):
    """One that leads, with its task."""
    made, seat = follower(run_dir, name, EAGER)
    coordinator = Coordinator(pipeline="p", units=(A,))
    coordinator.replay(await made.run(), ())
    shell = Shell(coordinator=coordinator, seat=seat, run_dir=run_dir, launch="L", name=name)
    serving = asyncio.create_task(shell.serve())
    await until(lambda: (found := read_endpoint(run_dir)) is not None and found.name == name)
    return shell, serving


async def until(condition):
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("did not happen in time")


async def ended(*tasks):
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, DeposedError):
            await task


def test_a_follower_hears_the_leader_and_the_end_of_the_run(tmp_path):
    """It stays where it is until it is told that the run is over."""

    async def body():
        shell, serving = await leader(tmp_path, "c0")
        other, _ = follower(tmp_path, "c1", PATIENT)
        following = asyncio.create_task(other.run())
        await until(lambda: list(shell._followers.values()) == ["c1"])
        shell._answer({"op": "stop"})
        assert await serving
        assert await following == "over"

    asyncio.run(body())


def test_what_the_autoscaler_says_is_journaled(tmp_path):
    """Whoever leads next has it in its timeline."""

    async def body():
        _, serving = await leader(tmp_path, "c0")
        await asyncio.to_thread(note, tmp_path, "count cannot be scaled further")
        await ended(serving)
        second, again = await leader(tmp_path, "c1")
        noted = [fact for fact in second.coordinator.state.timeline if fact.kind == "scaling_noted"]
        assert [fact.text for fact in noted] == ["count cannot be scaled further"]
        await ended(again)

    def note(run_dir, text):
        with ControlClient(run_dir) as client:
            client.note_scaling(text)

    asyncio.run(body())


def test_a_leader_that_is_cut_off_is_replaced_and_ends(tmp_path):
    """Nobody reaches it; its successor goes on from its journal, and it finds out by itself."""

    async def body():
        _, serving = await leader(tmp_path, "c0")
        # An address where nobody listens is what a partition looks like to everyone else.
        real = read_endpoint(tmp_path)
        write_endpoint(tmp_path, replace(real, port=9))
        second, again = await leader(tmp_path, "c1")
        with pytest.raises(DeposedError, match="term 0 is over, 1 has begun"):
            await serving
        assert read_endpoint(tmp_path).name == "c1"
        assert second._followers == {}, "one that leads follows nobody, itself included"
        assert second.coordinator.state.run.term == 1
        assert second.coordinator.state.run.coordinator == "c1"
        await ended(again)

    asyncio.run(body())


def test_the_newest_leader_keeps_its_address(tmp_path):
    """One that woke up and wrote its own is overwritten; a newer one is not."""

    async def body():
        _, serving = await leader(tmp_path, "c0")
        mine = read_endpoint(tmp_path)
        older, newer = (replace(mine, port=1, term=mine.term + step) for step in (-1, 1))
        write_endpoint(tmp_path, older)
        await until(lambda: read_endpoint(tmp_path) == mine)
        write_endpoint(tmp_path, newer)
        keep_endpoint(tmp_path, mine)
        assert read_endpoint(tmp_path) == newer
        await ended(serving)

    asyncio.run(body())


def test_what_the_records_say_overtakes_no_command(tmp_path, monkeypatch):
    """A probe that has to make way for the path that was taken would begin after its end."""
    place = {"cause": "t", "node": "n0", "split": "other", "path": "model", "probe": 1}
    taken = c.TakePath(cause="t", split="score", path="rules", reason="")
    follows = {"tick": [taken, c.StartProbe(**place, share=0.1)], "said": [c.StopProbe(**place)]}
    sent = []
    now = Carried(split="score", path="rules", change=1, reason="", units=("score.1#0",))
    shell = Shell(
        coordinator=Coordinator(pipeline="p", units=(A,)),
        seat=SimpleNamespace(term=0),
        run_dir=tmp_path,
        launch="L",
        name="c0",
        carriers=SimpleNamespace(take=lambda *_, **__: now),
    )
    monkeypatch.setattr(
        shell.coordinator,
        "handle",
        lambda event, _: follows["said" if isinstance(event, e.PathCarried) else "tick"],
    )
    monkeypatch.setitem(shell.coordinator.state.nodes, "n0", SimpleNamespace(incarnation="i"))
    monkeypatch.setitem(shell._nodes, "i", SimpleNamespace(send=sent.append))
    shell.feed(e.Tick(cause="t"))
    assert [order["command"]["kind"] for order in sent] == ["start_probe", "stop_probe"]
