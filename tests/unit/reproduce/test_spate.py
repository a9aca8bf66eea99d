"""SPATE's measured figures: what is asked of the machine, and what is said of its answers."""

import pytest
from tests.unit.reproduce.test_reproduce import shipped

from holdfast.clock import SystemClock
from holdfast.reproduce import Effort, find
from holdfast.testing.trials import Measured, Traffic

pytestmark = pytest.mark.unit


class Lab:
    """A machine whose recoveries and pauses are known."""

    def __init__(self, passive=1.0, pause=0.5, upstream=0.1, speed=4.0, cold=6.0):
        self.passive, self.pause = passive, pause
        self.upstream, self.speed, self.cold = upstream, speed, cold
        self.trials = []

    def __call__(self, trial):
        self.trials.append(trial)
        interval = dict(trial.batch_epochs).get("count", 1)
        begun = [10.0 * (1 + index) for index, _ in enumerate(trial.scales)]
        late = {"split": self.upstream, "count": self.pause}
        return Measured(
            recovery=tuple({"count": self.passive + 0.1 * interval} for _ in trial.kills),
            restarts=(self.cold,) * trial.restarts,
            repartition_s=3.0 if trial.repartition else None,
            traffic=self.traffic(trial) if trial.watch_s else None,
            handovers=tuple(
                (shards, at, self.pause)
                for (_, shards), at in zip(trial.scales, begun, strict=True)
            ),
            delays={
                name: tuple(
                    (float(at), 0.2 + (more if float(at) - 1 in begun else 0.0)) for at in range(40)
                )
                for name, more in late.items()
                if trial.scales
            },
            catch_up_s=2 * trial.behind_s / self.speed if trial.behind_s else None,
            catch_up_input_s=2 * trial.behind_s if trial.behind_s else None,
        )

    def traffic(self, trial):
        shards = max((number for _, number in trial.scales), default=1)
        return Traffic(
            seconds=trial.watch_s,
            acks_bytes=round(trial.watch_s * 80 * (3 + shards) / trial.trim_every),
            data_bytes=round(trial.watch_s * 60_000),
            kept_bytes=60_000 * (10 + trial.trim_every),
            delay_s=0.2 + len(trial.app) * 1e-4,
        )


def make(figure, lab, *, full=False):
    (item,) = find("spate", figure)
    assert item.measured
    return item.make(Effort(full=full, clock=SystemClock(), topology=shipped, lab=lab))


def verdicts(made):
    return [claim.verdict for claim in made.claims]


def test_a_scaled_operator_pauses_and_the_one_before_it_does_not():
    """Up and down in one run; delays are told slice by slice, with the changes."""
    lab = Lab()
    made = make("12", lab)
    (trial,) = lab.trials
    assert trial.scales == (("count", 2), ("count", 1))
    assert verdicts(made) == ["holds", "holds"]
    assert [row[3] for row in made.rows if row[3]] == ["2 shards", "1 shards"]
    assert "0.10 s" in made.claims[0].ours
    assert verdicts(make("12", Lab(upstream=3.0, pause=2.5))) == ["partly", "partly"]


def test_recovery_grows_with_the_interval_and_beats_replay():
    """A window of thirty seconds is worked off in seven and a half here."""
    made = make("13", Lab(), full=True)
    assert len(made.rows) == 3 * 4
    assert made.rows[0] == (1000, 5, 1.5, 9.0)
    assert verdicts(made) == ["holds", "holds"]
    assert len(make("13", Lab()).rows) == 2
    assert verdicts(make("13", Lab(passive=-9.0)))[1] == "holds"


def test_after_a_scale_up_only_the_new_shape_is_recovered():
    """With synchronous checkpoints all processes begin anew, then half an interval is done again
    and the scaling itself.
    """
    lab = Lab()
    made = make("14", lab, full=True)
    assert [row[:5] for row in made.rows] == [
        (10, 1.1, 7.75, 2.85, 10.25),
        (20, 1.1, 9.0, 4.1, 11.5),
        (30, 1.1, 10.25, 5.35, 12.75),
    ]
    assert verdicts(made) == ["holds"]
    assert made.claims[0].ours == (
        "8.2 times as fast; 3.7 times if SC had spares as well, 10.5 times with Spark's "
        "repartitioning"
    )
    assert verdicts(make("14", Lab(speed=100.0, cold=1.2))) == ["partly"]


def test_acknowledgements_are_few_beside_rows_and_fewer_with_longer_intervals():
    """Of each interval with one shard, and of each number of shards with the shortest."""
    lab = Lab()
    made = make("9", lab, full=True)
    assert [(t.trim_every, t.scales) for t in lab.trials] == [
        (4, ()),
        (16, ()),
        (64, ()),
        (4, (("count", 2),)),
        (4, (("count", 4),)),
    ]
    assert made.rows[0] == (4, 1, 4800.0, 3_600_000.0)
    assert verdicts(made) == ["holds", "holds"]
    assert "0.23% of the rows" in made.claims[0].ours


def test_a_larger_state_delays_slices_little():
    """The difference between the largest and the smallest counts."""
    made = make("10", Lab(), full=True)
    assert [row[0] for row in made.rows] == [500, 50_000, 500_000]
    assert verdicts(made) == ["holds"]


def test_more_is_kept_when_it_is_trimmed_less_often():
    """And ten batches in any case."""
    made = make("11", Lab(), full=True)
    assert made.rows == ((4, 840_000), (16, 1_560_000), (64, 4_440_000))
    assert verdicts(made) == ["holds"]


def test_the_table_has_the_papers_rows_and_ours():
    """Recoveries are those of the figures."""
    made = make("table 9", Lab())
    assert made.figure == "IX"
    assert made.rows[5] == ("SPATE (paper)", 0.007, 0.051, 2.054, 4.957)
    assert made.rows[6][3:] == (1.1, 1.1)
    assert made.rows[8] == ("SC here", None, None, None, 7.75)
    assert verdicts(made) == ["holds"]
