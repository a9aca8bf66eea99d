"""The pool chooses as a look at all nodes would."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.pool import SLACK, Candidate, Pool

pytestmark = pytest.mark.unit

ROOM = 3


def candidate(node, **changes):
    base = Candidate(node=node, incarnation=node, domain="d0", spare=False, ready=True, load=0)
    return replace(base, **changes)


def pool_of(*nodes, room=ROOM):
    pool = Pool(room=room)
    for node in nodes:
        pool.put(node)
    return pool


def best(nodes, *, spread, keep_on=None, stand_in=None, avoid_domain=""):
    """The rule as it reads: the smallest rank of all nodes with room."""

    def rank(node):
        if spread:
            return (node.probing, node.spare, node.load, node.node)
        return (
            node.node != keep_on,
            node.node != stand_in,
            not node.ready,
            node.probing,
            not node.spare,
            bool(avoid_domain) and node.domain == avoid_domain,
            node.load,
            node.node,
        )

    return min((node for node in nodes if node.load < ROOM), key=rank, default=None)


def test_ready_spares_outside_the_lost_domain_come_first():
    """Among spares, a warm one in another domain wins; a first start leaves spares alone."""
    nodes = (
        candidate("n0", load=1),
        candidate("s0", spare=True),
        candidate("s1", spare=True, domain="d1"),
        candidate("s2", spare=True, domain="d1", ready=False),
    )
    pool = pool_of(*nodes)
    assert pool.choose(spread=False, avoid_domain="d0").node == "s1"
    assert pool.choose(spread=False, avoid_domain="d1").node == "s0"
    assert pool.choose(spread=True).node == "n0"
    assert pool_of(nodes[0], room=1).choose(spread=False) is None
    assert not pool_of(nodes[0], room=1).has_room()


NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
CHANGES = st.lists(
    st.tuples(
        NAMES,
        st.sampled_from(["d0", "d1", "d2"]),
        st.booleans(),
        st.booleans(),
        st.integers(-1, ROOM),
        st.booleans(),
    ),
    max_size=40,
)


@given(
    CHANGES, st.booleans(), st.none() | NAMES, st.none() | NAMES, st.sampled_from(["", "d0", "d1"])
)
def test_after_any_changes_the_choice_is_that_of_a_look_at_all(
    changes, spread, keep_on, stand_in, avoid
):
    """However nodes come, change and go, the pool picks the node with the smallest rank."""
    pool, nodes = Pool(room=ROOM), {}
    for name, domain, spare, ready, load, probing in changes:
        if load < 0:
            pool.drop(name)
            nodes.pop(name, None)
        else:
            made = candidate(name, domain=domain, spare=spare, ready=ready, load=load)
            pool.put(made)
            pool.probe(name, begins=probing)
            nodes[name] = replace(made, probing=probing)
        asked = {
            "spread": spread,
            "keep_on": keep_on,
            "stand_in": stand_in,
            "avoid_domain": avoid,
        }
        assert pool.choose(**asked) == best(nodes.values(), **asked)
        assert pool.has_room() == any(node.load < ROOM for node in nodes.values())
        assert pool.workers == sum(not node.spare for node in nodes.values())


def test_a_pool_does_not_grow_with_the_changes():
    """Entries out of date are forgotten, also those that never come up."""
    pool = pool_of(candidate("a"), candidate("b", spare=True))
    for number in range(5000):
        pool.put(candidate("a", load=number % 2, ready=bool(number % 3)))
    entries = len(pool._spread) + sum(
        len(heap) for domains in pool._classes.values() for heap in domains.values()
    )
    assert entries <= 2 * (2 * 2 + SLACK + 1)
