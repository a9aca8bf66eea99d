"""Each rule on small histories: what it finds, and what it leaves alone."""

from types import SimpleNamespace

import pytest

from holdfast.errors import BadInputError
from holdfast.health.nexus.classify import Nexus, default_rules, load_rules
from holdfast.health.nexus.history import MOST, History, Sample, slope
from holdfast.health.nexus.profile import Profile, ProfilePolicy, load_level
from holdfast.health.nexus.rules import Backlog, Bounds, ErrorRate, Leak, NoOutput, Overload, Rule

pytestmark = pytest.mark.unit

MB = 2**20


def history(count, **fields):
    """Samples a quarter of a second apart; a field is a value or a function of the index."""
    made = History()
    for index in range(count):
        values = {k: v(index) if callable(v) else v for k, v in fields.items()}
        made.add(Sample(at=index / 4, **values))
    return made


def judged(rule, count, **fields):
    return rule.judge("op", history(count, **fields))


def test_a_backlog_with_an_idle_processor():
    """Both, for a while; a busy one, a short queue or an unknown processor is left alone."""
    rule = Backlog(most_waiting=10, least_cpu=0.05, hold_s=2.0)
    assert judged(rule, 10, waiting=11, cpu=0.01) == "11 items wait while it uses 1% of a core"
    assert judged(rule, 8, waiting=11, cpu=0.01) is None
    assert judged(rule, 10, waiting=10, cpu=0.01) is None
    assert judged(rule, 10, waiting=11, cpu=0.5) is None
    assert judged(rule, 10, waiting=11, cpu=None) is None
    assert judged(rule, 10, waiting=lambda i: 11 if i != 5 else 0, cpu=0.01) is None


def test_bounds_of_processor_and_memory():
    """Each for itself; without a bound nothing is found."""
    assert judged(Bounds(), 10, cpu=99.0, memory_bytes=10**12) is None
    assert "the most is 1.50" in judged(Bounds(most_cpu=1.5), 10, cpu=2.0)
    assert "the least is 0.10" in judged(Bounds(least_cpu=0.1), 10, cpu=0.01)
    limit = Bounds(most_memory_bytes=100 * MB)
    assert judged(limit, 10, memory_bytes=200 * MB) == "uses 200 MB, the most is 100 MB"
    assert judged(limit, 10, memory_bytes=lambda i: 200 * MB if i == 9 else MB) is None
    assert judged(limit, 10) is None


