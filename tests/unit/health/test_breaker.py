"""Circuit breakers of a split: every transition, and what holds after any of them."""

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast.errors import BadInputError
from holdfast.health.breaker import (
    Activate,
    AllDown,
    BreakerPolicy,
    Breakers,
    CloseAsked,
    OpenAsked,
    PathFailed,
    PreferAsked,
    ProbeEnded,
    ProbePutOff,
    ShutDown,
    StartProbe,
    StopProbe,
    Tick,
)

pytestmark = pytest.mark.unit

PATHS = {"model": "v1", "cache": "v1", "rules": "v1"}
POLICY = BreakerPolicy(
    open_s=10.0, cooldown_s=20.0, probe_s=5.0, probes=3, settled_s=60.0, share=0.1
)


def made(policy=POLICY, paths=PATHS, before=None, now=0.0):
    return Breakers(paths, now=now, policy=policy, before=before)


def of(split, path):
    return next(item for item in split.state.breakers if item.path == path)


def fail(split, path, now=0.0, why="slow"):
    return split.handle(PathFailed(path=path, why=why), now)


def probed(split, path, now, *, good, probe=None):
    number = of(split, path).probe if probe is None else probe
    return split.handle(ProbeEnded(path=path, probe=number, good=good), now)


def half_open(policy=POLICY):
    """The first path is being probed since time 10."""
    split = made(policy)
    fail(split, "model")
    assert split.handle(Tick(), 10.0) == [StartProbe(path="model", probe=1, share=policy.share)]
    return split


def test_the_first_path_is_active_at_first():
    """All breakers are closed; nothing has to be said about it."""
    split = made()
    assert split.active == "model"
    assert split.handle(Tick(), 1e6) == []


def test_a_failure_opens_a_breaker_and_the_next_path_takes_over():
    """Closed to open; why is said."""
    split = made()
    assert fail(split, "model") == [Activate(path="cache", before="model", why="model: slow")]
    assert (of(split, "model").state, of(split, "model").why) == ("open", "slow")
    assert fail(split, "cache", 1.0) == [Activate(path="rules", before="cache", why="cache: slow")]


def test_a_threshold_of_failures_within_a_window():
    """Fewer, or the same over a longer time, open nothing."""
    split = made(BreakerPolicy(failures=3, window_s=10.0))
    assert fail(split, "model", 0.0) == fail(split, "model", 1.0) == []
    assert fail(split, "model", 10.5) == []
    assert fail(split, "model", 10.9) != []
    assert of(split, "model").state == "open"


def test_a_failure_of_a_path_that_is_not_active_opens_it_too():
    """A hot one fails before its turn; the active one stays."""
    split = made()
    assert fail(split, "cache") == []
    assert of(split, "cache").state == "open"
    assert fail(split, "model") == [Activate(path="rules", before="model", why="model: slow")]


def test_an_open_breaker_is_probed_after_a_while():
    """Open to half-open, once, with a share of the items."""
    split = made()
    fail(split, "model")
    assert split.handle(Tick(), 9.9) == []
    assert split.handle(Tick(), 10.0) == [StartProbe(path="model", probe=1, share=0.1)]
    assert of(split, "model").state == "half-open"
    assert split.handle(Tick(), 12.0) == []


def test_a_failure_while_open_or_probed_is_no_news():
    """The probe itself says how it went."""
    split = made()
    fail(split, "model")
    assert fail(split, "model", 1.0) == []
    split = half_open()
    assert fail(split, "model", 11.0) == []
    assert of(split, "model").state == "half-open"


def test_a_good_probe_closes_and_the_path_takes_over_again():
    """Half-open to closed: lowest in order again."""
    split = half_open()
    assert probed(split, "model", 11.0, good=True) == [
        Activate(path="model", before="cache", why="model: a probe succeeded")
    ]
    assert of(split, "model").state == "closed"


