"""Which batches are run again to make lost slices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.streams.repair import Replay, replays

pytestmark = pytest.mark.unit

NUMBERS = st.sets(st.integers(0, 40), min_size=1)
COMMITS = st.sets(st.integers(-1, 40))


def test_neighbours_are_made_in_one_go():
    """A replay that comes by a lost slice makes it as well."""
    assert replays([7, 3, 4], {2, 5}) == [
        Replay(commit=2, last=4, wanted=(3, 4)),
        Replay(commit=5, last=7, wanted=(7,)),
    ]
    assert replays([3, 4], {2, 3}) == [Replay(commit=2, last=4, wanted=(3, 4))]


def test_without_a_commit_before_it_nothing_is_planned():
    """A state that is gone cannot be guessed."""
    assert replays([3, 9], {4}) is None


@given(wanted=NUMBERS, commits=COMMITS)
def test_every_lost_slice_is_made_once_from_a_commit_there_is(wanted, commits):
    """None is made twice, and no batch is run twice."""
    planned = replays(wanted, commits)
    if planned is None:
        assert min(wanted) <= min(commits, default=41)
        return
    assert sorted(number for replay in planned for number in replay.wanted) == sorted(wanted)
    run = [n for replay in planned for n in range(replay.first, replay.last + 1)]
    assert len(run) == len(set(run))
    for replay in planned:
        assert replay.commit in commits
        assert set(replay.wanted) <= set(range(replay.first, replay.last + 1))
