"""Figures 7 and 8 and table III of the FTC paper, by planning; figures 3 and 4 are next door.

Optima come from `exact`, which proves them, where the paper uses an exhaustive search. Which `R`
the plots of the paper sweep is not in its text; neither are the sizes of its lines and trees.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from holdfast.clock import Clock
from holdfast.reproduce.ftc_examples import figure_3, figure_4, plan
from holdfast.reproduce.model import Claim, Effort, Figure, Line, Panel, Reproduction
from holdfast.testing.generators import in_tree, parallel_lines, sentiment, signalguru
from holdfast.testing.generators.common import Weights
from holdfast.topology.graph import Topology

WEIGHTS: Mapping[Weights, str] = {"uniform": "T = 1", "random": "T = 1..10"}
BOUNDS: Mapping[Weights, tuple[float, ...]] = {
    "uniform": (1.0, 2.0, 3.0, 4.0, 5.0, 6.0),
    "random": (10.0, 12.0, 15.0, 20.0, 26.0, 32.0),
}
SWEPT = "which R the plots sweep: 1 to 6 with T = 1, 10 to 32 with T = 1..10"
# Table III, in ms: exhaustive, tree, DAG, share based. None: not applicable.
TABLE_III: Mapping[str, tuple[float, float | None, float, float]] = {
    "Line-u": (54, 0.5, 1.2, 10),
    "Line-n": (57, 0.6, 1.5, 10),
    "Tree-u": (892, 0.8, 1.6, 10),
    "Tree-n": (904, 0.9, 1.8, 10),
    "Guru-u": (1160, None, 20, 8),
    "Guru-n": (1210, None, 23, 10),
    "Senti-560": (12340, None, 287, 28),
    "Senti-1050": (108220, None, 501, 29),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """Backups by algorithm on one shape, averaged over seeds, for each bound."""

    bounds: tuple[float, ...]
    mean: Mapping[str, tuple[float | None, ...]]

    def above(self, algorithm: str) -> float:
        """Backups beyond the optimum over all bounds, in parts of it."""
        best = sum(value or 0.0 for value in self.mean["exact"])
        return sum(value or 0.0 for value in self.mean[algorithm]) / best - 1.0

    def lines(self) -> tuple[Line, ...]:
        return tuple(
            Line(label=name, x=self.bounds, y=values) for name, values in self.mean.items()
        )


def _counts(
    make: Callable[[int], Topology], weights: Weights, algorithms: Sequence[str], seeds: int
) -> _Counts:
    bounds = BOUNDS[weights]
    topologies = [make(seed) for seed in range(1 if weights == "uniform" else seeds)]
    mean: dict[str, tuple[float | None, ...]] = {}
    for algorithm in algorithms:
        mean[algorithm] = tuple(
            _mean([plan(topology, bound, algorithm).count for topology in topologies])
            for bound in bounds
        )
    return _Counts(bounds=bounds, mean=mean)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _sweeps(
    figure: str,
    title: str,
    shapes: Mapping[str, Callable[[Weights, int], Topology]],
    algorithms: Mapping[str, tuple[str, ...]],
    effort: Effort,
) -> tuple[dict[tuple[str, Weights], _Counts], Reproduction]:
    """Backups against R on several shapes with both kinds of weights; claims are added later."""
    found: dict[tuple[str, Weights], _Counts] = {}
    rows: list[tuple[str | float | None, ...]] = []
    panels = []
    every = tuple(dict.fromkeys(name for names in algorithms.values() for name in names))
    for shape, make in shapes.items():
        for weights, label in WEIGHTS.items():
            counts = _counts(partial(make, weights), weights, algorithms[shape], effort.pick(4, 20))
            found[shape, weights] = counts
            for k, bound in enumerate(counts.bounds):
                values = (counts.mean[n][k] if n in counts.mean else None for n in every)
                rows.append((shape, label, bound, *values))
            panels.append(
                Panel(
                    title=f"{shape}, {label}",
                    x_label="recovery bound R",
                    y_label="backups",
                    lines=counts.lines(),
                )
            )
    return found, Reproduction(
        paper="ftc",
        figure=figure,
        title=title,
        stated=("T = 1 and T = 1..10", "exhaustive search as the optimum"),
        assumed=(SWEPT,),
        columns=("topology", "weights", "R", *every),
        rows=tuple(rows),
        panels=tuple(panels),
        claims=(),
        full=effort.full,
    )


def figure_7(effort: Effort) -> Reproduction:
    """Backups on lines and trees."""
    found, made = _sweeps(
        "7",
        "Backups on lines and trees",
        {
            "lines": lambda weights, seed: parallel_lines(5, 10, weights=weights, seed=seed),
            "tree": lambda weights, seed: in_tree(60, weights=weights, seed=seed),
        },
        {"lines": ("exact", "line", "dag", "share"), "tree": ("exact", "tree", "dag", "share")},
        effort,
    )
    own = {"lines": "line", "tree": "tree"}
    worst = max(counts.above(own[shape]) for (shape, _), counts in found.items())
    share = [counts.above("share") for counts in found.values()]
    in_range = min(share) >= 0.21 and max(share) <= 0.43
    return _with(
        made,
        (
            "lines: 5 of 10 tasks; trees: 60 tasks, drawn at random",
            "the share-based baseline orders tasks by their share of the work; the paper names "
            "only the idea",
        ),
        (
            Claim(
                paper="as many backups as the optimum in all four tests",
                source="section V-B1, figure 7",
                ours=f"{worst:.1%} more at most",
                verdict="holds" if worst < 1e-9 else "differs",
                why="" if worst < 1e-9 else "the algorithm is not optimal there",
            ),
            Claim(
                paper="the share-based algorithm uses 21% to 43% more",
                source="section V-B1",
                ours=f"{min(share):.0%} to {max(share):.0%} more",
                verdict="holds" if in_range else "partly",
                why=""
                if in_range
                else "its tie-breaking is not stated; with T = 1 all shares are equal and ours, "
                "which prunes what it does not need, is nearly optimal",
            ),
        ),
    )


def figure_8(effort: Effort) -> Reproduction:
    """Backups on SignalGuru and Twitter Sentiment."""
    algorithms = ("exact", "dag", "share")
    names = ("SignalGuru", "Sentiment (50,20,20)", "Sentiment (30,30,30)")
    found, made = _sweeps(
        "8",
        "Backups on SignalGuru and Twitter Sentiment",
        {
            names[0]: lambda weights, seed: signalguru(weights=weights, seed=seed),
            names[1]: lambda weights, seed: sentiment(50, 20, 20, weights=weights, seed=seed),
            names[2]: lambda weights, seed: sentiment(30, 30, 30, weights=weights, seed=seed),
        },
        dict.fromkeys(names, algorithms),
        effort,
    )
    claims = [
        _close(
            "3% more than the optimum on SignalGuru with T = 1", 0.03, found[names[0], "uniform"]
        ),
        _close("10% more on SignalGuru with T = 1..10", 0.10, found[names[0], "random"]),
    ]
    senti = [found[name, w].above("dag") for name in names[1:] for w in WEIGHTS]
    mean = statistics.fmean(senti)
    claims.append(
        Claim(
            paper="4% more on average on Twitter Sentiment",
            source="section V-B1, figure 8(e) and (f)",
            ours=f"{mean:.0%} more on average ({min(senti):.0%} to {max(senti):.0%})",
            verdict="holds" if mean < 0.06 else "differs",
            why=""
            if mean < 0.06
            else "the paper's greedy is far from the optimum where a whole layer can be covered by "
            "its producers or its consumers; which R it was averaged over is not stated",
        )
    )
    tight = [found[name, w].mean["exact"][0] or 0.0 for name in names for w in WEIGHTS]
    loose = [found[name, w].mean["exact"][-1] or 0.0 for name in names for w in WEIGHTS]
    grows = all(a > b for a, b in zip(tight, loose, strict=True))
    claims.append(
        Claim(
            paper="with a short bound every approach needs many backups",
            source="section V-B1",
            ours=f"the optimum falls from {statistics.fmean(tight):.0f} to "
            f"{statistics.fmean(loose):.0f} backups on average",
            verdict="holds" if grows else "differs",
            why="" if grows else "the optimum does not fall on every shape",
        )
    )
    return _with(
        made,
        ("the parallelism of SignalGuru's nine steps: 4 4 12 12 12 4 4 2 1, 55 tasks as printed",),
        tuple(claims),
    )


def _close(said: str, printed: float, counts: _Counts) -> Claim:
    extra = counts.above("dag")
    return Claim(
        paper=said,
        source="section V-B1, figure 8(b) and (c)",
        ours=f"{extra:.0%} more",
        verdict="holds" if extra <= printed + 0.02 else "differs",
        why=""
        if extra <= printed + 0.02
        else "the drawing of the topology is lost, so its parallelism is ours; and the corrected "
        "algorithm keeps a bound that the printed one breaks",
    )


def _with(made: Reproduction, assumed: tuple[str, ...], claims: tuple[Claim, ...]) -> Reproduction:

    return replace(made, assumed=made.assumed + assumed, claims=claims)


CASES: Mapping[str, Callable[[int], tuple[Topology, float]]] = {
    "Line-u": lambda s: (parallel_lines(5, 10, weights="uniform", seed=s), 3.0),
    "Line-n": lambda s: (parallel_lines(5, 10, weights="random", seed=s), 20.0),
    "Tree-u": lambda s: (in_tree(60, weights="uniform", seed=s), 3.0),
    "Tree-n": lambda s: (in_tree(60, weights="random", seed=s), 20.0),
    "Guru-u": lambda s: (signalguru(weights="uniform", seed=s), 3.0),
    "Guru-n": lambda s: (signalguru(weights="random", seed=s), 20.0),
    "Senti-560": lambda s: (sentiment(50, 20, 20, weights="random", seed=s), 20.0),
    "Senti-1050": lambda s: (sentiment(30, 30, 30, weights="random", seed=s), 20.0),
}
"""Topology and bound by seed, in the order of the table."""


def table_iii(effort: Effort) -> Reproduction:
    """Time to compute a plan."""
    repeats = effort.pick(3, 15)
    rows: list[tuple[str | float | None, ...]] = []
    faster = 0
    for name, make in CASES.items():
        printed = TABLE_III[name]
        ours = [
            None
            if algorithm == "tree" and printed[1] is None
            else _milliseconds(make, algorithm, repeats, effort.clock)
            for algorithm in ("exact", "tree", "dag", "share")
        ]
        faster += (ours[0] or 0.0) < printed[0]
        rows.append((name, *(v for pair in zip(printed, ours, strict=True) for v in pair)))
    heads = ("optimum", "tree", "DAG", "share")
    columns = ("topology", *(f"{h}, {who} (ms)" for h in heads for who in ("paper", "ours")))
    at = tuple(float(k) for k in range(len(rows)))
    optima = [(row[1], row[2]) for row in rows]
    return Reproduction(
        paper="ftc",
        figure="III",
        title="Time to compute a plan",
        stated=("eight cases and their times",),
        assumed=(
            "the second row named Guru-u is Guru-n",
            "R = 3 with T = 1 and 20 with T = 1..10; sizes as in figures 7 and 8",
            "the paper's machine is not stated; ours is the one this runs on",
        ),
        columns=columns,
        rows=tuple(rows),
        panels=(
            Panel(
                title="Time to the optimum",
                x_label="",
                y_label="ms",
                log_y=True,
                ticks=tuple(str(row[0]) for row in rows),
                lines=(
                    Line(label="paper, exhaustive", x=at, y=tuple(_number(a) for a, _ in optima)),
                    Line(label="ours, proved", x=at, y=tuple(_number(b) for _, b in optima)),
                ),
            ),
        ),
        claims=_time_claims(rows, optima, faster),
        full=effort.full,
    )


def _time_claims(
    rows: Sequence[tuple[str | float | None, ...]],
    optima: Sequence[tuple[str | float | None, str | float | None]],
    faster: int,
) -> tuple[Claim, ...]:
    quicker = all((_number(row[8]) or 0) < (_number(row[6]) or 0) for row in rows[-2:])
    return (
        Claim(
            paper="the optimum takes 54 ms to 108 s, growing with the number of links",
            source="table III",
            ours=f"{min(_number(b) or 0 for _, b in optima):.1f} to "
            f"{max(_number(b) or 0 for _, b in optima):.0f} ms, below the paper's in "
            f"{faster} of {len(rows)} cases",
            verdict="differs" if faster else "holds",
            why="branch and cut after reductions instead of trying every plan; a later machine"
            if faster
            else "",
        ),
        Claim(
            paper="the algorithms for trees and DAGs take milliseconds, share less than DAG "
            "on the large ones",
            source="table III and section V-B2",
            ours="; ".join(
                f"{row[0]}: DAG {_number(row[6]) or 0:.0f} ms, share {_number(row[8]) or 0:.0f}"
                for row in rows[-2:]
            ),
            verdict="holds" if quicker else "partly",
            why=""
            if quicker
            else "ours recomputes distances after each choice, which the guarantee needs, and "
            "prunes the baseline's plan as well",
        ),
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _milliseconds(
    make: Callable[[int], tuple[Topology, float]], algorithm: str, repeats: int, clock: Clock
) -> float:
    """The median over seeds; the first call, which loads the solver, does not count."""
    plan(*make(0), algorithm)
    times = []
    for seed in range(repeats):
        topology, bound = make(seed)
        begun = clock.now()
        plan(topology, bound, algorithm)
        times.append(1000.0 * (clock.now() - begun))
    return statistics.median(times)


FIGURES = (
    Figure(paper="ftc", figure="3", title="FTC on lines, step by step", make=figure_3),
    Figure(paper="ftc", figure="4", title="FTC on lines with unlike weights", make=figure_4),
    Figure(paper="ftc", figure="7", title="Backups on lines and trees", make=figure_7),
    Figure(
        paper="ftc", figure="8", title="Backups on SignalGuru and Twitter Sentiment", make=figure_8
    ),
    Figure(paper="ftc", figure="III", title="Time to compute a plan", make=table_iii),
)