def test_several_good_probes_may_be_asked_for():
    """One after another, without a pause; a bad one among them starts the count anew."""
    split = half_open(BreakerPolicy(open_s=10.0, cooldown_s=5.0, successes=2, probes=9))
    assert probed(split, "model", 11.0, good=True) == [
        StartProbe(path="model", probe=2, share=0.05)
    ]
    probed(split, "model", 12.0, good=False)
    assert split.handle(Tick(), 17.0) == [StartProbe(path="model", probe=3, share=0.05)]
    probed(split, "model", 18.0, good=True)
    assert [type(x) for x in probed(split, "model", 19.0, good=True)] == [Activate]


def test_a_probe_that_is_put_off_says_nothing_about_its_path():
    """Half-open to open: begun again as soon as there is a place, with what was counted before."""
    split = half_open(BreakerPolicy(open_s=10.0, successes=2, probes=2))
    probed(split, "model", 11.0, good=True)
    put_off = ProbePutOff(path="model", probe=2)
    assert split.handle(put_off, 12.0, places=0) == [StopProbe(path="model", probe=2)]
    found = of(split, "model")
    assert (found.state, found.bad_probes, found.good_probes) == ("open", 0, 1)
    assert split.handle(put_off, 12.5, places=0) == []
    assert split.handle(Tick(), 13.0) == [StartProbe(path="model", probe=3, share=0.05)]
    assert split.handle(put_off, 13.5) == []  # an earlier one
    assert [type(x) for x in probed(split, "model", 14.0, good=True)] == [Activate]


def test_no_more_probes_than_places():
    """The first in order begins; the others wait."""
    split = made()
    fail(split, "model")
    fail(split, "cache")
    assert split.handle(Tick(), 10.0, places=1) == [StartProbe(path="model", probe=1, share=0.1)]
    assert of(split, "cache").state == "open"
    assert split.handle(Tick(), 11.0, places=1) == [StartProbe(path="cache", probe=1, share=0.1)]


def test_the_next_good_probe_waits_for_a_place():
    """Like the first one: where there was a node, a unit may have come to run since."""
    split = half_open(BreakerPolicy(open_s=10.0, successes=2))
    ended = ProbeEnded(path="model", probe=1, good=True)
    assert split.handle(ended, 11.0, places=0) == []
    assert split.handle(Tick(), 12.0, places=0) == []
    assert split.handle(Tick(), 13.0) == [StartProbe(path="model", probe=2, share=0.05)]
    assert [type(x) for x in probed(split, "model", 14.0, good=True)] == [Activate]


def test_what_is_given_up_opens_below_the_threshold():
    """Nothing more will be heard of it."""
    split = made(BreakerPolicy(failures=3))
    assert fail(split, "model", 1.0) == []
    last = PathFailed(path="model", why="held", given_up=True)
    assert [type(x) for x in split.handle(last, 2.0)] == [Activate]


@pytest.mark.parametrize("failures", [2, 3, 20])
def test_a_failure_that_lasts_reaches_the_threshold(failures):
    """Within the window, however seldom it is heard of."""
    split = made(BreakerPolicy(failures=failures, window_s=60.0))
    fail(split, "model", 100.0)
    now = 100.0
    while of(split, "model").state == "closed":
        now += 0.5
        assert now < 160.0
        if split.counts_again("model", now):
            fail(split, "model", now)
    assert now >= 100.0 + 60.0 / 4


def test_a_bad_probe_opens_and_cools_down():
    """Half-open to open; the next probe is due after the cool-down, not after the open time."""
    split = half_open()
    assert probed(split, "model", 12.0, good=False) == []
    assert of(split, "model").state == "open"
    assert split.handle(Tick(), 31.9) == []
    assert split.handle(Tick(), 32.0) == [StartProbe(path="model", probe=2, share=0.1)]


