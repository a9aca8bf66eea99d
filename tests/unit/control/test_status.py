"""The status document survives its JSON form, says what it is, and refuses others."""

import json

import pytest
from tests.unit.control.random_world import random_world
from tests.unit.control.world import B, started

from holdfast.control.status import FORMAT, RecoveryView, RunView
from holdfast.control.view import view
from holdfast.errors import BadInputError

pytestmark = pytest.mark.unit


def over_the_wire(shown):
    return RunView.from_json(json.loads(json.dumps(shown.to_json())))


@pytest.mark.parametrize("seed", range(5))
def test_whatever_happened_is_read_as_it_was_written(seed):
    """Units, nodes, recoveries and the timeline of random runs come back equal."""
    world = random_world(seed, steps=120)
    shown = view(world.coordinator, world.now)
    assert shown.timeline
    assert over_the_wire(shown) == shown


def test_a_recovery_is_written_in_the_words_of_the_reference():
    """`from` and `to` cannot be names in Python; a missing value is null."""
    world = started()
    world.exit("n0")
    (recovery,) = view(world.coordinator, world.now).recoveries
    data = recovery.to_json()
    assert (data["from"], recovery.from_node) == ("n0", "n0")
    assert data["caught_up_at"] is None
    assert list(data) == [
        {"from_node": "from", "to_node": "to"}.get(name, name) for name in RecoveryView.__slots__
    ]


def test_a_failed_unit_keeps_its_error():
    """The traceback arrives whole."""
    world = started(nodes=("n0",), spares=())
    world.set("n0", B, state="failed", operator="parse", error="Traceback\nValueError: ü")
    world.beat("n0")
    told = {unit.unit: unit for unit in over_the_wire(view(world.coordinator, world.now)).units}
    assert told[str(B)].error == "Traceback\nValueError: ü"


@pytest.mark.parametrize("format", [None, "holdfast-status/0", "holdfast-run/1"])
def test_another_format_is_refused_in_one_line(format):
    """A coordinator of another version is told apart from a broken one."""
    world = started()
    data = {**view(world.coordinator, world.now).to_json(), "format": format}
    with pytest.raises(BadInputError, match="unknown format"):
        RunView.from_json(data)


def test_what_does_not_fit_the_format_is_refused():
    """A field of another type is named."""
    world = started()
    data = {**view(world.coordinator, world.now).to_json(), "units": [{"unit": 3}]}
    with pytest.raises(BadInputError, match=f"is not as {FORMAT} says"):
        RunView.from_json(data)


def test_the_reference_names_every_field():
    """docs/reference/status.md is complete."""
    from pathlib import Path

    page = (Path(__file__).parents[3] / "docs" / "reference" / "status.md").read_text()
    world = started()
    world.exit("n0")
    data = view(world.coordinator, world.now).to_json()
    names = {*data, *data["units"][0], *data["nodes"][0], *data["recoveries"][0]}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []
    assert FORMAT in page
