"""The state refuses what cannot follow from it, and tells the story that led there."""

import pytest
from tests.unit.control.world import A, B, acts, facts, started

from holdfast.control import events as e
from holdfast.control import facts as f
from holdfast.control.state import IllegalTransitionError
from holdfast.deployment import UnitId

pytestmark = pytest.mark.unit

STAMP = {"at": 1.0, "cause": "x"}
PLACED = {**STAMP, "node": "n0", "incarnation": "n0-1", "reason": "retry"}
DOWN = {**STAMP, "node": "n0", "reason": "error", "retry_at": 1.0}
JOINED = {**STAMP, "launch": "L1", "domain": "", "pid": 1, "spare": False}
BEGAN = {**STAMP, "reason": "error", "node": "n0", "failed_at": 1.0, "epoch": 1}
RESTORED = {**STAMP, "generation": 1, "node": "n0", "epoch": 1}

ILLEGAL = {
    "unit does not wait (running)": f.UnitPlaced(unit=A, generation=2, **PLACED),
    "node is not live": f.UnitPlaced(unit=A, generation=2, **{**PLACED, "incarnation": "old"}),
    "unknown unit": f.UnitRunning(unit=UnitId(segment="zz"), generation=1, **STAMP),
    "unit was not placed (running)": f.UnitRunning(unit=A, generation=1, **STAMP),
    "old generation (running)": f.UnitDown(unit=A, generation=7, **DOWN),
    "unit is not down (running)": f.UnitHeld(unit=A, generation=1, failures=1, **STAMP),
    "unit is not held (running)": f.UnitReleased(unit=A, **STAMP),
    "unit does not wait (running): UnitWaiting": f.UnitWaiting(unit=A, **STAMP),
    "node cannot join": f.NodeJoined(node="n0", incarnation="new", **JOINED),
    "node is not here to lose": f.NodeLost(node="s0", incarnation="old", reason="left", **STAMP),
    "node still has units": f.NodeLost(node="n0", incarnation="n0-1", reason="left", **STAMP),
    "units are still on nodes": f.Deployed(units=(A,), **STAMP),
    "recovery id is not the next": f.RecoveryBegan(recovery=9, unit=A, **BEGAN),
    "no such open recovery": f.RecoveryRestored(recovery=1, unit=A, **RESTORED),
}


@pytest.mark.parametrize("why", ILLEGAL)
def test_an_illegal_fact_raises_with_its_story(why):
    """It says why, and what led to it; a fact about a unit tells that unit's story."""
    world = started()
    with pytest.raises(IllegalTransitionError) as caught:
        world.coordinator.state.apply(ILLEGAL[why])
    assert str(caught.value).startswith(why)
    assert "what led to it:" in str(caught.value)
    if getattr(ILLEGAL[why], "unit", None) == A:
        assert [fact for fact in caught.value.story if getattr(fact, "unit", None) == A]
        assert not [fact for fact in caught.value.story if getattr(fact, "unit", None) == B]


def test_generations_and_phases_follow_one_another():
    """A unit that waits gets the next generation only, and catches up only what was restored."""
    world = started(nodes=("n0",), spares=(), units=(A,))
    world.exit("n0")
    state = world.coordinator.state
    state.apply(f.NodeJoined(node="n9", incarnation="i9", **JOINED))
    placed = {**PLACED, "node": "n9", "incarnation": "i9"}
    with pytest.raises(IllegalTransitionError, match="generation is not the next"):
        state.apply(f.UnitPlaced(unit=A, generation=9, **placed))
    with pytest.raises(IllegalTransitionError, match="caught up before restored"):
        state.apply(f.RecoveryCaughtUp(recovery=1, unit=A, epoch=5, **STAMP))
    with pytest.raises(IllegalTransitionError, match="unit is not up"):
        state.apply(f.UnitDown(unit=A, generation=1, **DOWN))
    with pytest.raises(IllegalTransitionError, match="node cannot join"):
        state.apply(f.NodeJoined(node="n0", incarnation="n0-1", **JOINED))


def test_an_event_that_raises_leaves_no_command_to_the_next():
    """What was decided half is never carried out."""
    world = started(spares=())
    coordinator = world.coordinator
    n0, n1 = (coordinator.state.nodes[name] for name in ("n0", "n1"))
    right, n0.incarnation = n0.incarnation, "broken"
    with pytest.raises(IllegalTransitionError):
        # Unit B loses its node, then cannot be placed on one that is not what it was.
        coordinator.handle(e.NodeExited(cause="x", node="n1", pid=n1.pid), world.now)
    n0.incarnation = right
    got = coordinator.handle(e.Tick(cause="y"), world.now)
    assert facts(got) == ["unit_placed"]
    assert acts(got) == [("start", "b.0#0", 2, "n0", 1)]