def test_no_output_while_items_wait():
    """Longer than it usually takes, and only while something waits."""
    rule = NoOutput(hold_s=1.0, usual=3.0, first_s=5.0, early=0)
    stops = lambda i: min(i, 20)  # noqa: E731
    assert judged(rule, 24, waiting=5, given=stops) is None
    assert "gave out nothing for 1.2 s" in judged(rule, 26, waiting=5, given=stops)
    assert judged(rule, 60, waiting=0, given=stops) is None
    slow = lambda i: min(i // 8, 4)  # noqa: E731
    assert judged(rule, 50, waiting=5, given=slow) is None
    assert "limit 5.2 s" in judged(rule, 60, waiting=5, given=slow)
    assert judged(rule, 20, waiting=5) is None
    assert "limit 5.0 s" in judged(rule, 22, waiting=5)
    assert judged(rule, 1, waiting=5) is None


def test_one_that_is_behind_may_take_as_long_as_its_backlog_took_to_arrive():
    """Sixteen seconds of input at once may take that long; what begins may take its time."""
    behind = {
        "waiting": lambda i: 64 + max(0, i - 40),
        "arrived": lambda i: 100 + i,
        "given": lambda i: min(i, 40),
    }
    assert judged(NoOutput(hold_s=1.0), 70, **behind) is None
    assert "limit 17." in judged(NoOutput(hold_s=1.0), 115, **behind)
    burst = {
        "waiting": lambda i: 0 if i < 60 else 40,
        "arrived": lambda i: i,
        "given": lambda i: min(i, 50),
    }
    assert judged(NoOutput(hold_s=1.0), 75, **burst) is None
    assert judged(NoOutput(hold_s=1.0), 120, **burst) is not None
    steady = {
        "waiting": lambda i: 1 + max(0, i - 40),
        "arrived": lambda i: 100 + i,
        "given": lambda i: min(i, 40),
    }
    assert "limit 1." in judged(NoOutput(hold_s=1.0), 48, **steady)
    early = {"waiting": 2, "arrived": lambda i: i, "given": lambda i: min(i, 3)}
    assert judged(NoOutput(hold_s=1.0), 30, **early) is None
    assert judged(NoOutput(hold_s=1.0), 60, **early) is not None


def test_overload_with_its_trend():
    """More comes than goes, and the queue is long; a burst that is worked off is left alone."""
    rule = Overload(span_s=4.0, margin=0.3, least_waiting=10, horizon_s=2.0)
    more = {"arrived": lambda i: 100 * i, "taken": lambda i: 20 * i, "waiting": lambda i: 80 * i}
    more["given"] = lambda i: i
    assert judged(rule, 40, **more) == "400 items a second come, 80 are processed, 3120 wait"
    assert judged(rule, 10, **more) is None
    assert judged(rule, 40, **{**more, "arrived": None}) is None
    assert judged(rule, 40, **{**more, "waiting": lambda i: 5000 - 80 * i}) is None
    assert judged(rule, 40, **{**more, "taken": lambda i: 90 * i}) is None
    assert judged(rule, 40, **{**more, "waiting": lambda i: i}) is None


def test_errors_in_a_while():
    """More than the most; those of long ago do not count."""
    rule = ErrorRate(most=3, span_s=10.0)
    assert judged(rule, 20, errors=lambda i: i) == "19 errors in 10 s"
    assert judged(rule, 4, errors=lambda i: i) is None
    assert judged(rule, 100, errors=lambda i: min(i, 40)) is None


def test_errors_that_each_end_a_process():
    """The next one begins to count at 0, but for the errors."""
    rule = ErrorRate(most=3, span_s=10.0)
    again = {"given": lambda i: i % 4, "errors": lambda i: i // 4}
    assert judged(rule, 20, **again) == "4 errors in 10 s"
    assert judged(rule, 16, **again) is None
    assert judged(rule, 100, given=lambda i: i % 4, errors=lambda i: min(i // 4, 9)) is None


def test_memory_that_only_grows():
    """By much, after a settled time; what starts, sways or grows slowly is left alone."""
    rule = Leak(span_s=1.0, gain=0.4, settled_s=10.0)
    leaks = lambda i: (300 + 60 * max(0, i - 50)) * MB  # noqa: E731
    assert judged(rule, 56, memory_bytes=leaks) == "memory grew by 240 MB in 1.0 s to 600 MB"
    assert judged(rule, 53, memory_bytes=leaks) is None
    assert judged(rule, 40, memory_bytes=lambda i: leaks(i + 20)) is None
    assert judged(rule, 60, memory_bytes=lambda i: (300 + 200 * (i % 3)) * MB) is None
    assert judged(rule, 60, memory_bytes=lambda i: (300 + i) * MB) is None
    assert judged(rule, 60, memory_bytes=lambda i: (1 + i) * MB // 4) is None
    assert judged(rule, 60) is None


def test_one_allocation_seen_in_many_measurements_is_no_leak():
    """However often it is measured while it is made; one that goes on is."""
    made = History()
    for index in range(320):
        made.add(Sample(at=index / 8, memory_bytes=300 * MB))
    for step in range(1, 4):
        made.add(Sample(at=(319 + step) / 8, memory_bytes=(300 + 60 * step) * MB))
    assert Leak().judge("x", made) is None
    made.add(Sample(at=323 / 8, memory_bytes=540 * MB))
    assert Leak().judge("x", made) is not None


def test_a_history_begins_anew_with_another_process():
    """Its counters begin at 0; nor does a sample that came late count."""
    made = history(10, taken=lambda i: i)
    made.add(Sample(at=2.0, taken=99))
    assert len(made) == 10
    made.add(Sample(at=3.0, taken=1))
    assert len(made) == 1
    assert made.recent(5.0) == [Sample(at=3.0, taken=1)]


def test_a_history_is_bounded():
    """In number and in age."""
    assert len(history(5000)) <= MOST
    young = History(window_s=2.0)
    for index in range(100):
        young.add(Sample(at=index / 4))
    assert young.span_s <= 2.0
    assert History().span_s == 0.0
    assert History().last is None
    assert History().gained(1.0, lambda x: x.taken) == 0


def test_a_trend_of_one_moment_is_flat():
    """There is nothing to divide by."""
    assert slope([]) == slope([(1.0, 5.0)]) == slope([(1.0, 5.0), (1.0, 9.0)]) == 0.0
    assert slope([(0.0, 1.0), (2.0, 5.0)]) == 2.0


def profiled(rule, samples):
    """All that a profile says of samples, learning whenever it says nothing."""
    made, said = History(), []
    for sample in samples:
        made.add(sample)
        why = rule.judge("op", made)
        if why is None:
            rule.learn("op", made)
        said.append(why)
    return said


def steady(count, start=0.0, taken=0, rate=100, **fields):
    return [
        Sample(at=start + i / 4, taken=int(taken + rate * i / 4), given=1, **fields)
        for i in range(count)
    ]


def test_a_profile_finds_what_was_never_so():
    """Only after enough was learned, and after several blocks in a row."""
    rule = Profile(ProfilePolicy(settle_s=1.0, least=10, blocks=3))
    calm = steady(40, memory_bytes=100 * MB, batch_ms=50.0, cpu=0.2)
    more = steady(10, start=10.0, taken=1000, memory_bytes=400 * MB, batch_ms=50.0, cpu=0.2)
    said = profiled(rule, [*calm, *more])
    assert said[:40] == [None] * 40
    found = [why for why in said[40:] if why]
    assert found
    assert found[0].startswith("memory 4.194e+08, at this load at most 2.013e+08 is normal")
    assert said[40] is said[41] is None
    young = Profile(ProfilePolicy(settle_s=1.0, least=100, blocks=3))
    assert set(profiled(young, [*calm, *more])) == {None}


def test_a_profile_judges_less_load_by_what_was_normal_for_more():
    """One that fails takes less in; a load that was never seen is learned, not judged."""
    calm = steady(60, rate=100, batch_ms=50.0)
    slow = steady(12, start=15.0, taken=1500, rate=4, batch_ms=900.0)
    assert any(profiled(Profile(ProfilePolicy(settle_s=1.0, least=10)), [*calm, *slow]))
    busy = steady(12, start=15.0, taken=1500, rate=5000, batch_ms=900.0)
    assert not any(profiled(Profile(ProfilePolicy(settle_s=1.0, least=10)), [*calm, *busy]))


def test_a_profile_forgets():
    """Of an operator that was changed, nothing is known."""
    rule = Profile(ProfilePolicy(settle_s=1.0, least=10, blocks=2))
    profiled(rule, steady(40, batch_ms=50.0))
    rule.forget("op")
    assert not any(profiled(rule, steady(12, start=10.0, taken=1000, batch_ms=900.0)))


def test_levels_of_load_are_powers_of_two():
    """Up to one item a second is the lowest."""
    assert [load_level(rate) for rate in (0.0, 0.9, 1.0, 3.0, 4.0, 1000.0)] == [0, 0, 1, 2, 3, 10]


class Moody(Rule):
    """Dislikes every third sample."""

    name = "moody"

    def __init__(self):
        self.learned = 0

    def judge(self, operator, history):
        return "mood" if len(history) % 3 == 0 else None

    def learn(self, operator, history):
        self.learned += 1


def test_findings_begin_and_end():
    """Each with when it was first found; rules learn only while none finds anything."""
    rule = Moody()
    nexus = Nexus([rule, NoOutput()])
    found = [nexus.observe("op", Sample(at=float(i))) for i in range(1, 7)]
    assert [len(item) for item in found] == [0, 0, 1, 0, 0, 1]
    assert (found[2][0].rule, found[2][0].why, found[2][0].since) == ("moody", "mood", 3.0)
    assert rule.learned == 4
    assert nexus.findings() == found[5]
    nexus.forget("op")
    assert nexus.findings() == ()


class Broken(Moody):
    """Has a fault of its own."""

    name = "broken"

    def judge(self, operator, history):
        raise ZeroDivisionError

    def learn(self, operator, history):
        raise KeyError(operator)


def test_a_rule_that_raises_says_nothing(caplog):
    """It would end the coordinator, and every one that takes over; others judge as before."""
    nexus = Nexus([Broken(), Moody()])
    found = [nexus.observe("op", Sample(at=float(i))) for i in range(1, 7)]
    assert [[item.rule for item in one] for one in found] == [[], [], ["moody"], [], [], ["moody"]]
    assert [record.getMessage() for record in caplog.records] == [
        "the rule 'broken' cannot judge op"
    ]


def test_a_rule_that_cannot_be_loaded_is_told_by_its_entry_point():
    """Rather than by a traceback of every coordinator that is started."""
    with pytest.raises(BadInputError, match="entry point gone: cannot be loaded: ImportError: no"):
        load_rules([SimpleNamespace(name="gone", load=_cannot_be_imported)])


def _cannot_be_imported():
    raise ImportError("no such package")


def test_rules_are_loaded_from_entry_points():
    """Classes and instances; what is no rule, or has a name that is taken, is refused."""
    point = SimpleNamespace(name="moody", load=lambda: Moody)
    assert [rule.name for rule in load_rules([point])][-1] == "moody"
    assert len(load_rules([])) == len(default_rules()) == len(load_rules())
    made = SimpleNamespace(name="made", load=Moody)
    assert load_rules([made])[-1].name == "moody"
    with pytest.raises(BadInputError, match="entry point bad: is no rule"):
        load_rules([SimpleNamespace(name="bad", load=lambda: 7)])
    with pytest.raises(BadInputError, match="two rules are called 'moody'"):
        Nexus(load_rules([point, made]))
