"""The journal gives back what was written, cuts a torn tail and nothing else, stays bounded."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.control.random_world import random_world
from tests.unit.control.world import A, B

from holdfast.control import codec
from holdfast.control.coordinator import Coordinator
from holdfast.control.facts import NodeJoined, NodeLost, RecoveryBegan, UnitParked
from holdfast.control.shell.journal import HEADER, Journal, encode, read
from holdfast.control.state import State
from holdfast.control.state.recovery_state import RECOVERIES_LENGTH
from holdfast.deployment import UnitId
from holdfast.errors import BadInputError, CorruptLogError

pytestmark = pytest.mark.unit


def joined(index):
    return NodeJoined(
        at=float(index),
        cause=f"c{index}",
        node=f"n{index}",
        incarnation=f"i{index}",
        launch="L",
        domain="d0",
        pid=index,
        spare=False,
    )


EMPTY = State.new("p")


def test_what_is_appended_is_read_back(tmp_path):
    """Facts come back in order after the snapshot that it began with, also while it is written."""
    path = tmp_path / "journal"
    assert read(path) is None
    journal = Journal(path, State.new("p", (A, B)))
    for index in range(3):
        found = read(path)
        assert found.state == State.new("p", (A, B))
        assert [fact.node for fact in found.facts] == [f"n{i}" for i in range(index)]
        journal.append([joined(index)])
    journal.close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_format_is_as_documented(tmp_path):
    """One line is the CRC-32 in hexadecimal, a blank and JSON; kept files must stay readable."""
    lost = NodeLost(at=1.5, cause="e1", node="n0", incarnation="i0", reason="silent")
    line = encode(7, {"facts": [codec.fact_to_json(lost)]})
    assert line == (
        b'a8a90f19 {"seq":7,"facts":[{"kind":"node_lost","at":1.5,"cause":"e1","node":"n0",'
        b'"incarnation":"i0","reason":"silent","detail":""}]}\n'
    )


def test_a_torn_tail_is_left_out_at_every_byte(tmp_path):
    """Whatever prefix of the last line a crash leaves, all earlier facts and no other remain."""
    path = tmp_path / "journal"
    journal = Journal(path, EMPTY)
    journal.append([joined(0)])
    whole = path.read_bytes()
    journal.append([joined(1), joined(2)])
    journal.close()
    both = path.read_bytes()
    for length in range(len(whole), len(both)):
        path.write_bytes(both[:length])
        found = read(path)
        assert [fact.node for fact in found.facts] == ["n0"]
        assert found.torn_bytes == length - len(whole)


def test_damage_before_the_tail_is_reported_for_every_byte(tmp_path):
    """A flipped bit anywhere before the last line is an error that names the file."""
    path = tmp_path / "journal"
    journal = Journal(path, EMPTY)
    for index in range(3):
        journal.append([joined(index)])
    journal.close()
    good = path.read_bytes()
    inner = len(good) - len(good.splitlines(keepends=True)[-1])
    for position in range(inner):
        bad = bytearray(good)
        bad[position] ^= 0x04
        path.write_bytes(bad)
        with pytest.raises((CorruptLogError, BadInputError), match="journal"):
            read(path)


def test_a_missing_line_is_reported(tmp_path):
    """Lines are numbered, so a line taken out is noticed."""
    path = tmp_path / "journal"
    lines = [encode(seq, {"facts": [codec.fact_to_json(joined(seq))]}) for seq in (0, 2, 3)]
    path.write_bytes(HEADER + b"".join(lines))
    with pytest.raises(CorruptLogError, match="where 1 is due"):
        read(path)


def test_an_unknown_fact_is_reported(tmp_path):
    """A whole line that is no fact of ours is an error, not skipped."""
    path = tmp_path / "journal"
    path.write_bytes(HEADER + encode(0, {"facts": [{"kind": "miracle"}]}))
    with pytest.raises(CorruptLogError, match="miracle"):
        read(path)


def test_a_journal_names_its_format(tmp_path):
    """The first line says what it is, also after a compaction."""
    path = tmp_path / "journal"
    journal = Journal(path, EMPTY)
    assert path.read_bytes().startswith(b"holdfast-journal 2\n")
    journal.append([joined(0)])
    journal.compact(State.new("p", (A, B)))
    journal.append([joined(1)])
    journal.close()
    assert path.read_bytes().startswith(b"holdfast-journal 2\n")
    assert [fact.node for fact in read(path).facts] == ["n1"]
    assert read(path).state == State.new("p", (A, B))


def test_a_journal_from_before_terms_is_read(tmp_path):
    """It need not begin with a snapshot, and may have been torn in its very first line."""
    path = tmp_path / "journal"
    for length in range(len(HEADER) + 1):
        path.write_bytes(HEADER[:length])
        assert read(path).facts == ()
        assert read(path).state is None
    path.write_bytes(HEADER + encode(0, {"facts": [codec.fact_to_json(joined(0))]}))
    assert [fact.node for fact in read(path).facts] == ["n0"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"holdfast-journal 3\n00000000 {}\n", "is a journal of version 3"),
        (encode(0, {"facts": []}), "is a journal from before versions"),
        (
            encode(0, {"format": "holdfast-journal/1", "snapshot": {}}),
            "is a journal from before versions",
        ),
    ],
)
def test_another_version_is_refused_in_one_line(tmp_path, content, says):
    """Nothing is guessed: the message names file and version and says what to do."""
    path = tmp_path / "journal"
    path.write_bytes(content)
    with pytest.raises(BadInputError) as caught:
        read(path)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{path}: {says}, this holdfast reads version 2; resume with")
    assert path.read_bytes() == content


def test_recoveries_under_way_are_kept_however_many(tmp_path):
    """Only recoveries that are over are forgotten, so a unit that is down always has one."""
    units = tuple(UnitId(segment="s", shard=shard) for shard in range(RECOVERIES_LENGTH + 50))
    state = State.new("p", units)
    for number, unit in enumerate(units):
        state.apply(
            RecoveryBegan(
                at=1.0,
                cause="c",
                recovery=number + 1,
                unit=unit,
                reason="node lost",
                node="n",
                failed_at=1.0,
                epoch=0,
            )
        )
    assert all(state.recovery_state.of(unit) is not None for unit in units)
    for unit in units:
        state.apply(UnitParked(at=2.0, cause="c", unit=unit))
    assert len(state.recoveries) == RECOVERIES_LENGTH
    assert "index" not in json.loads(codec.state_to_line(state))


def test_compaction_bounds_the_file(tmp_path):
    """However many facts are written, file and state stay below a bound, and replay agrees."""
    path = tmp_path / "journal"
    state = State.new("p", (A, B))
    journal = Journal(path, state, compact_after=50)
    sizes = []
    for index in range(500):
        facts = [
            joined(index),
            NodeLost(
                at=float(index),
                cause="x",
                node=f"n{index}",
                incarnation=f"i{index}",
                reason="exited",
            ),
        ]
        for fact in facts:
            state.apply(fact)
        journal.append(facts)
        journal.compact_if_long(state)
        sizes.append(path.stat().st_size)
    journal.close()
    assert max(sizes[250:]) <= max(sizes[:250]) * 1.1
    coordinator = Coordinator(pipeline="p", units=(A, B))
    replayed = read(path)
    coordinator.replay(replayed.state, replayed.facts)
    assert coordinator.state == state


@given(seed=st.integers(0, 2**32 - 1), compact_after=st.integers(1, 40))
def test_replay_gives_the_identical_state(seed, compact_after, tmp_path_factory):
    """After any events, with compaction at any time, the journal rebuilds the state exactly."""
    path = tmp_path_factory.mktemp("journal") / "journal"
    world = random_world(seed, steps=60)
    state = State.new("p")
    journal = Journal(path, state, compact_after=compact_after)
    for start in range(0, len(world.journal), 7):
        together = world.journal[start : start + 7]
        for fact in together:
            state.apply(fact)
        journal.append(together)
        journal.compact_if_long(state)
    journal.close()
    replayed = read(path)
    coordinator = Coordinator(pipeline="p", units=world.units)
    coordinator.replay(replayed.state, replayed.facts)
    assert coordinator.state == world.coordinator.state
    written = json.loads(codec.state_to_line(coordinator.state))
    assert codec.state_from_json(written) == coordinator.state
