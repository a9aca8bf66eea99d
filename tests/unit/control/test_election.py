"""Every transition of a follower's part in an election."""

import pytest

from holdfast.control.election import (
    Claim,
    Claimed,
    Election,
    ElectionPolicy,
    Heard,
    ImpossibleElectionError,
    Leave,
    Lost,
    Outrun,
    Reached,
    RunOver,
    Tick,
)

pytestmark = pytest.mark.unit

POLICY = ElectionPolicy(silence_s=1.0, lost_s=0.1, stagger_s=0.25, pause_s=0.5)


def follower(rank=0, heard=None):
    """One that has begun at time 0, and has heard a leader then if one is given."""
    made = Election(rank=rank, now=0.0, policy=POLICY)
    if heard is not None:
        made.handle(Heard(term=heard), 0.0)
    return made


def until(made, event, now, step=0.05, end=5.0):
    """When a follower claims that is told the same every so often; None: not before the end."""
    while now < end:
        if made.handle(event, now) or made.handle(Tick(), now):
            return now
        now = round(now + step, 3)
    return None


def test_without_a_leader_the_first_claims():
    """Those of higher rank wait until it may have succeeded."""
    assert until(follower(rank=0), Lost(), 0.0) == pytest.approx(0.1, abs=0.051)
    assert until(follower(rank=2), Lost(), 0.0) == pytest.approx(0.6, abs=0.051)


def test_nobody_claims_while_the_leader_is_heard():
    """However long."""
    assert until(follower(), Heard(term=3), 0.0, end=100.0) is None


def test_a_leader_that_hangs_is_replaced():
    """Its connection holds, but nothing is heard."""
    made = follower(heard=3)
    assert until(made, Tick(), 0.0) == pytest.approx(1.0, abs=0.051)
    assert made.phase == "claiming"
    assert until(follower(rank=1, heard=3), Tick(), 0.0) == pytest.approx(1.25, abs=0.051)


def test_a_leader_that_dies_is_replaced_soon():
    """Its connection breaks and nobody answers where it was."""
    made = follower(heard=3)
    assert until(made, Heard(term=3), 0.0, end=1.0) is None
    assert until(made, Lost(), 1.0) == pytest.approx(1.1, abs=0.051)


def test_a_connection_that_is_made_again_is_no_loss():
    """Then it is silence that counts, from the new connection on."""
    made = follower(heard=3)
    made.handle(Lost(), 0.2)
    made.handle(Reached(), 0.25)
    assert until(made, Tick(), 0.25) == pytest.approx(1.25, abs=0.051)


def test_one_that_hangs_up_on_everybody_is_no_leader():
    """Another program may listen where the leader did: each connection is made, and breaks."""
    made = follower(heard=3)
    now = 0.0
    while now < 1.0 and made.phase == "following":
        now = round(now + 0.05, 3)
        for event in (Lost(), Tick(), Reached(), Lost(), Tick()):
            made.handle(event, now)
    assert (made.phase, now) == ("claiming", pytest.approx(0.15, abs=0.051))


def test_a_leader_of_an_older_term_does_not_count():
    """It has not noticed that it leads no more; another one is to be found."""
    made = follower(heard=3)
    assert until(made, Heard(term=2), 0.0) == pytest.approx(1.0, abs=0.051)
    assert made.term == 3


def test_one_that_stood_still_blames_nobody():
    """After a gap in its own events, silence is counted anew."""
    made = follower(heard=3)
    assert made.handle(Tick(), 9.0) == []
    assert until(made, Tick(), 9.0, end=20.0) == pytest.approx(10.0, abs=0.051)
    alone = follower()
    assert alone.handle(Tick(), 9.0) == []
    assert until(alone, Tick(), 9.0, end=20.0) == pytest.approx(9.1, abs=0.051)


def test_a_claim_is_made_once_and_says_why():
    """Until it is answered, nothing more is claimed."""
    made = follower(heard=3)
    (claim,) = [x for now in range(11) for x in made.handle(Tick(), now / 10)]
    assert claim == Claim(why="the leader has been silent for 1.0 s")
    assert made.handle(Tick(), 1.1) == []
    assert made.handle(Claimed(term=4), 1.1) == []
    assert (made.phase, made.term) == ("leading", 4)
    assert until(made, Tick(), 1.1, end=9.0) is None
    (claim,) = follower().handle(Tick(), 0.1)
    assert claim == Claim(why="no leader can be reached")


def test_one_that_was_outrun_looks_for_the_winner():
    """And claims again if there is none to be found."""
    made = follower()
    made.handle(Tick(), 0.1)
    assert made.handle(Outrun(), 0.2) == []
    assert made.phase == "following"
    assert until(made, Lost(), 0.2) == pytest.approx(0.3, abs=0.051)


def test_the_end_of_the_run_is_the_end_of_all():
    """A follower leaves; one that has taken over meanwhile finds out by itself."""
    made = follower(heard=3)
    assert made.handle(RunOver(), 0.1) == [Leave()]
    assert until(made, Lost(), 0.1) is None
    other = follower()
    other.handle(Tick(), 0.1)
    assert other.handle(RunOver(), 0.1) == []


@pytest.mark.parametrize("event", [Claimed(term=1), Outrun()])
def test_an_answer_without_a_claim_is_a_fault(event):
    """The shell is wrong, and going on would be guessing."""
    with pytest.raises(ImpossibleElectionError, match="while following"):
        follower().handle(event, 0.0)
