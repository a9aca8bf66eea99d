"""A real run over HTTP: looked at, commanded, and still there when the leader changes."""

import pytest

pytest.importorskip("fastapi")

from tests.chaos.test_coordinator_processes import (
    DEADLINE_S,
    SUM0,
    ended_exactly_once,
    recovered,
    starting,
    unit,
    wait_until,
)
from tests.unit.web.serving import served

from holdfast.web.door import RunDoor

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(180)]


def test_a_run_is_watched_and_stopped_over_http(tmp_path):
    """A node is killed, the leader is killed, the run is stopped; every answer is the newest."""
    with starting(tmp_path) as start, served(RunDoor(tmp_path / "run")) as ask:
        assert ask("GET", "/api/v1/topology")[0] == 404, "no run is there yet"
        run = start(coordinators=2)
        names = [one["name"] for one in ask("GET", "/api/v1/topology")[1]["segments"]]
        assert names == ["src", "sum", "out"]
        victim = unit(run.status(), SUM0).node
        assert ask("POST", f"/api/v1/nodes/{victim}/kill") == (202, {"done": f"killed {victim}"})
        recovered(run, 1)
        assert ask("GET", "/api/v1/recoveries")[1][0]["from"] == victim
        run.wait_for(lambda v: len(set(v.coordinators)) == 2, DEADLINE_S, "a follower")
        before = ask("GET", "/api/v1/coordinators")[1]
        run.kill_coordinator()
        wait_until(lambda: ask("GET", "/api/v1/coordinators")[1].get("term", -1) > before["term"])
        recovered(run, 1)
        assert ask("POST", "/api/v1/stop")[0] == 202
        assert run.launcher.finished.wait(DEADLINE_S)
        assert ask("GET", "/api/v1/run")[0] == 503
        ended_exactly_once(run)
