"""Terms and journals under random schedules: one leader a term, one history, whoever sleeps when.

Processes run the production decisions (`election`, `tenure`, `streams.term`) against a memory.
Between any two operations any of them may be killed, sleep for long, or be cut off from the others;
what a leader acts on is compared with what every other one acted on.
"""

import random

import pytest

from holdfast.control import election as el
from holdfast.control import tenure
from holdfast.streams.records import Term
from holdfast.streams.term import Terms
from holdfast.testing.hands.memory import Memory

pytestmark = pytest.mark.unit

SCHEDULES = 1_000
STEPS = 200
POLICY = el.ElectionPolicy(silence_s=15.0, lost_s=3.0, stagger_s=35.0, pause_s=60.0)
"""In operations of the schedule instead of seconds."""


class ForkError(AssertionError):
    """Two leaders have acted on histories that do not go on from each other."""


class Files:
    """What the processes share: records and journals, each operation atomic."""

    def __init__(self):
        self.records = Memory()
        self.journals = {}

    def execute(self, operation):
        match operation:
            case tenure.ListJournals():
                return sorted(self.journals)
            case tenure.ReadJournal(term):
                return self.journals.get(term)
            case tenure.BeginJournal(term, found):
                self.journals[term] = found or ()
            case tenure.AppendJournal(term, facts):
                # A journal that was removed under its writer is a file without a name.
                if term in self.journals:
                    self.journals[term] += facts
            case tenure.RemoveJournal(term):
                self.journals.pop(term, None)
            case _:
                return self.records.execute(operation)
        return None


class Coordinator:
    """A process: it follows, claims, leads until it finds a newer term, and dies when told to."""

    def __init__(self, world, name, rank):
        self.world, self.name = world, name
        self.election = el.Election(rank=rank, now=world.now, policy=POLICY)
        self.terms = Terms(name)
        self.term = None
        self.history = ()
        self.sleeps_until = 0.0
        self.cut_off = False
        self.body = self.run()
        self.operation = next(self.body)

    def run(self):
        while not self.election.handle(el.Tick(), self.world.now):
            yield None
            leader = self.world.heard_by(self)
            self.election.handle(
                el.Lost() if leader is None else el.Heard(term=leader), self.world.now
            )
        term = yield from self.world.begin(self)
        if term is None:
            self.election.handle(el.Outrun(), self.world.now)
            yield from self.run()
            return
        self.election.handle(el.Claimed(term=term.number), self.world.now)
        self.history = self.world.files.journals.get(term.number, ())
        self.term = term
        while True:
            self.world.count += 1
            fact = f"{self.name}/{self.world.count}"
            self.history += (fact,)
            if not (yield from self.world.decide(self, (fact,))):
                return
            self.world.acted(self)

    def step(self):
        result = None if self.operation is None else self.world.files.execute(self.operation)
        try:
            self.operation = self.body.send(result)
        except StopIteration:
            return False
        return True


class World:
    """One random schedule."""

    def __init__(self, seed, *, careless=False):
        self.rng = random.Random(seed)
        self.careless = careless
        self.files = Files()
        self.now = 0.0
        self.count = 0
        self.leaders = {}
        self.longest = ()
        self.acts = 0
        self.processes = [Coordinator(self, f"c{rank}-0", rank) for rank in range(3)]
        self.born = len(self.processes)

    def begin(self, process):
        return tenure.begin(process.terms)

    def decide(self, process, facts):
        if self.careless:
            return self._careless(process, facts)
        return tenure.decide(process.terms, process.term, facts)

    def _careless(self, process, facts):
        """As if nobody looked whether the term is still the newest before acting."""
        yield tenure.AppendJournal(process.term.number, facts)
        return True

    def heard_by(self, follower):
        """The newest term whose leader lives, is awake and can be reached; None: there is none."""
        terms = [
            other.term.number
            for other in self.processes
            if other.term is not None
            and other.sleeps_until <= self.now
            and not other.cut_off
            and not follower.cut_off
        ]
        return max(terms, default=None)

    def acted(self, process):
        self.acts += 1
        number = process.term.number
        if self.leaders.setdefault(number, process.name) != process.name:
            raise ForkError(f"two leaders in term {number}")
        shorter, longer = sorted((process.history, self.longest), key=len)
        if longer[: len(shorter)] != shorter:
            raise ForkError(f"term {number}: {process.history} besides {self.longest}")
        self.longest = longer

    def run(self, steps=STEPS):
        for _ in range(steps):
            self.now += 1.0
            awake = [one for one in self.processes if one.sleeps_until <= self.now]
            if awake:
                self._go_on(self.rng.choice(awake))
        return self

    def _go_on(self, process):
        odds = 0.04 if process.term is not None else 0.01
        fate = self.rng.random()
        if fate < odds:
            process.sleeps_until = self.now + self.rng.choice([5, 15, 30])
        elif fate < 1.5 * odds:
            process.cut_off = not process.cut_off
        if fate > 1 - odds or not process.step():
            # Killed, or deposed: its launcher starts another one in its place.
            self.processes.remove(process)
            rank = int(process.name[1])
            self.processes.append(Coordinator(self, f"c{rank}-{self.born}", rank))
            self.born += 1


@pytest.mark.sample(block=0)
@pytest.mark.parametrize("block", range(10))
def test_one_leader_a_term_and_one_history(block):
    """In ten thousand random schedules nobody acts on what another one's history lacks."""
    acts = terms = changes = 0
    for seed in range(block * SCHEDULES, (block + 1) * SCHEDULES):
        world = World(seed).run()
        acts += world.acts
        terms += len(world.leaders)
        changes += len(world.leaders) > 1
    # The schedules do what they are for: leaders act, and most see more than one.
    assert acts > 5 * SCHEDULES
    assert terms > 1.5 * SCHEDULES
    assert changes > SCHEDULES / 2


def test_a_leader_that_does_not_look_forks_the_history():
    """The look after the append keeps the history one: without it, schedules find a fork."""
    with pytest.raises(ForkError):
        all(World(seed, careless=True).run() for seed in range(SCHEDULES))


def test_a_new_term_removes_the_journals_before():
    """Its own has all that was in them."""
    files = Files()
    for name in ("a", "b"):
        terms = Terms(name)
        steps = tenure.begin(terms)
        term = _drive(steps, files)
        assert _drive(tenure.decide(terms, term, (name,)), files)
    assert files.journals == {1: ("a", "b")}


def test_a_journal_that_is_gone_means_a_newer_leader():
    """One who slept between the list and the reading begins nothing."""
    files = Files()
    _drive(tenure.begin(Terms("a")), files)
    steps = tenure.begin(Terms("sleeper"))
    operation = next(steps)
    while not isinstance(operation, tenure.ReadJournal):
        operation = steps.send(files.execute(operation))
    assert _drive(tenure.begin(Terms("b")), files) == Term(number=2, holder="b", writer="b")
    with pytest.raises(StopIteration) as ended:
        steps.send(files.execute(operation))
    assert ended.value.value is None
    assert list(files.journals) == [2]


def _drive(steps, files):
    operation = next(steps)
    while True:
        try:
            operation = steps.send(files.execute(operation))
        except StopIteration as ended:
            return ended.value
