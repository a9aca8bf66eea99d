"""PPA's measured figures: what is asked of the machine, and what is said of its answers."""

import numpy as np
import pytest
from tests.unit.reproduce.test_reproduce import shipped

from holdfast.clock import SystemClock
from holdfast.errors import BadInputError
from holdfast.planners.ppa.fidelity import fidelity_model
from holdfast.reproduce import Effort, find
from holdfast.reproduce.ppa_metrics import as_unions
from holdfast.reproduce.ppa_runs import OPERATORS, PACED
from holdfast.testing.trials import Measured

pytestmark = pytest.mark.unit


class Lab:
    """A machine whose recoveries are known."""

    def __init__(self, hot=0.2, passive=2.0, batch=0.1, speed=8.0):
        self.hot, self.passive, self.batch, self.speed = hot, passive, batch, speed
        self.trials = []

    def __call__(self, trial):
        self.trials.append(trial)
        interval = dict(trial.batch_epochs).get("o1", 1)
        paced = {name: self.batch / dict(trial.batch_epochs)[name] for name in trial.watched}
        return Measured(
            recovery=tuple(
                {
                    name: self.hot if name in trial.replicate else self.passive + 0.3 * interval
                    for name in killed
                }
                for killed in trial.kills
            ),
            cpu={name: 0.05 + cores for name, cores in paced.items()} if trial.cpu_s else {},
            catch_up_s=2 * trial.behind_s / self.speed if trial.behind_s else None,
            catch_up_input_s=2 * trial.behind_s if trial.behind_s else None,
        )


def make(figure, lab, *, full=False):
    (item,) = find("ppa", figure)
    assert item.measured
    effort = Effort(full=full, clock=SystemClock(), topology=shipped, lab=lab)
    return item.make(effort)


@pytest.mark.parametrize("figure", ["8", "9"])
def test_recovery_by_technique(figure):
    """Active is fastest, checkpoints grow with their interval, replay with the window."""
    lab = Lab()
    made = make(figure, lab, full=True)
    assert len(made.rows) == 4
    assert {claim.verdict for claim in made.claims} == {"holds"}
    assert made.column("active (s)") == (0.2,) * 4
    assert made.column("checkpoint 1 s (s)") == pytest.approx((2.3,) * 4)
    assert made.column("checkpoint 4 s (s)") == pytest.approx((3.2,) * 4)
    # A window of 10 s is worked off in 1.25 s, one of 30 s in 3.75 s.
    assert made.column("source replay (s)") == pytest.approx((3.55, 6.05, 3.55, 6.05))
    together = {len(killed) for trial in lab.trials for killed in trial.kills}
    assert together == ({1} if figure == "8" else {2})
    assert {trial.replicate for trial in lab.trials if trial.kills} == {(), OPERATORS}


def test_a_quick_sample_says_what_it_cannot_compare():
    """One rate and one window: nothing is claimed of how recovery grows with them."""
    made = make("8", Lab())
    assert len(made.rows) == 1
    assert [claim.verdict for claim in made.claims] == ["holds", "holds", "not comparable"]


def test_a_machine_on_which_nothing_is_gained_is_told_so():
    """Followers no faster than checkpoints, and intervals without effect."""
    made = make("8", Lab(hot=9.0, passive=2.0))
    assert made.claims[0].verdict == "differs"


def test_checkpoints_cost_by_interval():
    """What batches cost is told from what rows cost by a line through the intervals."""
    made = make("10", Lab())
    assert made.column("interval (s)") == PACED
    assert made.column("checkpoints over processing") == pytest.approx((2.0, 1.0, 0.5, 0.25))
    assert made.claims[0].verdict == "holds"


def test_half_replicated():
    """The replicated half is back early, the whole as late as without replicas."""
    made = make("12", Lab())
    assert made.column("all recovered (s)") == pytest.approx((0.2, 2.3, 2.3))
    assert made.column("replicated part recovered (s)") == (0.2, 0.2, None)
    assert [claim.verdict for claim in made.claims] == ["holds", "holds"]


def test_without_a_machine_they_are_refused():
    """In one line, before anything starts."""
    with pytest.raises(BadInputError, match="measured on Spark"):
        make("8", None)


def test_completeness_takes_joins_for_unions():
    """Of the join query, IC counts a branch without the other; OF does not."""
    topology = shipped("q2-incidents")
    unions = as_unions(topology)
    names = fidelity_model(topology).names
    alive = np.asarray([not name.startswith("reports") for name in names])
    assert fidelity_model(topology).fidelity(alive) == 0.0
    assert fidelity_model(unions).fidelity(alive) > 0.2
