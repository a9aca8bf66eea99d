"""The web application over real HTTP, with a run that writes down what it is told."""

import pytest

pytest.importorskip("fastapi")

from tests.unit.control.world import started
from tests.unit.web.serving import served

from holdfast.control.shell.wire import ConnectionLostError
from holdfast.control.status import RunView
from holdfast.control.view import view
from holdfast.deployment import Boundary, Deployment, Segment
from holdfast.errors import BadInputError
from holdfast.web.serve import listen, serve

pytestmark = [pytest.mark.unit, pytest.mark.timeout(60)]

DEPLOYMENT = Deployment(
    pipeline="p",
    epoch_s=0.5,
    segments=(
        Segment(name="a", kind="source", operators=("a",), outputs=(Boundary(operator="a"),)),
        Segment(
            name="b",
            kind="inner",
            operators=("m", "b"),
            inputs=("a",),
            outputs=(Boundary(operator="b"),),
            shards=2,
            batch_epochs=4,
            stateful=True,
        ),
        Segment(name="out", kind="exporter", operators=("out",), inputs=("b",)),
    ),
    fingerprints={},
)


class FakeDoor:
    """A run of two units, one of whose nodes has died."""

    def __init__(self):
        world = started()
        world.exit("n0")
        self.view = view(world.coordinator, world.now, followers=("c1", "c2"))
        self.told = []
        self.down = False

    def deployment(self):
        return DEPLOYMENT

    def status(self):
        if self.down:
            raise ConnectionLostError("no coordinator: gone")
        return self.view

    def kill(self, node):
        if node not in {one.node for one in self.view.nodes}:
            raise BadInputError(f"no node {node!r}")
        self.told.append(("kill", node))

    def retry(self, unit):
        self.told.append(("retry", unit))

    def ask_path(self, what, split, path):
        if path == "nowhere":
            raise BadInputError(f"no path '{split}:{path}'")
        self.told.append((what, split, path))

    def stop(self):
        self.told.append(("stop",))


class Doorway:
    """Where a door can be put: one server is enough for all tests."""

    def __init__(self):
        self.door = FakeDoor()

    def __getattr__(self, name):
        return getattr(self.door, name)


@pytest.fixture(scope="module")
def doorway():
    return Doorway()


@pytest.fixture(scope="module")
def ask(doorway):
    with served(doorway) as asked:
        yield asked


@pytest.fixture
def door(doorway):
    doorway.door = FakeDoor()
    return doorway.door


def test_the_whole_status_is_the_status_document(ask, door):
    """Field by field as `holdfast status --json` shows it, but for the format's name."""
    code, document = ask("GET", "/api/v1/run")
    assert code == 200
    format_name = door.view.to_json()["format"]
    assert RunView.from_json({"format": format_name, **document}) == door.view


def test_parts_of_the_status(ask, door):
    """Statistics, recoveries, timeline and coordinators are what the status has of them."""
    whole = door.view.to_json()
    assert ask("GET", "/api/v1/statistics")[1] == {
        name: whole[name] for name in ("now", "status", "units", "nodes")
    }
    assert ask("GET", "/api/v1/recoveries")[1] == whole["recoveries"]
    assert whole["recoveries"]
    assert ask("GET", "/api/v1/timeline")[1]["facts"] == whole["timeline"]
    middle = whole["timeline"][3]["at"]
    later = ask("GET", f"/api/v1/timeline?after={middle}")[1]["facts"]
    assert later == [fact for fact in whole["timeline"] if fact["at"] > middle]
    assert later
    led = {"term": whole["term"], "leader": "c1", "followers": ["c2"]}
    assert ask("GET", "/api/v1/coordinators")[1] == led


def test_an_address_that_cannot_be_listened_on_is_said_in_words():
    """An empty one would be every address of the machine."""
    with pytest.raises(BadInputError, match="--host: an address must not be empty"):
        listen("", 0)
    with pytest.raises(BadInputError, match=r"::1:0: cannot listen there: \w+ \w+ for hostname"):
        listen("::1", 0)


def test_the_topology_says_who_reads_whom(ask):
    """Segments with operators, units and batch intervals, upstream first."""
    code, document = ask("GET", "/api/v1/topology")
    assert code == 200
    assert (document["pipeline"], document["epoch_s"]) == ("p", 0.5)
    assert document["segments"][1] == {
        "name": "b",
        "kind": "inner",
        "operators": ["m", "b"],
        "reads": ["a"],
        "units": ["b.0#0", "b.0#1"],
        "stateful": True,
        "paths": [],
        "batch_s": 2.0,
    }
    assert [one["reads"] for one in document["segments"]] == [[], ["a"], ["b"]]