def test_a_probe_that_does_not_end_is_a_bad_one():
    """It is stopped, and counted."""
    split = half_open()
    assert split.handle(Tick(), 15.0) == [StopProbe(path="model", probe=1)]
    assert (of(split, "model").state, of(split, "model").bad_probes) == ("open", 1)
    assert of(split, "model").why == "a probe did not end in time"


def test_an_answer_of_an_earlier_probe_does_not_count():
    """It was stopped; whatever it says comes too late."""
    split = half_open()
    split.handle(Tick(), 15.0)
    assert probed(split, "model", 16.0, good=True, probe=1) == []
    split.handle(Tick(), 35.0)
    assert probed(split, "model", 36.0, good=True, probe=1) == []
    assert of(split, "model").state == "half-open"


def test_too_many_bad_probes_and_a_path_has_failed_for_good():
    """It is shut down and never probed again."""
    split = half_open()
    now = 10.0
    for _ in range(2):
        probed(split, "model", now, good=False)
        now += 20.0
        split.handle(Tick(), now)
    why = "3 probes failed; the last: a probe failed"
    assert probed(split, "model", now, good=False) == [ShutDown(path="model", why=why)]
    assert of(split, "model").state == "failed"
    assert split.handle(Tick(), now + 1e6) == []
    assert fail(split, "model", now + 1e6) == []


def test_a_relapse_on_probation_is_a_bad_probe():
    """A path that only fails under load is not switched to and fro for ever."""
    split = half_open()
    now = 10.0
    for count in (1, 2):
        probed(split, "model", now, good=True)
        assert fail(split, "model", now + 1) == [
            Activate(path="cache", before="model", why="model: slow")
        ]
        assert of(split, "model").bad_probes == count
        now += 21.0
        split.handle(Tick(), now)
    probed(split, "model", now, good=True)
    commands = fail(split, "model", now + 1)
    assert [type(x) for x in commands] == [ShutDown, Activate]
    assert of(split, "model").state == "failed"


def test_a_path_that_has_settled_has_a_clean_record():
    """After its probation, a failure is a first one again."""
    split = half_open()
    probed(split, "model", 11.0, good=False)
    split.handle(Tick(), 31.0)
    probed(split, "model", 32.0, good=True)
    assert of(split, "model").bad_probes == 1
    split.handle(Tick(), 92.0)
    assert of(split, "model").bad_probes == 0
    fail(split, "model", 93.0)
    assert of(split, "model").bad_probes == 0


def test_when_all_are_down_it_is_said_and_the_first_to_return_goes_on():
    """Nothing is active meanwhile; probes go on."""
    split = made(paths={"a": "1", "b": "1"})
    fail(split, "a")
    assert fail(split, "b", 5.0) == [AllDown(before="b", why="slow")]
    assert split.active is None
    assert split.handle(Tick(), 15.0) == [
        StartProbe(path="a", probe=1, share=0.1),
        StartProbe(path="b", probe=1, share=0.1),
    ]
    assert probed(split, "b", 16.0, good=True) == [
        Activate(path="b", before=None, why="b: a probe succeeded")
    ]
    assert probed(split, "a", 17.0, good=True) == [
        Activate(path="a", before="b", why="a: a probe succeeded")
    ]


def test_what_a_person_opens_stays_open():
    """No probe is made, and one under way is stopped; closing by hand forgives everything."""
    split = half_open()
    assert split.handle(OpenAsked(path="model"), 11.0) == [StopProbe(path="model", probe=1)]
    assert split.handle(Tick(), 1e6) == []
    assert of(split, "model").by_hand
    assert split.handle(CloseAsked(path="model"), 1e6) == [
        Activate(path="model", before="cache", why="model: closed by hand")
    ]
    assert (of(split, "model").by_hand, of(split, "model").bad_probes) == (False, 0)


def test_the_active_path_may_be_opened_by_hand():
    """The next one takes over at once."""
    split = made()
    assert split.handle(OpenAsked(path="model"), 0.0) == [
        Activate(path="cache", before="model", why="model: opened by hand")
    ]