@pytest.mark.parametrize("token", ["", "wrong", "a token for test"])
def test_without_the_token_nothing_is_told_or_done(ask, door, token):
    """Neither views nor commands; the description is open."""
    assert ask("GET", "/api/v1/run", token)[0] == 401
    assert ask("GET", "/api/v1/topology", token)[0] == 401
    code, document = ask("POST", "/api/v1/stop", token)
    assert (code, document) == (401, {"detail": "no token, or a wrong one"})
    assert door.told == []
    assert ask("GET", "/openapi.json", token)[0] == 200


def test_commands_go_through_the_door(ask, door):
    """Taken, not yet carried out: 202."""
    node = door.view.nodes[0].node
    assert ask("POST", f"/api/v1/nodes/{node}/kill") == (202, {"done": f"killed {node}"})
    assert ask("POST", "/api/v1/units/b%230/retry") == (202, {"done": "retrying b#0"})
    assert ask("POST", "/api/v1/stop") == (202, {"done": "stopping"})
    assert door.told == [("kill", node), ("retry", "b#0"), ("stop",)]


def test_breakers_and_what_to_tell_them(ask, door):
    """Splits are a view; inner paths have a stroke in their names."""
    assert ask("GET", "/api/v1/paths") == (200, {"splits": []})
    assert ask("POST", "/api/v1/paths/score/model/open")[0] == 202
    assert ask("POST", "/api/v1/paths/score/model/fast/close")[0] == 202
    assert ask("POST", "/api/v1/paths/score/rules/prefer") == (
        202,
        {"done": "score:rules is preferred"},
    )
    assert ask("POST", "/api/v1/paths/score/by-order")[0] == 202
    assert ask("POST", "/api/v1/paths/score/nowhere/open")[0] == 404
    assert door.told == [
        ("open", "score", "model"),
        ("close", "score", "model/fast"),
        ("prefer", "score", "rules"),
        ("prefer", "score", ""),
    ]


def test_what_there_is_not_is_said(ask, door):
    """An unknown name is 404, a wrong method 405, and no coordinator 503 until one leads."""
    assert ask("POST", "/api/v1/nodes/nobody/kill") == (404, {"detail": "no node 'nobody'"})
    assert ask("GET", "/api/v1/stop")[0] == 405
    assert ask("GET", "/api/v1/timeline?after=soon")[0] == 422
    door.down = True
    assert ask("GET", "/api/v1/run") == (503, {"detail": "no coordinator: gone"})
    door.down = False
    assert ask("GET", "/api/v1/run")[0] == 200


def test_everything_is_described(ask):
    """Each route with words, the token, and documents whose fields have names."""
    document = ask("GET", "/openapi.json", "")[1]
    routes = {path: next(iter(one.values())) for path, one in document["paths"].items()}
    assert sorted(routes) == [
        "/api/v1/coordinators",
        "/api/v1/nodes/{node}/kill",
        "/api/v1/paths",
        "/api/v1/paths/{split}/by-order",
        "/api/v1/paths/{split}/{path}/close",
        "/api/v1/paths/{split}/{path}/open",
        "/api/v1/paths/{split}/{path}/prefer",
        "/api/v1/recoveries",
        "/api/v1/run",
        "/api/v1/statistics",
        "/api/v1/stop",
        "/api/v1/timeline",
        "/api/v1/topology",
        "/api/v1/units/{unit}/retry",
    ]
    for route in routes.values():
        assert route["description"]
        assert route["security"] == [{"HTTPBearer": []}]
        assert {"401", "503"} <= set(route["responses"])
    assert {"RunView", "UnitView", "NodeView", "SplitView", "PathView"} <= set(
        document["components"]["schemas"]
    )


def test_a_port_in_use_is_said(tmp_path):
    """In one line; so is an empty token."""
    taken = listen("127.0.0.1", 0)
    taken.listen()
    port = taken.getsockname()[1]
    with pytest.raises(BadInputError, match="cannot listen there: Address already in use"):
        listen("127.0.0.1", port)
    taken.close()
    with pytest.raises(BadInputError, match="must not be empty"):
        serve(tmp_path, host="127.0.0.1", port=0, token="", said=print)