@pytest.mark.parametrize("state", ["open", "half-open", "failed"])
def test_closing_by_hand_works_from_every_state(state):
    """A probe under way is stopped; of a closed one there is nothing to say."""
    split = half_open(BreakerPolicy(open_s=10.0, probes=1 if state == "failed" else 3))
    if state != "half-open":
        probed(split, "model", 11.0, good=False)
    assert of(split, "model").state == state
    commands = split.handle(CloseAsked(path="model"), 12.0)
    stopped = [StopProbe(path="model", probe=1)] if state == "half-open" else []
    assert commands == [
        *stopped,
        Activate(path="model", before="cache", why="model: closed by hand"),
    ]
    assert split.handle(CloseAsked(path="model"), 13.0) == []


def test_closing_by_hand_ends_the_probation():
    """Of one that a probe has closed: its next failure is a first one, not the last bad probe."""
    split = half_open(BreakerPolicy(open_s=10.0, probes=2))
    probed(split, "model", 11.0, good=False)
    split.handle(Tick(), 26.0)
    probed(split, "model", 27.0, good=True)
    assert split.handle(CloseAsked(path="model"), 28.0) == []
    fail(split, "model", 29.0)
    assert (of(split, "model").state, of(split, "model").bad_probes) == ("open", 0)
    other = made(BreakerPolicy(failures=2))
    fail(other, "model", 1.0)
    other.handle(CloseAsked(path="model"), 2.0)
    assert fail(other, "model", 3.0) == []  # the one before counts no more


def test_a_failed_path_may_be_opened_by_hand():
    """Then it is as any other that a person has opened."""
    split = half_open(BreakerPolicy(open_s=10.0, probes=1))
    probed(split, "model", 11.0, good=False)
    split.handle(OpenAsked(path="model"), 12.0)
    assert of(split, "model").state == "open"
    assert split.handle(Tick(), 1e6) == []


def test_a_preferred_path_is_active_whenever_it_may():
    """Before those of lower order, and not while its breaker is open."""
    split = made()
    assert split.handle(PreferAsked(path="rules"), 0.0) == [
        Activate(path="rules", before="model", why="rules is preferred")
    ]
    assert fail(split, "rules", 1.0) == [Activate(path="model", before="rules", why="rules: slow")]
    split.handle(Tick(), 11.0)
    assert probed(split, "rules", 12.0, good=True) == [
        Activate(path="rules", before="model", why="rules is preferred")
    ]
    assert split.handle(PreferAsked(), 13.0) == [
        Activate(path="model", before="rules", why="model: first in order")
    ]


@pytest.mark.parametrize(
    "event", [OpenAsked(path="x"), CloseAsked(path="x"), PreferAsked(path="x")]
)
def test_unknown_paths_are_refused(event):
    """With the names there are."""
    with pytest.raises(BadInputError, match="no path 'x'; there are: model, cache, rules"):
        made().handle(event, 0.0)


def test_a_split_needs_a_path():
    """There is nothing to choose from otherwise."""
    with pytest.raises(BadInputError, match="at least one path"):
        made(paths={})


@pytest.mark.parametrize(
    "changes", [{"failures": 0}, {"probes": 0}, {"open_s": 0.0}, {"share": 0.0}, {"share": 1.5}]
)
def test_a_policy_that_means_nothing_is_refused(changes):
    """Nothing would ever open, or be probed."""
    with pytest.raises(ValueError, match="must be"):
        BreakerPolicy(**changes)


def test_a_changed_pipeline_rebuilds_the_breakers():
    """Paths that are the same go on, changed and new ones begin closed, others are forgotten."""
    split = made()
    for path in PATHS:
        fail(split, path)
    split.handle(PreferAsked(path="rules"), 1.0)
    paths = {"cache": "v1", "model": "v2", "guess": "v1"}
    again = made(paths=paths, before=split.state, now=2.0)
    states = [(item.path, item.state) for item in again.state.breakers]
    assert states == [("cache", "open"), ("model", "closed"), ("guess", "closed")]
    assert again.state.preferred == ""
    assert again.handle(Tick(), 2.0) == [
        Activate(path="model", before=None, why="model: first in order")
    ]


def test_a_coordinator_that_takes_over_begins_a_probe_anew():
    """The one under way has nobody to answer to."""
    split = half_open()
    again = made(before=split.state, now=12.0)
    assert again.active == "cache"
    assert again.handle(Tick(), 12.0) == [StartProbe(path="model", probe=2, share=0.1)]


class SplitWorld(RuleBasedStateMachine):
    """Any events in any order; commands are carried out by a world of its own."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.split = made()
        self.active = "model"
        self.probes = {}
        self.shut = set()

    def tell(self, event):
        for command in self.split.handle(event, self.now):
            match command:
                case Activate(path=path, before=before):
                    assert before == self.active != path
                    self.active = path
                case AllDown(before=before):
                    assert before == self.active is not None
                    self.active = None
                case StartProbe(path=path, probe=probe):
                    assert path not in self.probes
                    assert path not in self.shut
                    self.probes[path] = probe
                case StopProbe(path=path, probe=probe):
                    assert self.probes.pop(path) == probe
                case ShutDown(path=path):
                    self.shut.add(path)

    @rule(step=st.sampled_from([0.1, 3.0, 10.0, 70.0]))
    def wait(self, step):
        self.now += step
        self.tell(Tick())

    @rule(path=st.sampled_from(sorted(PATHS)))
    def fails(self, path):
        self.tell(PathFailed(path=path, why="slow"))

    @rule(path=st.sampled_from(sorted(PATHS)), good=st.booleans(), old=st.booleans())
    def probe_ends(self, path, good, old):
        probe = self.probes.get(path, 0)
        if not old:
            self.probes.pop(path, None)
        self.tell(ProbeEnded(path=path, probe=probe - old, good=good))

    @rule(path=st.sampled_from(sorted(PATHS)), old=st.booleans())
    def put_off(self, path, old):
        before = of(self.split, path)
        self.tell(ProbePutOff(path=path, probe=before.probe - old))
        assert of(self.split, path).bad_probes == before.bad_probes

    @rule(path=st.sampled_from(sorted(PATHS)))
    def opened(self, path):
        self.shut.discard(path)
        self.tell(OpenAsked(path=path))

    @rule(path=st.sampled_from(sorted(PATHS)))
    def closed(self, path):
        self.shut.discard(path)
        self.tell(CloseAsked(path=path))

    @rule(path=st.sampled_from(["", *sorted(PATHS)]))
    def preferred(self, path):
        self.tell(PreferAsked(path=path))

    @rule()
    def taken_over(self):
        self.split = made(before=self.split.state, now=self.now)
        self.probes = {}
        self.tell(Tick())

    @invariant()
    def lowest_closed_is_active(self):
        state = self.split.state
        may = [item.path for item in state.breakers if item.state == "closed"]
        wanted = state.preferred if state.preferred in may else next(iter(may), None)
        assert self.split.active == self.active == wanted

    @invariant()
    def probes_are_of_half_open_paths(self):
        half = {
            item.path: item.probe for item in self.split.state.breakers if item.state == "half-open"
        }
        assert half == self.probes

    @invariant()
    def counts_are_bounded(self):
        for item in self.split.state.breakers:
            assert item.bad_probes <= POLICY.probes
            assert len(item.failures) <= POLICY.failures
            assert (item.state == "failed") <= (item.bad_probes == POLICY.probes)
            assert not (item.by_hand and item.state != "open")


TestSplitWorld = SplitWorld.TestCase
TestSplitWorld.settings = hypothesis_settings(stateful_step_count=40)
